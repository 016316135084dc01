"""Products of NumPy with its own BLAS, with libtessera_blas.so, and with it and a GPU.

    python3 numpy_products.py libtessera_blas.so [cuda:0] [sizes]

Each way is a process of its own, in which nothing changes but the environment; with the library each product
leaves a line, which is shown. The result of each way is compared with NumPy's own.
"""

import os
import subprocess
import sys
import tempfile
import time

SIZES = [1024, 4096, 8192]
REPEATS = 3


def multiply(size, saved):
    """Multiplies in this process, and keeps a part of the result or compares it with what was kept."""
    import numpy as np

    random = np.random.default_rng(size)
    a = random.standard_normal((size, size))
    b = random.standard_normal((size, size))
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        c = a @ b
        seconds.append(time.perf_counter() - started)
    rows = np.ascontiguousarray(c[:: max(1, size // 64)])
    if os.path.exists(saved):
        own = np.load(saved)
        bound = size * np.finfo(np.float64).eps * (np.abs(a[:: max(1, size // 64)]) @ np.abs(b))
        within = bool((np.abs(rows - own) <= bound).all())
    else:
        np.save(saved, rows)
        within = True
    best = min(seconds)
    print(f"{size} {best:.6f} {2 * size**3 / best / 1e9:.0f} {within}")


def run(size, saved, environment, log):
    """The same in a process of its own: seconds, GFLOP/s, whether the result is near NumPy's, and the last line."""
    variables = {**os.environ, **environment, "TESSERA_BLAS_LOG": log}
    command = [sys.executable, __file__, "--multiply", str(size), saved]
    output = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    _, seconds, rate, within = output.stdout.split()
    lines = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as file:
            # The comparison multiplies as well.
            lines = [line.strip() for line in file if f" {size} x {size} x {size}: " in line]
        os.remove(log)
    return float(seconds), float(rate), within == "True", lines


def main(arguments):
    library = os.path.abspath(arguments[0])
    device = arguments[1] if len(arguments) > 1 else "cuda:0"
    sizes = [int(size) for size in arguments[2:]] or SIZES
    preloaded = {"LD_PRELOAD": library}
    ways = {
        "NumPy's own": {},
        "on the CPU": {**preloaded, "TESSERA_BLAS_DEVICE": "cpu"},
        f"on {device}": {**preloaded, "TESSERA_BLAS_DEVICE": device},
        "auto": {**preloaded, "TESSERA_BLAS_DEVICE": "auto"},
    }
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            saved = os.path.join(folder, f"{size}.npy")
            for way, environment in ways.items():
                log = os.path.join(folder, "log")
                seconds, rate, within, lines = run(size, saved, environment, log)
                print(f"{size:6} {way:12} {seconds:10.4f} s {rate:8.0f} GFLOP/s", flush=True)
                for line in lines[-1:]:
                    print(f"       {line}")
                if not within:
                    print("       the result is not within the bound")
                # A library that gets no calls has not been tested.
                if environment and not lines:
                    print("       no product came to the library")
                good = good and within and bool(lines or not environment)
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--multiply":
        multiply(int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main(sys.argv[1:]))
