/* A layer of a network: y = gelu(x W + bias), and the largest magnitude of y. All in host memory. */
#include <stdio.h>
#include <tessera.h>

int main(void) {
  const float x[] = {1, 0, 2, 0, 1, 1};  /* 2 x 3 */
  const float w[] = {1, -1, 2, 0, 0, 1}; /* 3 x 2 */
  const float bias[] = {-3, 0};          /* one for each column */
  float y[4], largest;

  tessera_matrix X = tessera_row_major(TESSERA_F32, x, 2, 3, 3);
  tessera_matrix W = tessera_row_major(TESSERA_F32, w, 3, 2, 2);
  tessera_matrix Y = tessera_row_major(TESSERA_F32, y, 2, 2, 2);

  tessera_epilogue epilogue = TESSERA_EPILOGUE_INIT;
  epilogue.activation = TESSERA_ACTIVATION_GELU;
  epilogue.bias = TESSERA_BIAS_PER_COLUMN;
  epilogue.amax = 1;
  tessera_epilogue_numbers numbers = TESSERA_EPILOGUE_NUMBERS_INIT;
  numbers.bias = bias;
  numbers.amax = &largest;
  tessera_gemm_options options = TESSERA_GEMM_OPTIONS_INIT;
  options.epilogue = &epilogue;
  options.numbers = &numbers;

  tessera_status status = tessera_gemm_with(NULL, &options, &X, &W, &Y);
  if (status != TESSERA_SUCCESS) {
    fprintf(stderr, "%s: %s\n", tessera_status_string(status), tessera_last_error());
    return 1;
  }
  printf("%.4f %.4f\n%.4f %.4f\n%.4f\n", y[0], y[1], y[2], y[3], largest);
  return 0;
}
