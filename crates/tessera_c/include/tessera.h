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

// Rows are contiguous: element (i, j) is at i * ld + j.
#define TESSERA_ROW_MAJOR 0

// Columns are contiguous: element (i, j) is at i + j * ld, as in BLAS.
#define TESSERA_COL_MAJOR 1

// The operands of each product are as many elements behind those of the product before as the strides say.
#define TESSERA_BATCH_STRIDED 0

// Each product has addresses of its own, which tessera_plan_run_array takes.
#define TESSERA_BATCH_POINTERS 1

// Each product has a group of the rows of one A, one C and one D, as the tokens of an expert, and a B of its
// own, b_stride elements behind the one before. Only the device knows how many rows: tessera_plan_run_groups
// takes where they end. m is the rows of all groups at most. A, C and D are row-major, and products of 16-bit
// floats have kernels for it.
#define TESSERA_BATCH_ROW_GROUPS 2

// Both factors are split by each run, where the kernel multiplies limbs.
#define TESSERA_PREPARED_NONE 0

// A is split by tessera_plan_prepare, for any number of runs.
#define TESSERA_PREPARED_A 1

// B is.
#define TESSERA_PREPARED_B 2

// An element becomes two limbs of f16, which has the accuracy of TESSERA_ACCURACY_FP32.
#define TESSERA_LIMBS_TWO_F16 0

// An element becomes three limbs of bf16, for any accuracy.
#define TESSERA_LIMBS_THREE_BF16 1

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

// Each element stays as it is.
#define TESSERA_ACTIVATION_NONE 0

// max(x, 0), NaN for NaN.
#define TESSERA_ACTIVATION_RELU 1

// x * Phi(x), where Phi is the distribution function of the normal distribution.
#define TESSERA_ACTIVATION_GELU 2

// The same with Phi(x) replaced by (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.
#define TESSERA_ACTIVATION_GELU_TANH 3

// x / (1 + exp(-x)), also called swish.
#define TESSERA_ACTIVATION_SILU 4

// Nothing is added.
#define TESSERA_BIAS_NONE 0

// m numbers, each of which is added to a row.
#define TESSERA_BIAS_PER_ROW 1

// n numbers, each of which is added to a column.
#define TESSERA_BIAS_PER_COLUMN 2

// A CUDA context in which products are computed, by the driver that was found when the program ran. Any
// number of threads may use one at once. Each function makes it current for its own duration alone: what the
// calling thread had current before is current afterwards.
//
// It may be destroyed while plans, groups and streams of it are in use: they keep what they need.
typedef struct tessera_device tessera_device;

// What computes products: threads, a GPU, and the memory that they keep. Any number of threads may use one
// at once. It does not survive a fork: a child makes its own, as it does of the one for the process.
typedef struct tessera_engine tessera_engine;

// Several products on a device, each of sizes of its own, that share a workspace. They are launched one after
// the other. Any number of threads may run one group at once.
typedef struct tessera_group tessera_group;

// A product on a device, ready to be launched: its kernel is picked and loaded. What is picked depends on the
// description and the device alone, neither on free memory nor on addresses. Any number of threads may run
// one plan at once; runs that may overlap each other on the device need a workspace each.
typedef struct tessera_plan tessera_plan;

// A program's stream with what products in it need: the plans that were made for them, and a workspace, which
// grows with the largest. Any number of threads may use one at once.
typedef struct tessera_stream tessera_stream;

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

// What is done to the sums of a product before they are rounded and stored:
// D(i, j) = activation(alpha * row_scale(i) * column_scale(j) * (A * B)(i, j) + beta * C(i, j) + bias), for
// products of floats. Zeros, as of TESSERA_EPILOGUE_INIT, are nothing. The numbers are those of a
// tessera_epilogue_numbers.
typedef struct tessera_epilogue {
  // sizeof(tessera_epilogue)
  size_t size;
  // One of TESSERA_ACTIVATION_*. GELU and SiLU are for sums of float.
  int32_t activation;
  // One of TESSERA_BIAS_*.
  int32_t bias;
  // Not 0: each row of A * B has a factor.
  int32_t row_scales;
  // Not 0: each column of A * B has a factor.
  int32_t column_scales;
  // Not 0: the largest magnitude of D is stored as a float, NaN if an element is. For sums of float.
  int32_t amax;
  // Not 0: alpha and beta are in device memory, and those of the description are not looked at. For products on a
  // device.
  int32_t device_scalars;
  // Elements from the bias of a product to that of the next; 0 where a batch has one in common. For
  // products on a device.
  size_t bias_stride;
} tessera_epilogue;

