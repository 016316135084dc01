/* The product of two matrices, and what an error looks like. */
#include <stdio.h>
#include <tessera.h>

int main(void) {
  const double a[] = {1, 2, 3, 4, 5, 6};    /* 2 x 3, by rows */
  const double b[] = {1, 0, 2, 0, 1, 2};    /* 3 x 2, by columns */
  double c[4];

  tessera_matrix A = tessera_row_major(TESSERA_F64, a, 2, 3, 3);
  tessera_matrix B = tessera_col_major(TESSERA_F64, b, 3, 2, 3);
  tessera_matrix C = tessera_row_major(TESSERA_F64, c, 2, 2, 2);

  /* NULL is the engine of the whole process: on the CPU or the first GPU, whichever should end first. */
  tessera_status status = tessera_gemm(NULL, 1.0, &A, &B, 0.0, &C);
  if (status != TESSERA_SUCCESS) {
    fprintf(stderr, "%s: %s\n", tessera_status_string(status), tessera_last_error());
    return 1;
  }
  printf("%g %g\n%g %g\n", c[0], c[1], c[2], c[3]);

  /* A is 2 x 3: it cannot be multiplied by itself. */
  status = tessera_gemm(NULL, 1.0, &A, &A, 0.0, &C);
  printf("%s: %s\n", tessera_status_string(status), tessera_last_error());
  return status == TESSERA_INVALID_SIZE ? 0 : 1;
}
