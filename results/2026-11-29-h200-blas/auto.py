"""Drawn calls of level 3 in three settings of one process, by turns: python3 auto.py LIBRARY SEED [TOP]."""
import ctypes, math, os, random, shutil, statistics as st, sys, time
import numpy as np
seed, top = int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 12.6
libs = {}
for setting in ('cpu', 'cuda:0', 'auto'):
    path = os.path.abspath(f"{setting.replace(':', '')}.so")
    shutil.copy(sys.argv[1], path)
    os.environ['TESSERA_BLAS_DEVICE'] = setting
    libs[setting] = ctypes.CDLL(path)
    f = libs[setting].cblas_dgemm; f.restype = None
    x = np.ones((600, 600)); y = np.ones((600, 600)); p = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    for _ in range(3): f(101, 111, 111, *[ctypes.c_int(600)] * 3, ctypes.c_double(1), p(x), ctypes.c_int(600), p(x), ctypes.c_int(600), ctypes.c_double(0), p(y), ctypes.c_int(600))
R, NO, UP, LEFT, NU = 101, 111, 121, 141, 131
draw = random.Random(seed)
def size(top): return int(2 ** draw.uniform(4, top))
calls = []
for i in range(40):
    kind = ['gemm'] * 5 + ['syrk', 'symm', 'trmm', 'trsm', 'syr2k']
    calls.append((draw.choice(kind), draw.choice('sd'), size(top), size(top), size(top)))
rows = []
for kind, letter, m, n, k in calls:
    dt, sc = (np.float32, ctypes.c_float) if letter == 's' else (np.float64, ctypes.c_double)
    one, zero, i = sc(1.0), sc(0.0), ctypes.c_int
    rng = np.random.default_rng(1)
    def mat(r, c): return rng.standard_normal((r, c)).astype(dt)
    if kind == 'gemm':
        a, b, c = mat(m, k), mat(k, n), mat(m, n)
        args = (R, NO, NO, i(m), i(n), i(k), one, p(a), i(k), p(b), i(n), zero, p(c), i(n))
    elif kind == 'syrk':
        a, c = mat(n, k), mat(n, n)
        args = (R, UP, NO, i(n), i(k), one, p(a), i(k), zero, p(c), i(n))
    elif kind == 'syr2k':
        a, b, c = mat(n, k), mat(n, k), mat(n, n)
        args = (R, UP, NO, i(n), i(k), one, p(a), i(k), p(b), i(k), zero, p(c), i(n))
    elif kind == 'symm':
        a, b, c = mat(m, m), mat(m, n), mat(m, n)
        args = (R, LEFT, UP, i(m), i(n), one, p(a), i(m), p(b), i(n), zero, p(c), i(n))
    else:
        a, b = mat(m, m) / m + np.eye(m, dtype=dt), mat(m, n)
        args = (R, LEFT, UP, NO, NU, i(m), i(n), one, p(a), i(m), p(b), i(n))
    times = {s: [] for s in libs}
    begin = time.perf_counter()
    while len(times['cpu']) < 4 or (len(times['cpu']) < 40 and time.perf_counter() - begin < 0.8):
        for s, lib in libs.items():
            f = getattr(lib, f'cblas_{letter}{kind}'); f.restype = None
            if kind in ('trmm', 'trsm'): b[...] = 1
            t = time.perf_counter(); f(*args); times[s].append(time.perf_counter() - t)
    c, g, a = (st.median(t[1:]) * 1e6 for t in times.values())
    rows.append(a / min(c, g))
    print(f'{letter}{kind} {m} {n} {k}: cpu {c:.0f} us, cuda:0 {g:.0f}, auto {a:.0f}, {rows[-1]:.2f} of the better', flush=True)
print('geometric mean %.3f, worst %.2f, above 1.1: %d of %d' % (math.exp(sum(map(math.log, rows)) / len(rows)), max(rows), sum(r > 1.1 for r in rows), len(rows)))
