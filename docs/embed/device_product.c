/* D = 2 A^T B - C on a GPU, in a stream and memory of the program's own. Columns are contiguous, as in BLAS. */
#include "cuda_driver.h"
#include <tessera.h>

enum { M = 3, N = 2, K = 4 };

static void check(tessera_status status) {
  if (status == TESSERA_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", tessera_status_string(status), tessera_last_error());
  exit(1);
}

int main(void) {
  const float a[K * M] = {1, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1, 3}; /* A^T is 4 x 3 */
  const float b[K * N] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float c[M * N] = {1, 1, 1, 1, 1, 1};
  float d[M * N];

  cuda_load();
  CUcontext context;
  CUstream stream;
  CUDA(cuInit(0));
  CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  CUDA(cuCtxPushCurrent(context));
  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  /* Once: the kernel is picked and loaded. */
  tessera_device *device;
  tessera_plan *plan;
  check(tessera_device_create_current(&device));
  tessera_gemm_desc desc = tessera_gemm_desc_col_major(TESSERA_F32, M, N, K);
  desc.transa = 1;
  desc.lda = K;
  desc.alpha = 2;
  desc.beta = -1;
  check(tessera_plan_create(device, &desc, &plan));

  CUdeviceptr on_a, on_b, on_c, on_d, workspace = 0;
  size_t bytes = tessera_plan_workspace_bytes(plan);
  CUDA(cuMemAlloc(&on_a, sizeof a));
  CUDA(cuMemAlloc(&on_b, sizeof b));
  CUDA(cuMemAlloc(&on_c, sizeof c));
  CUDA(cuMemAlloc(&on_d, sizeof d));
  if (bytes > 0) CUDA(cuMemAlloc(&workspace, bytes));
  CUDA(cuMemcpyHtoDAsync(on_a, a, sizeof a, stream));
  CUDA(cuMemcpyHtoDAsync(on_b, b, sizeof b, stream));
  CUDA(cuMemcpyHtoDAsync(on_c, c, sizeof c, stream));

  /* As often as wanted: it only launches, and the stream orders it like any other work. */
  check(tessera_plan_run(plan, cuda_pointer(on_a), cuda_pointer(on_b), cuda_pointer(on_c),
                         cuda_pointer(on_d), cuda_pointer(workspace), bytes, stream));

  CUDA(cuMemcpyDtoHAsync(d, on_d, sizeof d, stream));
  CUDA(cuStreamSynchronize(stream));
  for (int row = 0; row < M; ++row) printf("%g %g\n", d[row], d[row + M]);

  /* What is wrong is said before anything is launched. */
  tessera_status status = tessera_plan_run(plan, NULL, NULL, NULL, NULL, NULL, 0, stream);
  printf("%s\n", tessera_status_string(status));

  tessera_plan_destroy(plan);
  tessera_device_destroy(device);
  if (bytes > 0) CUDA(cuMemFree(workspace));
  CUDA(cuMemFree(on_d));
  CUDA(cuMemFree(on_c));
  CUDA(cuMemFree(on_b));
  CUDA(cuMemFree(on_a));
  CUDA(cuStreamDestroy(stream));
  CUDA(cuCtxPopCurrent(&context));
  CUDA(cuDevicePrimaryCtxRelease(0));
  return status == TESSERA_INVALID_ARGUMENT ? 0 : 1;
}
