/* Matrix products on CPU and GPU: C = alpha * A * B + beta * C.
 *
 * Every function may be called from any number of threads at once. A function that fails does nothing,
 * but where its text says otherwise; tessera_last_error() says why it did.
 *
 * Made from crates/tessera_c, see docs/embed-c.md. */

#ifndef TESSERA_H
#define TESSERA_H


#include <stddef.h>
#include <stdint.h>

// On the CPU or the first GPU, whichever should end first.
#define TESSERA_DEVICE_AUTO 0

// On the CPU alone.
#define TESSERA_DEVICE_CPU 1

// On the GPU whose number is device_index, and nowhere else.
#define TESSERA_DEVICE_CUDA 2

// As a product in f32 by and large.
#define TESSERA_ACCURACY_FP32 0

// As if factors were rounded to bf16 first.
#define TESSERA_ACCURACY_BF16 1

// As if factors were rounded to TF32 first.
#define TESSERA_ACCURACY_TF32 2

// Each element of C within the bound of a chain of multiply-adds, whatever the range of A and B.
#define TESSERA_ACCURACY_COMPONENTWISE 3

// All units of the CPU, or of a deterministic engine those of TESSERA_UNITS_SAME_BITS.
#define TESSERA_UNITS_DEFAULT 0

// Vector units alone.
#define TESSERA_UNITS_VECTOR 1

// Matrix units where they give the bits of vector units.
#define TESSERA_UNITS_SAME_BITS 2

// Matrix units wherever they are faster and keep to the error bound.
#define TESSERA_UNITS_ALL 3

// What computes products: threads, a GPU, and the memory that they keep. Any number of threads may use one
// at once. It does not survive a fork: a child makes its own, as it does of the one for the process.
typedef struct tessera_engine tessera_engine;

// What a function returns: TESSERA_SUCCESS, or why it did nothing.
typedef int32_t tessera_status;

// Settings of an engine. Zeros are the usual ones; `size` is sizeof(tessera_engine_options).
typedef struct tessera_engine_options {
  // sizeof(tessera_engine_options)
  size_t size;
  // One of TESSERA_DEVICE_*.
  int32_t device;
  // The number of the GPU, for TESSERA_DEVICE_CUDA.
  uint32_t device_index;
  // The number of threads; 0 takes RAYON_NUM_THREADS, else one for each core.
  size_t threads;
  // One of TESSERA_ACCURACY_*.
  int32_t accuracy;
  // One of TESSERA_UNITS_*.
  int32_t units;
  // Not 0: each choice depends on the product and the devices alone.
  int32_t deterministic;
  // 0
  int32_t reserved;
} tessera_engine_options;

// The type of a matrix' elements.
typedef int32_t tessera_dtype;

// A matrix: element (i, j) is at data + i * row_stride + j * col_stride, in elements.
//
// Strides may be negative or zero. Where neither is 1, or data is not aligned, the elements are copied
// first. tessera_row_major and tessera_col_major fill one in.
typedef struct tessera_matrix {
  // sizeof(tessera_matrix)
  size_t size;
  // The address of element (0, 0).
  void *data;
  // How many rows there are.
  size_t rows;
  // How many columns there are.
  size_t cols;
  // Elements from one row to the next.
  ptrdiff_t row_stride;
  // Elements from one column to the next.
  ptrdiff_t col_stride;
  // The type of the elements.
  tessera_dtype dtype;
  // 0
  int32_t reserved;
} tessera_matrix;

// Several products of equal sizes, their operands these numbers of elements apart: 0 for an A or B that
// all of them share.
typedef struct tessera_batch {
  // sizeof(tessera_batch)
  size_t size;
  // How many products there are.
  size_t count;
  // Elements from one A to the next.
  ptrdiff_t a_stride;
  // Elements from one B to the next.
  ptrdiff_t b_stride;
  // Elements from one C to the next.
  ptrdiff_t c_stride;
} tessera_batch;

// What a product is besides its matrices. TESSERA_GEMM_OPTIONS_INIT is C = A * B.
typedef struct tessera_gemm_options {
  // sizeof(tessera_gemm_options)
  size_t size;
  // The factor of the product.
  double alpha;
  // Its imaginary part, for complex types.
  double alpha_imaginary;
  // The factor of the old C; where it is 0 C is not read.
  double beta;
  // Its imaginary part, for complex types.
  double beta_imaginary;
  // The largest number of the engine's threads; 0 for all.
  size_t threads;
  // More than one product, or NULL.
  const struct tessera_batch *batch;
} tessera_gemm_options;

// float
#define TESSERA_F32 1

// double
#define TESSERA_F64 2

// int32_t; products wrap
#define TESSERA_I32 3

// int8_t; the C of such is of int32_t
#define TESSERA_I8 4

// IEEE binary16; C may be of float
#define TESSERA_F16 5

// The upper half of a float; C may be of float
#define TESSERA_BF16 6

// `float _Complex`, `std::complex<float>`
#define TESSERA_COMPLEX64 7

// `double _Complex`, `std::complex<double>`
#define TESSERA_COMPLEX128 8

// It is done.
#define TESSERA_SUCCESS 0

// An argument is null, no number of its kind, or a struct of another size than it says.
#define TESSERA_INVALID_ARGUMENT 1

