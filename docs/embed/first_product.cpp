// An engine of one's own, and a batch of products of complex numbers.
#include <complex>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <tessera.h>
#include <vector>

using Engine = std::unique_ptr<tessera_engine, decltype(&tessera_engine_destroy)>;

static void check(tessera_status status) {
  if (status != TESSERA_SUCCESS) throw std::runtime_error(tessera_last_error());
}

static Engine two_threads() {
  tessera_engine_options options = TESSERA_ENGINE_OPTIONS_INIT;
  options.threads = 2;
  options.deterministic = 1;
  tessera_engine *engine = nullptr;
  check(tessera_engine_create(&options, &engine));
  return Engine(engine, tessera_engine_destroy);
}

int main() {
  using Number = std::complex<float>;
  const std::size_t n = 16, count = 3;
  std::vector<Number> a(count * n * n, Number(0, 1)), b(n * n, 2), c(count * n * n);

  tessera_matrix A = tessera_row_major(TESSERA_COMPLEX64, a.data(), n, n, n);
  tessera_matrix B = tessera_row_major(TESSERA_COMPLEX64, b.data(), n, n, n);
  tessera_matrix C = tessera_row_major(TESSERA_COMPLEX64, c.data(), n, n, n);

  tessera_batch batch = {sizeof(tessera_batch), count, n * n, 0, n * n};  // all share B
  tessera_gemm_options options = TESSERA_GEMM_OPTIONS_INIT;
  options.alpha = 0.5;
  options.batch = &batch;

  Engine engine = two_threads();
  check(tessera_gemm_with(engine.get(), &options, &A, &B, &C));
  std::cout << c.front() << ' ' << c.back() << '\n';

  char text[200];
  check(tessera_explain(engine.get(), &options, &A, &B, &C, text, sizeof text));
  std::cout << text << '\n';
  return c.back() == Number(0, n) ? 0 : 1;
}