// Where the numbers of an epilogue are: on the device for products there, else in host memory. What the
// epilogue does not have may be NULL.
typedef struct tessera_epilogue_numbers {
  // sizeof(tessera_epilogue_numbers)
  size_t size;
  // m or n elements of D's type.
  const void *bias;
  // m numbers of the sums' type: D's, or float where that has 16 bits.
  const void *row_scales;
  // n numbers of that type.
  const void *column_scales;
  // Alpha, and behind it beta, of that type.
  const void *scalars;
  // Room for one float.
  void *amax;
} tessera_epilogue_numbers;

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
  // What is done to the sums besides, or NULL.
  const struct tessera_epilogue *epilogue;
  // The numbers of the epilogue, or NULL where it has none.
  const struct tessera_epilogue_numbers *numbers;
} tessera_gemm_options;

// Products on a device: D = alpha * A * B + beta * C, with A m by k, B k by n, C and D m by n.
// tessera_gemm_desc_row_major and tessera_gemm_desc_col_major fill one in, of which a program then changes
// what it has otherwise. Leading dimensions and strides are in elements.
typedef struct tessera_gemm_desc {
  // sizeof(tessera_gemm_desc)
  size_t size;
  // Rows of A, C and D.
  size_t m;
  // Columns of B, C and D.
  size_t n;
  // Columns of A, rows of B.
  size_t k;
  // The type of A's elements.
  tessera_dtype a_dtype;
  // The type of B's elements.
  tessera_dtype b_dtype;
  // The type of C's and D's elements.
  tessera_dtype c_dtype;
  // TESSERA_ROW_MAJOR or TESSERA_COL_MAJOR: how A is in memory, or its transpose where that is.
  int32_t a_order;
  // The same of B.
  int32_t b_order;
  // The same of C.
  int32_t c_order;
  // The same of D, which may have another order than C where it is apart from it.
  int32_t d_order;
  // Not 0: the matrix in memory is the transpose of A, k by m.
  int32_t transa;
  // Not 0: the matrix in memory is the transpose of B, n by k.
  int32_t transb;
  // One of TESSERA_ACCURACY_*.
  int32_t accuracy;
  // Elements from one row or column of A to the next.
  size_t lda;
  // The same of B.
  size_t ldb;
  // The same of C.
  size_t ldc;
  // The same of D.
  size_t ldd;
  // The factor of the product. With 0 neither A nor B is read.
  double alpha;
  // The factor of C. With 0 C is not read.
  double beta;
  // How many products there are. With 0, as with an m or n of 0, a run does nothing.
  size_t batch_count;
  // Elements from one A to the next; 0 for one that all products share.
  size_t a_stride;
  // The same of B.
  size_t b_stride;
  // The same of C.
  size_t c_stride;
  // The same of D, of which no two overlap.
  size_t d_stride;
  // TESSERA_BATCH_STRIDED; TESSERA_BATCH_POINTERS, for which the strides are not looked at; or
  // TESSERA_BATCH_ROW_GROUPS, for which that of B is.
  int32_t batch;
  // 0
  int32_t reserved;
  // Most bytes of workspace that a run will be given: SIZE_MAX for whatever the kernel that suits best needs.
  size_t workspace_limit;
  // Bytes of which the addresses of A, B, C and D are multiples, a power of two. With less than 16 some
  // kernels copy operands to the workspace first.
  size_t alignment;
  // What is done to the sums besides, or NULL.
  const struct tessera_epilogue *epilogue;
  // One of TESSERA_PREPARED_*: a factor of floats that is split into limbs before it is multiplied, once. All
  // products of a batch have it in common. Kernels of compute capability 9.0 multiply limbs.
  int32_t prepared;
  // One of TESSERA_LIMBS_*, where a factor is prepared.
  int32_t limbs;
} tessera_gemm_desc;

