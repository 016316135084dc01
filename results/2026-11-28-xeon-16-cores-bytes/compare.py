"""Times cblas_gemm_s8u8s32 of two libraries, interleaved: MKL's and Tessera's."""
import ctypes, random, statistics, sys, time
import os
ours = ctypes.CDLL(sys.argv[1]); mkl = ctypes.CDLL(sys.argv[2])
N = [int(n) for n in sys.argv[3].split(',')]
def call(lib, m, n, k, a, b, c):
    co = (ctypes.c_int * 1)(0)
    # column-major, no transposes, one offset; A signed, B unsigned
    lib.cblas_gemm_s8u8s32(102, 111, 111, 173, m, n, k, ctypes.c_float(1.0), a, m, ctypes.c_int8(0), b, k, ctypes.c_int8(0), ctypes.c_float(0.0), c, m, co)
print("| m x n x k | MKL, us | Tessera, us | times as fast | same |"); print("|---|---:|---:|---:|---|")
shapes = [(n, n, n) for n in N] + [(8,4096,4096),(64,4096,4096),(4096,64,4096)]
for m, n, k in shapes:
    a = (ctypes.c_uint8 * (m * k)).from_buffer(bytearray(os.urandom(m * k)))
    b = (ctypes.c_uint8 * (k * n)).from_buffer(bytearray(os.urandom(k * n)))
    cs = [(ctypes.c_int * (m * n))() for _ in range(2)]
    libs = [mkl, ours]
    for lib, c in zip(libs, cs): call(lib, m, n, k, a, b, c)
    same = bytes(cs[0]) == bytes(cs[1])
    times = [[], []]
    end = time.time() + 1.2
    while time.time() < end or len(times[0]) < 5:
        for i in (0, 1):
            for rep in range(3):
                t = time.perf_counter(); call(libs[i], m, n, k, a, b, cs[i]); dt = time.perf_counter() - t
                if rep: times[i].append(dt)
    x, y = (statistics.median(t) * 1e6 for t in times)
    print(f"| {m} x {n} x {k} | {x:.0f} | {y:.0f} | {x / y:.2f} | {same} |", flush=True)
