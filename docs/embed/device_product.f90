! The product of two matrices on a GPU, which Fortran stores by columns. It links CUDA's driver, libcuda.so.1.
program device_product
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int32_t), parameter :: TESSERA_F64 = 2, TESSERA_COL_MAJOR = 1

  type, bind(c) :: tessera_gemm_desc
    integer(c_size_t) :: size, m, n, k
    integer(c_int32_t) :: a_dtype, b_dtype, c_dtype
    integer(c_int32_t) :: a_order, b_order, c_order, d_order
    integer(c_int32_t) :: transa = 0, transb = 0, accuracy = 0
    integer(c_size_t) :: lda, ldb, ldc, ldd
    real(c_double) :: alpha = 1, beta = 0
    integer(c_size_t) :: batch_count = 1
    integer(c_size_t) :: a_stride = 0, b_stride = 0, c_stride = 0, d_stride = 0
    integer(c_int32_t) :: batch = 0, reserved = 0
    integer(c_size_t) :: workspace_limit = -1 ! SIZE_MAX, which has these bits
    integer(c_size_t) :: alignment = 16
  end type

  interface
    integer(c_int32_t) function tessera_device_create(index, device) bind(c)
      import :: c_int32_t, c_ptr
      integer(c_int32_t), value :: index
      type(c_ptr), intent(out) :: device
    end function
    subroutine tessera_device_destroy(device) bind(c)
      import :: c_ptr
      type(c_ptr), value :: device
    end subroutine
    integer(c_int32_t) function tessera_plan_create(device, desc, plan) bind(c)
      import :: c_int32_t, c_ptr, tessera_gemm_desc
      type(c_ptr), value :: device
      type(tessera_gemm_desc), intent(in) :: desc
      type(c_ptr), intent(out) :: plan
    end function
    subroutine tessera_plan_destroy(plan) bind(c)
      import :: c_ptr
      type(c_ptr), value :: plan
    end subroutine
    integer(c_size_t) function tessera_plan_workspace_bytes(plan) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: plan
    end function
    integer(c_int32_t) function tessera_plan_run(plan, a, b, c, d, workspace, bytes, stream) bind(c)
      import :: c_int32_t, c_size_t, c_ptr
      type(c_ptr), value :: plan, a, b, c, d, workspace, stream
      integer(c_size_t), value :: bytes
    end function

    ! The driver's, with a CUdeviceptr as c_ptr, which is as long.
    integer(c_int) function cuInit(flags) bind(c, name='cuInit')
      import :: c_int
      integer(c_int), value :: flags
    end function
    integer(c_int) function cuDevicePrimaryCtxRetain(context, device) bind(c, name='cuDevicePrimaryCtxRetain')
      import :: c_int, c_ptr
      type(c_ptr), intent(out) :: context
      integer(c_int), value :: device
    end function
    integer(c_int) function cuDevicePrimaryCtxRelease(device) bind(c, name='cuDevicePrimaryCtxRelease_v2')
      import :: c_int
      integer(c_int), value :: device
    end function
    integer(c_int) function cuCtxSetCurrent(context) bind(c, name='cuCtxSetCurrent')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
    end function
    integer(c_int) function cuMemAlloc(address, bytes) bind(c, name='cuMemAlloc_v2')
      import :: c_int, c_size_t, c_ptr
      type(c_ptr), intent(out) :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cuMemFree(address) bind(c, name='cuMemFree_v2')
      import :: c_int, c_ptr
      type(c_ptr), value :: address
    end function
    integer(c_int) function cuMemcpyHtoD(to, from, bytes) bind(c, name='cuMemcpyHtoD_v2')
      import :: c_int, c_size_t, c_ptr
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cuMemcpyDtoH(to, from, bytes) bind(c, name='cuMemcpyDtoH_v2')
      import :: c_int, c_size_t, c_ptr
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cuCtxSynchronize() bind(c, name='cuCtxSynchronize')
      import :: c_int
    end function
  end interface

  integer(c_size_t), parameter :: m = 3, n = 2, k = 4
  real(c_double), target :: a(m, k), b(k, n), c(m, n)
  type(tessera_gemm_desc) :: desc
  type(c_ptr) :: context, device, plan, on_a, on_b, on_c, workspace
  integer(c_size_t) :: bytes
  integer :: i

  a = reshape([(real(mod(i, 5), c_double), i = 1, int(m * k))], shape(a))
  b = reshape([(real(i, c_double), i = 1, int(k * n))], shape(b))

  call check(cuInit(0), 'cuInit')
  call check(cuDevicePrimaryCtxRetain(context, 0), 'cuDevicePrimaryCtxRetain')
  call check(cuCtxSetCurrent(context), 'cuCtxSetCurrent')
  on_a = device_memory(storage_size(a) / 8 * m * k)
  on_b = device_memory(storage_size(b) / 8 * k * n)
  on_c = device_memory(storage_size(c) / 8 * m * n)
  call check(cuMemcpyHtoD(on_a, c_loc(a), storage_size(a) / 8 * m * k), 'cuMemcpyHtoD')
  call check(cuMemcpyHtoD(on_b, c_loc(b), storage_size(b) / 8 * k * n), 'cuMemcpyHtoD')

  desc%size = c_sizeof(desc)
  desc%m = m
  desc%n = n
  desc%k = k
  desc%a_dtype = TESSERA_F64
  desc%b_dtype = TESSERA_F64
  desc%c_dtype = TESSERA_F64
  desc%a_order = TESSERA_COL_MAJOR
  desc%b_order = TESSERA_COL_MAJOR
  desc%c_order = TESSERA_COL_MAJOR
  desc%d_order = TESSERA_COL_MAJOR
  desc%lda = m
  desc%ldb = k
  desc%ldc = m
  desc%ldd = m
  call check(tessera_device_create(0, device), 'tessera_device_create')
  call check(tessera_plan_create(device, desc, plan), 'tessera_plan_create')
  bytes = tessera_plan_workspace_bytes(plan)
  workspace = c_null_ptr
  if (bytes > 0) workspace = device_memory(bytes)

  ! In the legacy default stream, which is null. C is not read: beta is 0.
  call check(tessera_plan_run(plan, on_a, on_b, c_null_ptr, on_c, workspace, bytes, c_null_ptr), 'tessera_plan_run')
  call check(cuCtxSynchronize(), 'cuCtxSynchronize')
  call check(cuMemcpyDtoH(c_loc(c), on_c, storage_size(c) / 8 * m * n), 'cuMemcpyDtoH')
  print '(2f6.1)', transpose(c)
  if (any(abs(c - matmul(a, b)) > 0)) error stop 2

  call tessera_plan_destroy(plan)
  call tessera_device_destroy(device)
  if (bytes > 0) call check(cuMemFree(workspace), 'cuMemFree')
  call check(cuMemFree(on_c), 'cuMemFree')
  call check(cuMemFree(on_b), 'cuMemFree')
  call check(cuMemFree(on_a), 'cuMemFree')
  call check(cuCtxSetCurrent(c_null_ptr), 'cuCtxSetCurrent')
  call check(cuDevicePrimaryCtxRelease(0), 'cuDevicePrimaryCtxRelease')

contains

  type(c_ptr) function device_memory(bytes)
    integer(c_size_t), intent(in) :: bytes
    call check(cuMemAlloc(device_memory, bytes), 'cuMemAlloc')
  end function

  subroutine check(status, call)
    integer(c_int), intent(in) :: status
    character(*), intent(in) :: call
    if (status == 0) return
    print '(a, a, i0)', call, ' gives ', status
    error stop 1
  end subroutine
end program