// Settings of a stream's products. Zeros are the usual ones.
typedef struct tessera_stream_options {
  // sizeof(tessera_stream_options)
  size_t size;
  // One of TESSERA_ACCURACY_*.
  int32_t accuracy;
  // 0
  int32_t reserved;
} tessera_stream_options;

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

// An argument is null, not aligned, no number of its kind, or a struct of another size than it says; or an
// operand or a workspace on a device is not what the plan counts on.
#define TESSERA_INVALID_ARGUMENT 1

// The sizes of the matrices do not fit together, or an address space does not hold them; or leading
// dimensions, strides or factors of a description do not.
#define TESSERA_INVALID_SIZE 2

// Nothing multiplies these types, or not on that device, with that accuracy or in that workspace.
#define TESSERA_UNSUPPORTED 3

// There is no such GPU, no driver, or no context that is current.
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

// The GPU of that number, in its primary context: the one of the CUDA runtime, and so of cuBLAS, PyTorch and
// whatever else does not make one of its own. It is retained until the device, and all that was made in it,
// is destroyed.
//
// TESSERA_NO_DEVICE where there is no driver or no such GPU.
//
// The caller promises:
// `device` points to room for an address.
tessera_status tessera_device_create(uint32_t index,
                                     struct tessera_device **device);

// The context that is current for the calling thread, whoever has made it. A primary context is retained;
// any other stays the property of whoever made it.
//
// TESSERA_NO_DEVICE where none is current.
//
// The caller promises:
// `device` points to room for an address. A context that is no primary one is not destroyed before the
// device and all that was made in it.
tessera_status tessera_device_create_current(struct tessera_device **device);

// The same of a context by its handle, a CUcontext, which need not be current.
//
// The caller promises:
// As `tessera_device_create_current`; `context` is the handle of a context.
tessera_status tessera_device_create_from_context(void *context, struct tessera_device **device);

// Lets go of a device; does nothing where it is NULL.
//
// The caller promises:
// It is null or was made by one of the functions above, is not used any more, and is destroyed once.
void tessera_device_destroy(struct tessera_device *device);

// The number and the name of the GPU, in a line. Valid as long as the device; empty where it is NULL, never
// null.
//
// The caller promises:
// It is null or that of a device.
const char *tessera_device_name(const struct tessera_device *device);

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

// The same with complex factors, on fewer threads, many times, or with an epilogue: see tessera_gemm_options.
// Where options is NULL, C = A * B.
//
// The caller promises:
// As `tessera_gemm`; `options` and what it points to are null or such structs, of whose size their first field
// tells, and all A, B and C of a batch are as there. The epilogue's numbers can be read.
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

// The driver's code, a CUresult, where the last function that failed on the calling thread did because the
// driver refused a call; else 0.
int32_t tessera_last_driver_code(void);

// Plans a product: checks the description, picks a kernel, and has the driver load it, which may take
// seconds where the driver compiles it. It may be called while a stream is captured.
//
// TESSERA_INVALID_SIZE where sizes, leading dimensions, strides or factors do not fit, TESSERA_UNSUPPORTED
// where no kernel multiplies the types on that device, with that accuracy or in that workspace,
// TESSERA_DEVICE_FAILED where the driver refuses.
//
// The caller promises:
// `device` is that of a device; `desc` points to such a struct, and its epilogue is null or does, of whose
// sizes their first fields tell; `plan` points to room for an address.
tessera_status tessera_plan_create(const struct tessera_device *device,
                                   const struct tessera_gemm_desc *desc,
                                   struct tessera_plan **plan);

