"""Interleaved: same-bits, all (and OpenBLAS of numpy by its own) for s and d gemm, median us."""
import ctypes, os, shutil, sys, time, statistics
import numpy as np
lib, threads = sys.argv[1], sys.argv[2]
os.environ["TESSERA_NUM_THREADS"] = threads
libs = {}
for units in ("same-bits", "all"):
    os.environ["TESSERA_CPU_UNITS"] = units
    path = f"/tmp/lib-{units}.so"
    shutil.copy(lib, path)
    libs[units] = ctypes.CDLL(path)
    a = np.ones((64, 64)); c = np.empty_like(a)
    libs[units].cblas_dgemm(101, 111, 111, 64, 64, 64, ctypes.c_double(1), a.ctypes.data_as(ctypes.c_void_p), 64, a.ctypes.data_as(ctypes.c_void_p), 64, ctypes.c_double(0), c.ctypes.data_as(ctypes.c_void_p), 64)
    # the pool reads it too
    b = np.ones((512, 512)); d = np.empty_like(b)
    p = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    libs[units].cblas_dgemm(101, 111, 111, 512, 512, 512, ctypes.c_double(1), p(b), 512, p(b), 512, ctypes.c_double(0), p(d), 512)
rng = np.random.default_rng(1)
for t, ct, f in (("f32", ctypes.c_float, "cblas_sgemm"), ("f64", ctypes.c_double, "cblas_dgemm")):
    for n in (256, 384, 512, 768, 1024, 1536, 2048, 4096):
        a = rng.standard_normal((n, n)).astype("float32" if t == "f32" else "float64"); b = rng.standard_normal((n, n)).astype(a.dtype); c = np.empty_like(a)
        p = lambda x: x.ctypes.data_as(ctypes.c_void_p)
        times = {u: [] for u in libs}; times["numpy"] = []
        end = time.perf_counter() + (1.0 if n < 4096 else 2.5)
        while time.perf_counter() < end or len(times["numpy"]) < 3:
            for u, l in libs.items():
                s = time.perf_counter()
                getattr(l, f)(101, 111, 111, n, n, n, ct(1), p(a), n, p(b), n, ct(0), p(c), n)
                times[u].append(time.perf_counter() - s)
            if os.environ.get("WITH_NUMPY"):
                s = time.perf_counter(); np.matmul(a, b, out=c); times["numpy"].append(time.perf_counter() - s)
            else:
                times["numpy"].append(0)
        m = {u: statistics.median(x) * 1e6 for u, x in times.items()}
        print(f"{t} {n:5} {threads:>2} thr: same-bits {m['same-bits']:9.0f} all {m['all']:9.0f} ratio {m['same-bits']/m['all']:.2f} numpy {m['numpy']:9.0f}", flush=True)
