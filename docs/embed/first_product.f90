! The product of two matrices, which Fortran stores by columns.
program first_product
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int32_t), parameter :: TESSERA_F64 = 2

  type, bind(c) :: tessera_matrix
    integer(c_size_t) :: size
    type(c_ptr) :: data
    integer(c_size_t) :: rows, cols
    integer(c_ptrdiff_t) :: row_stride, col_stride
    integer(c_int32_t) :: dtype, reserved
  end type

  interface
    integer(c_int32_t) function tessera_gemm(engine, alpha, a, b, beta, c) bind(c)
      import :: c_int32_t, c_double, c_ptr, tessera_matrix
      type(c_ptr), value :: engine
      real(c_double), value :: alpha, beta
      type(tessera_matrix), intent(in) :: a, b, c
    end function
  end interface

  real(c_double), target :: a(2, 3), b(3, 2), c(2, 2)

  a = reshape([1, 4, 2, 5, 3, 6], [2, 3])
  b = reshape([1, 0, 2, 0, 1, 2], [3, 2])
  if (tessera_gemm(c_null_ptr, 1d0, matrix(a), matrix(b), 0d0, matrix(c)) /= 0) error stop 1
  print '(2f5.1)', transpose(c)
  if (any(abs(c - matmul(a, b)) > 0)) error stop 2

contains

  function matrix(array) result(it)
    real(c_double), intent(in), target, contiguous :: array(:, :)
    type(tessera_matrix) :: it
    it%size = c_sizeof(it)
    it%data = c_loc(array)
    it%rows = size(array, 1, c_size_t)
    it%cols = size(array, 2, c_size_t)
    it%row_stride = 1
    it%col_stride = size(array, 1, c_ptrdiff_t)
    it%dtype = TESSERA_F64
    it%reserved = 0
  end function
end program