// Lets go of a plan; does nothing where it is NULL. Its runs may still be under way.
//
// The caller promises:
// It is null or was made by tessera_plan_create, is not used any more, and is destroyed once.
void tessera_plan_destroy(struct tessera_plan *plan);

// Bytes of device memory that a run needs besides its operands; 0 where plan is NULL.
//
// The caller promises:
// It is null or that of a plan.
size_t tessera_plan_workspace_bytes(const struct tessera_plan *plan);

// The name of the kernel that was picked. Valid as long as the plan; empty where it is NULL, never null.
//
// The caller promises:
// It is null or that of a plan.
const char *tessera_plan_kernel(const struct tessera_plan *plan);

// The plan in words: product, kernel, launches, what is promised of the bits, workspace and alignment, in a
// line each. Valid as long as the plan; empty where it is NULL, never null.
//
// The caller promises:
// It is null or that of a plan.
const char *tessera_plan_explain(const struct tessera_plan *plan);

// Queues D = alpha * A * B + beta * C in a stream and returns without waiting. It only launches: it allocates
// no device memory and synchronises nothing.
//
// a, b, c and d are addresses on the device, as cudaMalloc gives them or as a CUdeviceptr cast to a pointer;
// c may be d where both have one order and one leading dimension, and a C apart from D is copied to D first.
// What is not read may be NULL. stream is a CUstream or cudaStream_t of the plan's context: also NULL, the
// legacy default stream, that of the calling thread, and one that is being captured. workspace is memory on
// the device at a multiple of 256, as the driver allocates it, of at least tessera_plan_workspace_bytes;
// where that is 0 it may be NULL.
//
// TESSERA_INVALID_ARGUMENT where an operand is null or not aligned as the description says, or the workspace
// too short: nothing is launched then. TESSERA_DEVICE_FAILED where the driver refuses, or for a kernel that
// failed before: such a failure shows in a later call, and every call after it in that context answers with it.
//
// The caller promises:
// `plan` is that of a plan. The addresses are valid in its context for the matrices of its description; D
// overlaps neither A nor B, and C only where c is d. The workspace is as long as it says, and nothing but the
// stream's work uses it. Until that is over nobody writes A, B or C, or reads or writes D, but work that the
// stream orders; the same holds for each launch of a graph that the run is captured for.
tessera_status tessera_plan_run(const struct tessera_plan *plan,
                                const void *a,
                                const void *b,
                                const void *c,
                                void *d,
                                void *workspace,
                                size_t workspace_bytes,
                                void *stream);

// The same for a batch of TESSERA_BATCH_POINTERS: a, b, c and d are arrays in host memory of one address on
// the device for each product, of which count there are. An array that is not read may be NULL. The arrays
// are no longer needed when the function returns.
//
// The caller promises:
// As `tessera_plan_run` for the addresses of each product; no D overlaps an operand of another product. The
// arrays are null or have `count` elements.
tessera_status tessera_plan_run_array(const struct tessera_plan *plan,
                                      size_t count,
                                      const void *const *a,
                                      const void *const *b,
                                      const void *const *c,
                                      void *const *d,
                                      void *workspace,
                                      size_t workspace_bytes,
                                      void *stream);

// As tessera_plan_run, with the numbers of the description's epilogue.
//
// The caller promises:
// As `tessera_plan_run`; `numbers` is null or points to such a struct, of whose size its first field tells.
// Its addresses are valid for the numbers that the epilogue has, and D overlaps none of them.
tessera_status tessera_plan_run_with(const struct tessera_plan *plan,
                                     const struct tessera_epilogue_numbers *numbers,
                                     const void *a,
                                     const void *b,
                                     const void *c,
                                     void *d,
                                     void *workspace,
                                     size_t workspace_bytes,
                                     void *stream);

// As tessera_plan_run_array, with the numbers of the description's epilogue, which all products have in
// common but for a bias with a stride.
//
// The caller promises:
// As `tessera_plan_run_array` and `tessera_plan_run_with`.
tessera_status tessera_plan_run_array_with(const struct tessera_plan *plan,
                                           const struct tessera_epilogue_numbers *numbers,
                                           size_t count,
                                           const void *const *a,
                                           const void *const *b,
                                           const void *const *c,
                                           void *const *d,
                                           void *workspace,
                                           size_t workspace_bytes,
                                           void *stream);

