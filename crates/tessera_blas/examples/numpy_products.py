"""Products of NumPy with its own BLAS and with libtessera_blas.so, their times and their errors.

    python3 numpy_products.py libtessera_blas.so [--device cuda:0] [--type f32] [--check] [sizes]

Each way is a process of its own, in which nothing changes but the environment; with the library each product
leaves a line, which is shown. With a device products are computed there as well, and where `auto` has them.
Errors are those of some rows of C against sums of longer numbers: of C in the Frobenius norm, and of the element
that is furthest off, in unit roundoffs of |A||B|.

With --check it exits with 1 unless, where this CPU has matrix units, the library computes products from 4096 cubed on
by them, and in less time than NumPy's own BLAS.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

SIZES = [1024, 4096, 8192]
TYPES = {"f32": ("float32", "float64"), "f64": ("float64", "longdouble")}
REPEATS = 5
CHECKED = 4096
ROWS = 16


def multiply(size, name):
    """Multiplies in this process, and prints seconds, both errors, and whether they are within the bound."""
    import numpy as np

    of, longer = TYPES[name]
    random = np.random.default_rng(size)
    a = random.standard_normal((size, size)).astype(of)
    b = random.standard_normal((size, size)).astype(of)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        c = a @ b
        seconds.append(time.perf_counter() - started)
    some = slice(0, size, max(1, size // ROWS))
    rows = a[some].astype(longer)
    exact = np.zeros((len(rows), size), longer)
    bound = np.zeros_like(exact)
    # Some columns of B at a time: as longer numbers it may be more than there is memory for.
    for first in range(0, size, 256):
        columns = slice(first, first + 256)
        right = b[:, columns].astype(longer)
        exact[:, columns] = rows @ right
        bound[:, columns] = np.abs(rows) @ np.abs(right)
    off = np.abs(c[some].astype(longer) - exact)
    norm = np.sqrt((off**2).sum() / (exact**2).sum())
    roundoffs = (off / bound).max() / (np.finfo(of).eps / 2)
    print(min(seconds), float(norm), float(roundoffs), bool(roundoffs <= size))


def run(size, name, environment, log):
    """The same in a process of its own, and the lines that its products left."""
    variables = {**os.environ, **environment, "TESSERA_BLAS_LOG": log}
    command = [sys.executable, __file__, "--multiply", str(size), name]
    output = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    seconds, norm, roundoffs, within = output.stdout.split()
    lines = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as file:
            # Errors take products as well.
            lines = [line.strip() for line in file if f" {size} x {size} x {size}: " in line]
        os.remove(log)
    return float(seconds), float(norm), float(roundoffs), within == "True", lines


def has_matrix_units():
    """Whether this CPU has them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return any(line.startswith("flags") and " amx_tile" in line for line in file)
    except OSError:
        return False


def ways(library, device):
    """Names, and what they change in the environment."""
    preloaded = {"LD_PRELOAD": os.path.abspath(library), "TESSERA_BLAS_DEVICE": "cpu"}
    units = "TESSERA_CPU_UNITS"
    found = {"NumPy's own": {}, "same-bits": {**preloaded, units: "same-bits"}, "library": preloaded}
    if device:
        for where in (device, "auto"):
            found[where] = {**preloaded, "TESSERA_BLAS_DEVICE": where}
    return found


def compare(size, name, arguments, folder):
    """Prints a line for each way; gives what is wrong."""
    wrong = []
    seconds_of, lines_of = {}, {}
    for way, environment in ways(arguments.library, arguments.device).items():
        log = os.path.join(folder, "log")
        seconds, norm, roundoffs, within, lines = run(size, name, environment, log)
        seconds_of[way], lines_of[way] = seconds, lines
        rate = 2 * size**3 / seconds / 1e9
        errors = f"error {norm:.2e} in the norm, {roundoffs:.2f} u of |A||B|"
        print(f"{size:6} {name} {way:12} {seconds:10.5f} s {rate:8.0f} GFLOP/s, {errors}", flush=True)
        for line in lines[-1:]:
            print(f"       {line}")
        if not within:
            wrong.append(f"{way}: an element is not within its bound")
        # A library that gets no calls has not been tested.
        if environment and not lines:
            wrong.append(f"{way}: no product came to the library")
    if arguments.check and size >= CHECKED:
        if not has_matrix_units():
            print("       not compared: this CPU has no matrix units")
        elif not all(" by matrix units, " in line for line in lines_of["library"]):
            wrong.append("the library did not compute by matrix units")
        elif seconds_of["library"] >= seconds_of["NumPy's own"]:
            wrong.append("the library is not faster than NumPy's own BLAS")
    return [f"{size} {name}: {what}" for what in wrong]


def main():
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("library")
    parser.add_argument("--device")
    parser.add_argument("--type", action="append", choices=list(TYPES))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("sizes", nargs="*", type=int)
    arguments = parser.parse_intermixed_args()
    if importlib.util.find_spec("numpy") is None:
        parser.error("this Python has no NumPy; `python3 -m pip install numpy` installs it")
    if not os.path.exists(arguments.library):
        parser.error(f"there is no {arguments.library}; `cargo build --release -p tessera-blas` makes it")
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes or SIZES:
            for name in arguments.type or TYPES:
                wrong += compare(size, name, arguments, folder)
    for what in wrong:
        print(what)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--multiply"]:
        multiply(int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
