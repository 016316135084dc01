"""Times products of narrow types, in turns: those of Tessera's BLAS, of MKL, and of oneDNN as PyTorch calls it.

python3 compare.py libtessera_blas.so libmkl_rt.so.3 TYPES SHAPES, with TESSERA_NUM_THREADS for all three.
PyTorch brings symbols of MKL, so it runs in a process of its own, which waits while the others are timed.
"""
import ctypes, os, statistics, subprocess, sys, time
import numpy as np

KINDS = dict(bf16=("bf16", "f32"), f16=("f16", "f32"), u8s8=("byte", "s32"), f32=("f32", "f32"))
threads = int(os.environ["TESSERA_NUM_THREADS"])
seconds = float(os.environ.get("SECONDS_EACH", "1.2"))


def drawn(count, element, seed):
    rng = np.random.default_rng(seed)
    if element == "byte":
        return rng.integers(0, 256, count, dtype=np.uint8)
    x = rng.random(count, dtype=np.float32) * 2 - 1
    if element == "bf16":
        return (x.view(np.uint32) >> 16).astype(np.uint16)
    return x.astype(np.float16) if element == "f16" else x


def timed(run):
    """Seconds of two runs, after one that is not counted."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[1:]


def torch_worker():
    """C is of the type of A and B; of bytes, which both have a sign here, it is of 32 bits."""
    import torch
    torch.set_num_threads(threads)
    about = [line.strip(" -") for line in torch.__config__.show().splitlines() if "DNN" in line]
    print(f"PyTorch {torch.__version__}, {about[0]}", flush=True)
    types = dict(bf16=torch.bfloat16, f16=torch.float16, u8s8=torch.int8, f32=torch.float32)
    run = None
    for line in sys.stdin:
        if line.strip() == "go":
            print(" ".join(map(repr, timed(run))), flush=True)
            continue
        kind, m, n, k = line.split()
        m, n, k = int(m), int(n), int(k)
        def operand(rows, cols, seed):
            data = torch.from_numpy(drawn(rows * cols, KINDS[kind][0], seed).view(np.uint8))
            return data.view(types[kind]).reshape(rows, cols)
        a, b = operand(m, k, 1), operand(k, n, 2)
        out = torch.empty(m, n, dtype=torch.int32 if kind == "u8s8" else types[kind])
        multiply = torch._int_mm if kind == "u8s8" else torch.mm
        run = lambda: multiply(a, b, out=out)
        run()


def call(lib, kind, m, n, k, a, b, out):
    c = ctypes
    one, none, zero = c.c_float(1.0), c.c_float(0.0), (c.c_int * 1)(0)
    a, b, out = (c.c_void_p(x.ctypes.data) for x in (a, b, out))
    if kind == "u8s8":
        # Row-major: A without a sign, B with one.
        off = c.c_int8(0)
        return lambda: lib.cblas_gemm_s8u8s32(101, 111, 111, 173, m, n, k, one, a, k, off, b, n, off, none, out, n, zero)
    name = dict(bf16="cblas_gemm_bf16bf16f32", f16="cblas_gemm_f16f16f32", f32="cblas_sgemm")[kind]
    function = getattr(lib, name)
    return lambda: function(101, 111, 111, m, n, k, one, a, k, b, n, none, out, n)


def main():
    libraries = [ctypes.CDLL(path) for path in sys.argv[1:3]]
    types, shapes = sys.argv[3].split(","), [tuple(map(int, s.split("x"))) for s in sys.argv[4].split(",")]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
    worker = subprocess.Popen([sys.executable, __file__, "--torch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    def ask(line):
        worker.stdin.write(line + "\n")
        worker.stdin.flush()
    print(worker.stdout.readline())
    print("| types | m x n x k | Tessera, us | MKL, us | PyTorch, us | to the better | off by |\n|---|---|---:|---:|---:|---:|---:|")
    ratios = {}
    for kind in types:
        element, of_c = KINDS[kind]
        for m, n, k in shapes:
            a, b = drawn(m * k, element, 1), drawn(k * n, element, 2)
            outs = [np.zeros(m * n, np.int32 if of_c == "s32" else np.float32) for _ in range(2)]
            runs = [call(lib, kind, m, n, k, a, b, out) for lib, out in zip(libraries, outs)]
            for run in runs:
                run()
            ask(f"{kind} {m} {n} {k}")
            ours, theirs = (out.astype(np.float64) for out in outs)
            off = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1.0)
            times, end = [[], [], []], time.time() + seconds
            while time.time() < end or len(times[0]) < 6:
                for of, run in zip(times, runs):
                    of += timed(run)
                ask("go")
                times[2] += map(float, worker.stdout.readline().split())
            x, y, z = (statistics.median(of) * 1e6 for of in times)
            ratios.setdefault(kind, []).append(min(y, z) / x)
            print(f"| {kind} | {m} x {n} x {k} | {x:.0f} | {y:.0f} | {z:.0f} | {min(y, z) / x:.2f}x | {off:.1e} |", flush=True)
    worker.stdin.close()
    for kind, of in ratios.items():
        print(f"\n{kind}: geometric mean {statistics.geometric_mean(of):.2f}x, least {min(of):.2f}x of the better of MKL and PyTorch", end="")
    print()


torch_worker() if sys.argv[1:] == ["--torch"] else main()