// As tessera_plan_run for a batch of TESSERA_BATCH_ROW_GROUPS. ends is an array on the device, at a multiple of
// 4, of a uint32_t for each group: the row before which it ends. A group begins where the one before it ends,
// the first at row 0, and may be empty. Rows behind the last group are not written. An end beyond m counts as
// m, one before its group's beginning as that. numbers are those of the description's epilogue, or NULL where
// it has none.
//
// The caller promises:
// As `tessera_plan_run_with`; `ends` is valid for as many numbers as there are groups, which nobody writes
// until the run is over but work that the stream orders.
tessera_status tessera_plan_run_groups(const struct tessera_plan *plan,
                                       const struct tessera_epilogue_numbers *numbers,
                                       const uint32_t *ends,
                                       const void *a,
                                       const void *b,
                                       const void *c,
                                       void *d,
                                       void *workspace,
                                       size_t workspace_bytes,
                                       void *stream);

// Asks the driver whether operands and workspace are what tessera_plan_run needs: memory of this device, as
// long as the matrices, for the first product of a batch of pointers. A run asks nothing; this is for programs
// that want to know before.
//
// TESSERA_INVALID_ARGUMENT for the first that is not.
//
// The caller promises:
// `plan` is that of a plan; the addresses may be anything.
tessera_status tessera_plan_check(const struct tessera_plan *plan,
                                  const void *a,
                                  const void *b,
                                  const void *c,
                                  const void *d,
                                  const void *workspace,
                                  size_t workspace_bytes);

// Plans a group of products, whose descriptions follow each other in memory. Each is limited to the least
// workspace and the least alignment of all descriptions.
//
// As tessera_plan_create, for the first product that has no plan.
//
// The caller promises:
// `device` is that of a device; `descs` points to `count` such structs, and their epilogues are null or do, of
// whose sizes their first fields tell; `group` points to room for an address.
tessera_status tessera_group_create(const struct tessera_device *device,
                                    const struct tessera_gemm_desc *descs,
                                    size_t count,
                                    struct tessera_group **group);

// Lets go of a group; does nothing where it is NULL. Its runs may still be under way.
//
// The caller promises:
// It is null or was made by tessera_group_create, is not used any more, and is destroyed once.
void tessera_group_destroy(struct tessera_group *group);

// Bytes of device memory that a run needs besides its operands: as many as the neediest product; 0 where
// group is NULL.
//
// The caller promises:
// It is null or that of a group.
size_t tessera_group_workspace_bytes(const struct tessera_group *group);

// Queues all products of a group in a stream and returns without waiting, as tessera_plan_run does. a, b, c
// and d are arrays in host memory of one address on the device for each product, in the order of the
// descriptions; count is the number of these. An array that is not read may be NULL.
//
// As tessera_plan_run for the first product that is refused; those before it are launched then.
//
// The caller promises:
// As `tessera_plan_run` for the addresses of each product; no D overlaps an operand of another product. The
// arrays are null or have `count` elements.
tessera_status tessera_group_run(const struct tessera_group *group,
                                 size_t count,
                                 const void *const *a,
                                 const void *const *b,
                                 const void *const *c,
                                 void *const *d,
                                 void *workspace,
                                 size_t workspace_bytes,
                                 void *stream);

// As tessera_group_run, with the numbers of the products' epilogues: as many structs that follow each other, or
// NULL where no product has an epilogue.
//
// The caller promises:
// As `tessera_group_run` and `tessera_plan_run_with`; `numbers` is null or points to `count` such structs, of
// whose size their first field tells.
tessera_status tessera_group_run_with(const struct tessera_group *group,
                                      const struct tessera_epilogue_numbers *numbers,
                                      size_t count,
                                      const void *const *a,
                                      const void *const *b,
                                      const void *const *c,
                                      void *const *d,
                                      void *workspace,
                                      size_t workspace_bytes,
                                      void *stream);

