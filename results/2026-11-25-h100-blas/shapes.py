"""Times level 3 in one process of a device setting: python3 shapes.py LIBRARY; prints a line a call."""
import ctypes, random, statistics as st, sys, time
import numpy as np
lib = ctypes.CDLL(sys.argv[1])
R, NO, T, UP, LEFT, NU = 101, 111, 112, 121, 141, 131
draw = random.Random(7)
def size(top): return int(2 ** draw.uniform(4, top))
calls = []
for i in range(40):
    kind = ['gemm'] * 5 + ['syrk', 'symm', 'trmm', 'trsm', 'syr2k']
    calls.append((draw.choice(kind), draw.choice('sd'), size(12.6), size(12.6), size(12.6)))
def p(x): return x.ctypes.data_as(ctypes.c_void_p)
for kind, letter, m, n, k in calls:
    dt, sc = (np.float32, ctypes.c_float) if letter == 's' else (np.float64, ctypes.c_double)
    f = getattr(lib, f'cblas_{letter}{kind}'); f.restype = None
    one, zero, i = sc(1.0), sc(0.0), ctypes.c_int
    rng = np.random.default_rng(1)
    def mat(r, c): return rng.standard_normal((r, c)).astype(dt)
    if kind == 'gemm':
        a, b, c = mat(m, k), mat(k, n), mat(m, n)
        run = lambda: f(R, NO, NO, i(m), i(n), i(k), one, p(a), i(k), p(b), i(n), zero, p(c), i(n))
    elif kind == 'syrk':
        a, c = mat(n, k), mat(n, n)
        run = lambda: f(R, UP, NO, i(n), i(k), one, p(a), i(k), zero, p(c), i(n))
    elif kind == 'syr2k':
        a, b, c = mat(n, k), mat(n, k), mat(n, n)
        run = lambda: f(R, UP, NO, i(n), i(k), one, p(a), i(k), p(b), i(k), zero, p(c), i(n))
    elif kind == 'symm':
        a, b, c = mat(m, m), mat(m, n), mat(m, n)
        run = lambda: f(R, LEFT, UP, i(m), i(n), one, p(a), i(m), p(b), i(n), zero, p(c), i(n))
    else:
        a, b = mat(m, m) / m + np.eye(m, dtype=dt), mat(m, n)
        run = lambda: f(R, LEFT, UP, NO, NU, i(m), i(n), one, p(a), i(m), p(b), i(n))
    run()
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or (len(times) < 15 and time.perf_counter() - begin < 0.4):
        t = time.perf_counter(); run(); times.append(time.perf_counter() - t)
    print(f'{letter}{kind} {m} {n} {k} {st.median(times) * 1e6:.1f}', flush=True)
