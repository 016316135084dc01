import ctypes, os, sys
os.environ.setdefault('TESSERA_BLAS_DEVICE', 'cuda:0'); os.environ['TESSERA_BLAS_LOG'] = 'stderr'
import torch
lib = ctypes.CDLL(sys.argv[1]); i = ctypes.c_int
def gemm(letter, sc, m, n, k, a, lda, b, ldb, beta, c, ldc):
    f = getattr(lib, f'cblas_{letter}gemm'); f.restype = None
    f(101, 111, 111, i(m), i(n), i(k), sc(1.0), ctypes.c_void_p(a), i(lda), ctypes.c_void_p(b), i(ldb), sc(beta), ctypes.c_void_p(c), i(ldc))
for letter, dt, sc in [('s', torch.float32, ctypes.c_float), ('d', torch.float64, ctypes.c_double)]:
    for m, n, k in [(5, 7, 9), (300, 200, 100), (1024, 1024, 1024)]:
        a, b, c = torch.randn(m, k, device='cuda', dtype=dt), torch.randn(k, n, device='cuda', dtype=dt), torch.randn(m, n, device='cuda', dtype=dt)
        want = (a.double() @ b.double() + 0.5 * c.double())
        torch.cuda.synchronize()
        gemm(letter, sc, m, n, k, a.data_ptr(), k, b.data_ptr(), n, 0.5, c.data_ptr(), n)
        torch.cuda.synchronize()
        print(letter, m, n, k, 'device: off by', ((c.double() - want).abs().max() / want.abs().max()).item(), flush=True)
        h = a.cpu(); c2 = torch.randn(m, n, dtype=dt)
        gemm(letter, sc, m, n, k, h.data_ptr(), k, b.data_ptr(), n, 0.0, c2.data_ptr(), n)
        print('  host A and C, device B: off by', ((c2.double() - (a.double() @ b.double()).cpu()).abs().max() / want.abs().max().cpu()).item(), flush=True)
try:
    import cupy
    cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)
    a, b = cupy.random.rand(500, 400), cupy.random.rand(400, 300); c = cupy.zeros((500, 300)); cupy.cuda.Device().synchronize()
    gemm('d', ctypes.c_double, 500, 300, 400, a.data.ptr, 400, b.data.ptr, 300, 0.0, c.data.ptr, 300)
    print('managed: off by', float(abs(c - a @ b).max()))
except Exception as e: print('cupy:', e)