// Bytes of device memory that the limbs of the description's prepared factor need, which depend on its sizes and
// the kind of limbs alone; 0 where it has none or plan is NULL.
//
// The caller promises:
// It is null or that of a plan.
size_t tessera_plan_prepared_bytes(const struct tessera_plan *plan);

// Queues the splitting of the description's prepared factor into limbs, for tessera_plan_run_prepared in this
// stream or in one that waits for it. factor is its address on the device; prepared is memory there at a multiple of
// 256, of at least tessera_plan_prepared_bytes. What is prepared serves all plans whose factor has these sizes and
// limbs, whatever the sizes of the other. It allocates nothing and synchronises nothing.
//
// TESSERA_INVALID_SIZE where the description has no prepared factor, TESSERA_INVALID_ARGUMENT where an address is
// null or not aligned or there are too few bytes: nothing is launched then.
//
// The caller promises:
// `plan` is that of a plan. The factor is valid in its context for the matrix of its description, and what is
// prepared for as many bytes as it says, apart from it. Until the work is over nobody writes the factor, or reads or
// writes what is prepared, but work that the stream orders.
tessera_status tessera_plan_prepare(const struct tessera_plan *plan,
                                    const void *factor,
                                    void *prepared,
                                    size_t prepared_bytes,
                                    void *stream);

// As tessera_plan_run_with, with the limbs that tessera_plan_prepare has left. The bits are those of the same kernel
// without them. The factor itself is given as well: what limbs do not hold, as infinities, is taken from there.
// numbers are those of the description's epilogue, or NULL where it has none.
//
// The caller promises:
// As `tessera_plan_run_with`; nobody has written to the factor or to what is prepared since tessera_plan_prepare was
// queued, in work that comes before this, and nobody does before this is over.
tessera_status tessera_plan_run_prepared(const struct tessera_plan *plan,
                                         const struct tessera_epilogue_numbers *numbers,
                                         const void *prepared,
                                         size_t prepared_bytes,
                                         const void *a,
                                         const void *b,
                                         const void *c,
                                         void *d,
                                         void *workspace,
                                         size_t workspace_bytes,
                                         void *stream);

// The name of a status; never null.
const char *tessera_status_string(tessera_status status);

// Takes up a stream of a device's context, a CUstream or cudaStream_t; NULL is the legacy default stream. It
// stays the program's. Where options is NULL the settings are the usual ones.
//
// The caller promises:
// `device` is that of a device, `stream` is a stream of its context that is not destroyed before what is made
// here, `options` is null or points to such a struct, of whose size its first field tells, and `made` points
// to room for an address.
tessera_status tessera_stream_create(const struct tessera_device *device,
                                     void *stream,
                                     const struct tessera_stream_options *options,
                                     struct tessera_stream **made);

// Frees plans and workspace, for whose users the driver waits; the program's stream stays. Does nothing where
// it is NULL.
//
// The caller promises:
// It is null or was made by tessera_stream_create, is not used any more, and is destroyed once.
void tessera_stream_destroy(struct tessera_stream *stream);

// Gets a workspace of at least that many bytes now, so that no later product that needs no more allocates any.
//
// The caller promises:
// `stream` was made by tessera_stream_create.
tessera_status tessera_stream_reserve(const struct tessera_stream *stream,
                                      size_t bytes);

// Queues C = alpha * A * B + beta * C in a stream and returns without waiting. The data of a, b and c are
// addresses on the device; else they are as those of tessera_gemm, but that rows or columns are contiguous and
// no stride is negative: nothing is copied.
//
// The kernel is picked and loaded when such a product first comes; later ones look it up. A workspace that has
// to grow is allocated, for which the driver may wait: tessera_stream_reserve does it before, and a plan of
// one's own does without. A stream that is captured lends none: TESSERA_UNSUPPORTED.
//
// Else as tessera_plan_create and tessera_plan_run.
//
// The caller promises:
// `stream` was made by tessera_stream_create; `a`, `b` and `c` point to such structs, of whose size their first
// field tells. The addresses are valid in the stream's context for the matrices; C overlaps neither A nor B.
// Until the product is over nobody writes A or B, or reads or writes C, but work that the stream orders.
tessera_status tessera_device_gemm(const struct tessera_stream *stream,
                                   double alpha,
                                   const struct tessera_matrix *a,
                                   const struct tessera_matrix *b,
                                   double beta,
                                   const struct tessera_matrix *c);