// The sizes of the matrices do not fit together, or an address space does not hold them.
#define TESSERA_INVALID_SIZE 2

// Nothing multiplies these types, or not on that device or with that accuracy.
#define TESSERA_UNSUPPORTED 3

// There is no such GPU, or no driver.
#define TESSERA_NO_DEVICE 4

// Memory is short.
#define TESSERA_OUT_OF_MEMORY 5

// The GPU's driver refused a call or a kernel failed; some of C may have been written.
#define TESSERA_DEVICE_FAILED 6

// The system starts no threads.
#define TESSERA_NO_THREADS 7

// A fault of the library itself.
#define TESSERA_INTERNAL_ERROR 8

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes an engine; where options is NULL with the usual settings.
//
// The caller promises:
// `options` is null or points to such a struct, of whose size its first field tells; `engine` points to
// room for an address.
tessera_status tessera_engine_create(const struct tessera_engine_options *options,
                                     struct tessera_engine **engine);

// Ends an engine and its threads; does nothing where it is NULL.
//
// The caller promises:
// It is null or was made by tessera_engine_create, is not used any more, and is destroyed once.
void tessera_engine_destroy(struct tessera_engine *engine);

// The threads of an engine's products, of the process' where it is NULL; 0 where it cannot be made.
//
// The caller promises:
// It is null or that of an engine.
size_t tessera_engine_threads(const struct tessera_engine *engine);

// C = alpha * A * B + beta * C.
//
// Sums are computed in the type of C, those of 16-bit floats in float. With beta 0 C is not read, with
// alpha 0 neither A nor B is. C overlaps neither of them. A NULL engine is one for the whole process.
//
// The caller promises:
// `engine` is null or that of an engine; `a`, `b` and `c` point to such structs, of whose size their first
// field tells. What is read of A and B can be read, and nobody writes it meanwhile; C can be read and
// written, and nobody else does either. Where the engine may use a GPU this holds for the memory between
// rows or columns, too.
tessera_status tessera_gemm(const struct tessera_engine *engine,
                            double alpha,
                            const struct tessera_matrix *a,
                            const struct tessera_matrix *b,
                            double beta,
                            const struct tessera_matrix *c);

// The same with complex factors, on fewer threads, or many times: see tessera_gemm_options. Where options
// is NULL, C = A * B.
//
// The caller promises:
// As `tessera_gemm`; `options` and its `batch` are null or point to such structs, of whose size their first
// field tells, and all A, B and C of a batch are as there.
tessera_status tessera_gemm_with(const struct tessera_engine *engine,
                                 const struct tessera_gemm_options *options,
                                 const struct tessera_matrix *a,
                                 const struct tessera_matrix *b,
                                 const struct tessera_matrix *c);

// Writes a line to text that says where and by what a product would be computed now, cut to capacity
// bytes, the last of which is 0.
//
// The caller promises:
// As `tessera_gemm_with`, but that neither elements nor their addresses are looked at; `text` has room for
// `capacity` bytes.
tessera_status tessera_explain(const struct tessera_engine *engine,
                               const struct tessera_gemm_options *options,
                               const struct tessera_matrix *a,
                               const struct tessera_matrix *b,
                               const struct tessera_matrix *c,
                               char *text,
                               size_t capacity);

// Why the last function that failed on the calling thread did, in a line; empty where none has. Valid
// until the next one fails on this thread. Never null.
const char *tessera_last_error(void);

// The name of a status; never null.
const char *tessera_status_string(tessera_status status);

// The library's version, such as "0.1.0"; never null.
const char *tessera_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* C = A * B on all threads. */
#define TESSERA_GEMM_OPTIONS_INIT {sizeof(tessera_gemm_options), 1.0, 0.0, 0.0, 0.0, 0, NULL}

/* The usual settings. */
#define TESSERA_ENGINE_OPTIONS_INIT {sizeof(tessera_engine_options), 0, 0, 0, 0, 0, 0, 0}

/* A matrix whose rows are contiguous and ld elements apart. */
static inline tessera_matrix tessera_row_major(tessera_dtype dtype, const void *data, size_t rows,
                                               size_t cols, size_t ld) {
  tessera_matrix matrix;
  matrix.size = sizeof(tessera_matrix);
  matrix.data = (void *)data;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_stride = (ptrdiff_t)ld;
  matrix.col_stride = 1;
  matrix.dtype = dtype;
  matrix.reserved = 0;
  return matrix;
}

/* A matrix whose columns are contiguous and ld elements apart. */
static inline tessera_matrix tessera_col_major(tessera_dtype dtype, const void *data, size_t rows,
                                               size_t cols, size_t ld) {
  tessera_matrix matrix = tessera_row_major(dtype, data, rows, cols, 1);
  matrix.col_stride = (ptrdiff_t)ld;
  return matrix;
}

/* The transposed matrix: the same elements, read the other way round. */
static inline tessera_matrix tessera_transposed(tessera_matrix matrix) {
  tessera_matrix transposed = matrix;
  transposed.rows = matrix.cols;
  transposed.cols = matrix.rows;
  transposed.row_stride = matrix.col_stride;
  transposed.col_stride = matrix.row_stride;
  return transposed;
}

#endif /* TESSERA_H */
