// Products on a GPU without a plan of one's own: a stream keeps plans and workspace. Here a batch that shares its B.
#include "cuda_driver.h"
#include <iostream>
#include <memory>
#include <stdexcept>
#include <tessera.h>
#include <vector>

static void check(tessera_status status) {
  if (status != TESSERA_SUCCESS) throw std::runtime_error(tessera_last_error());
}

// Made by a function that hands out an address, and let go of at the end.
template <typename T> using Owned = std::unique_ptr<T, void (*)(T *)>;

template <typename T, typename Make> static Owned<T> owned(void (*destroy)(T *), Make make) {
  T *made = nullptr;
  check(make(&made));
  return Owned<T>(made, destroy);
}

// Numbers on the device.
class Memory {
public:
  Memory(const std::vector<double> &numbers, CUstream stream) : bytes(sizeof(double) * numbers.size()) {
    CUDA(cuMemAlloc(&address, bytes));
    CUDA(cuMemcpyHtoDAsync(address, numbers.data(), bytes, stream));
    // The numbers may be gone behind this.
    CUDA(cuStreamSynchronize(stream));
  }
  Memory(const Memory &) = delete;
  ~Memory() { cuMemFree(address); }
  void *at() const { return cuda_pointer(address); }
  std::vector<double> read(CUstream stream) const {
    std::vector<double> numbers(bytes / sizeof(double));
    CUDA(cuMemcpyDtoHAsync(numbers.data(), address, bytes, stream));
    CUDA(cuStreamSynchronize(stream));
    return numbers;
  }

private:
  size_t bytes;
  CUdeviceptr address;
};

static void multiply(CUstream stream) {
  const size_t n = 40, count = 3;
  std::vector<double> factors(count * n * n);
  for (size_t at = 0; at < factors.size(); ++at) factors[at] = double(1 + at / (n * n));
  Memory a(factors, stream), b(std::vector<double>(n * n, 0.5), stream);
  Memory c(std::vector<double>(count * n * n), stream);

  auto device = owned<tessera_device>(tessera_device_destroy, tessera_device_create_current);
  auto products = owned<tessera_stream>(tessera_stream_destroy, [&](tessera_stream **made) {
    return tessera_stream_create(device.get(), stream, nullptr, made);
  });

  tessera_matrix A = tessera_row_major(TESSERA_F64, a.at(), n, n, n);
  tessera_matrix B = tessera_row_major(TESSERA_F64, b.at(), n, n, n);
  tessera_matrix C = tessera_row_major(TESSERA_F64, c.at(), n, n, n);
  tessera_batch batch = {sizeof(tessera_batch), count, n * n, 0, n * n};
  tessera_gemm_options options = TESSERA_GEMM_OPTIONS_INIT;
  options.batch = &batch;
  check(tessera_device_gemm_with(products.get(), &options, &A, &B, &C));
  // The first C again: C = A B^T + C.
  B = tessera_transposed(B);
  check(tessera_device_gemm(products.get(), 1, &A, &B, 1, &C));

  std::vector<double> found = c.read(stream);
  for (size_t at = 0; at < count; ++at) std::cout << found[at * n * n] << '\n';
}

int main() {
  CUcontext context;
  CUstream stream;
  cuda_load();
  CUDA(cuInit(0));
  CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  CUDA(cuCtxPushCurrent(context));
  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  multiply(stream);
  CUDA(cuStreamDestroy(stream));
  CUDA(cuCtxPopCurrent(&context));
  CUDA(cuDevicePrimaryCtxRelease(0));
}