// The same for a batch and with an epilogue, see tessera_gemm_options; strides are not negative, and the
// epilogue's numbers are on the device. Factors are real, and threads is not looked at. Where options is NULL,
// C = A * B.
//
// The caller promises:
// As `tessera_device_gemm` for each product, of which no C overlaps an operand of another; `options` and what it
// points to are null or such structs, of whose size their first field tells. The addresses of the epilogue are
// valid for its numbers, and C overlaps none of them.
tessera_status tessera_device_gemm_with(const struct tessera_stream *stream,
                                        const struct tessera_gemm_options *options,
                                        const struct tessera_matrix *a,
                                        const struct tessera_matrix *b,
                                        const struct tessera_matrix *c);

// The library's version, such as "0.1.0"; never null.
const char *tessera_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* C = A * B on all threads. */
#define TESSERA_GEMM_OPTIONS_INIT \
  {sizeof(tessera_gemm_options), 1.0, 0.0, 0.0, 0.0, 0, NULL, NULL, NULL}

/* The usual settings. */
#define TESSERA_ENGINE_OPTIONS_INIT {sizeof(tessera_engine_options), 0, 0, 0, 0, 0, 0, 0}

/* The usual settings. */
#define TESSERA_STREAM_OPTIONS_INIT {sizeof(tessera_stream_options), 0, 0}

/* Nothing is done besides. */
#define TESSERA_EPILOGUE_INIT {sizeof(tessera_epilogue), 0, 0, 0, 0, 0, 0, 0}

/* No numbers. */
#define TESSERA_EPILOGUE_NUMBERS_INIT {sizeof(tessera_epilogue_numbers), NULL, NULL, NULL, NULL, NULL}

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

/* D = A * B on a device, of one type, all row-major and tightly packed. A run may be given any workspace, and
 * addresses at multiples of 16. */
static inline tessera_gemm_desc tessera_gemm_desc_row_major(tessera_dtype dtype, size_t m, size_t n,
                                                            size_t k) {
  tessera_gemm_desc desc;
  desc.size = sizeof(tessera_gemm_desc);
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.a_dtype = desc.b_dtype = desc.c_dtype = dtype;
  desc.a_order = desc.b_order = desc.c_order = desc.d_order = TESSERA_ROW_MAJOR;
  desc.transa = desc.transb = 0;
  desc.accuracy = TESSERA_ACCURACY_FP32;
  desc.lda = k;
  desc.ldb = desc.ldc = desc.ldd = n;
  desc.alpha = 1.0;
  desc.beta = 0.0;
  desc.batch_count = 1;
  desc.a_stride = desc.b_stride = desc.c_stride = desc.d_stride = 0;
  desc.batch = TESSERA_BATCH_STRIDED;
  desc.reserved = 0;
  desc.workspace_limit = SIZE_MAX;
  desc.alignment = 16;
  desc.epilogue = NULL;
  desc.prepared = TESSERA_PREPARED_NONE;
  desc.limbs = TESSERA_LIMBS_TWO_F16;
  return desc;
}

/* The same, all column-major as in BLAS. */
static inline tessera_gemm_desc tessera_gemm_desc_col_major(tessera_dtype dtype, size_t m, size_t n,
                                                            size_t k) {
  tessera_gemm_desc desc = tessera_gemm_desc_row_major(dtype, m, n, k);
  desc.a_order = desc.b_order = desc.c_order = desc.d_order = TESSERA_COL_MAJOR;
  desc.lda = desc.ldc = desc.ldd = m;
  desc.ldb = k;
  return desc;
}

#endif /* TESSERA_H */
