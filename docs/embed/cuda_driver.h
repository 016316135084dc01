/* What the programs beside this file call of CUDA's driver, found when they run: they compile without CUDA and
 * start without a GPU. A program that has the CUDA toolkit includes cuda.h and links libcuda instead. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

enum { CU_STREAM_NON_BLOCKING = 1 };

#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuStreamDestroy cuStreamDestroy_v2

#define CUDA_FUNCTIONS(X)                                                             \
  X(cuInit, (unsigned flags))                                                         \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, int device))                      \
  X(cuDevicePrimaryCtxRelease_v2, (int device))                                       \
  X(cuCtxPushCurrent_v2, (CUcontext context))                                         \
  X(cuCtxPopCurrent_v2, (CUcontext * context))                                        \
  X(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                             \
  X(cuMemFree_v2, (CUdeviceptr address))                                              \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream)) \
  X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream))       \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                              \
  X(cuStreamSynchronize, (CUstream stream))                                           \
  X(cuStreamDestroy_v2, (CUstream stream))

#define CUDA_POINTER(name, parameters) static int(*name) parameters;
CUDA_FUNCTIONS(CUDA_POINTER)

/* Ends the program where a call of the driver fails. */
#define CUDA(call) cuda_check(call, #call)

static inline void cuda_check(int result, const char *call) {
  if (result == 0) return;
  fprintf(stderr, "%s: the driver answers %d\n", call, result);
  exit(1);
}

/* Finds the driver. */
static inline void cuda_load(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define CUDA_FIND(name, parameters) *(void **)(&name) = dlsym(driver, #name);
  CUDA_FUNCTIONS(CUDA_FIND)
}

/* An address on the device, as tessera.h has it. */
static inline void *cuda_pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

#endif /* CUDA_DRIVER_H */
