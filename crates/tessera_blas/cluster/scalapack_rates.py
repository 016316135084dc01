"""Times of ScaLAPACK's pdgemm and LU on a grid of processes, and what a model says of larger ones.

    tessera-mpirun -np 4 python3 scalapack_rates.py [--grid 2x2] [--block 128] [--type f64] SIZE...
    python3 scalapack_rates.py --model 1,4,1024 --rate 2000 --bandwidth 12.5 --latency 2 SIZE...

The first prints for each size and routine the best time of three, on process 0: n by n matrices in blocks of
`--block`, a product and a factorisation with partial pivoting. Each is checked: the product times a vector of ones
against both factors times it, the solution of a system whose elements are all one against these.

The second predicts both for that many processes, from the rate of one in GFLOP/s, the bandwidth between two in GB/s and
the latency of a message in microseconds.

SCALAPACK_LIBRARY names the library, else libscalapack-openmpi.so.2.2; NumPy holds the matrices.
"""

import argparse
import ctypes
import importlib.util
import math
import os
import sys
import time

TYPES = {"f32": ("s", "float32", ctypes.c_float), "f64": ("d", "float64", ctypes.c_double)}
REPEATS = 3


def number(value):
    """An INTEGER of Fortran."""
    return ctypes.byref(ctypes.c_int(value))


class Grid:
    """The processes as rows and columns of a grid."""

    def __init__(self, library, rows, cols):
        self.library = library
        me, count, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        library.Cblacs_pinfo(ctypes.byref(me), ctypes.byref(count))
        if rows * cols != count.value:
            sys.exit(f"a grid of {rows} x {cols} is not of {count.value} processes; set --grid")
        library.Cblacs_get(0, 0, ctypes.byref(context))
        library.Cblacs_gridinit(ctypes.byref(context), b"Row", rows, cols)
        self.shape, self.context, self.first = (rows, cols), context.value, me.value == 0
        places = [ctypes.c_int() for _ in range(4)]
        library.Cblacs_gridinfo(context, *(ctypes.byref(place) for place in places))
        self.place = (places[2].value, places[3].value)

    def wait(self):
        """Until all are here."""
        self.library.Cblacs_barrier(self.context, b"All")

    def close(self):
        """Ends with all."""
        self.library.Cblacs_gridexit(self.context)
        self.library.Cblacs_exit(0)


class Matrix:
    """A matrix in blocks, of which a process has some."""

    def __init__(self, grid, shape, block, element):
        import numpy as np

        own = []
        for axis in range(2):
            sizes = map(number, (shape[axis], block, grid.place[axis], 0, grid.shape[axis]))
            own.append(max(1, grid.library.numroc_(*sizes)))
        self.own = np.zeros(own, element, order="F")
        self.described = (ctypes.c_int * 9)()
        state = ctypes.c_int()
        numbers = map(number, (*shape, block, block, 0, 0, grid.context, own[0]))
        grid.library.descinit_(self.described, *numbers, ctypes.byref(state))
        if state.value:
            sys.exit(f"descinit says {state.value}")

    def draw(self, seed):
        """Fills the own part."""
        import numpy as np

        self.own[...] = np.random.default_rng(seed).standard_normal(self.own.shape)
        return self

    def arguments(self):
        """As PBLAS and ScaLAPACK take it."""
        address = self.own.ctypes.data_as(ctypes.c_void_p)
        return address, number(1), number(1), self.described


class Routines:
    """Of one type of elements."""

    def __init__(self, grid, name, block):
        self.grid, self.block = grid, block
        self.letter, self.element, self.scalar = TYPES[name]

    def call(self, name, *arguments):
        """A routine by its name without the letter of its type."""
        getattr(self.grid.library, f"p{self.letter}{name}_")(*arguments)

    def matrix(self, rows, cols):
        """Of zeros."""
        return Matrix(self.grid, (rows, cols), self.block, self.element)

    def multiply(self, a, b, c, sizes):
        """C = A * B."""
        one, zero = ctypes.byref(self.scalar(1)), ctypes.byref(self.scalar(0))
        m, n, k = map(number, sizes)
        factors = (one, *a.arguments(), *b.arguments(), zero, *c.arguments())
        self.call("gemm", b"N", b"N", m, n, k, *factors, ctypes.c_size_t(1), ctypes.c_size_t(1))

    def largest(self, own):
        """The largest element of what all processes have."""
        import numpy as np

        at = np.array([[np.abs(own).max() if own.size else 0.0]], "float64", order="F")
        unused = ctypes.byref(ctypes.c_int(-1))
        address = at.ctypes.data_as(ctypes.c_void_p)
        self.grid.library.Cdgamx2d(
            self.grid.context, b"All", b" ", 1, 1, address, 1, unused, unused, -1, -1, -1
        )
        return at[0, 0]

    def allowed(self, name, size):
        """How far results may be off: of a system by the condition that random matrices seldom exceed."""
        import numpy as np

        roundoff = float(np.finfo(self.element).eps)
        return min(0.1, roundoff * size * (10 if name == "gemm" else 10 * size**1.5))

    def timed(self, compute, prepare=lambda: None):
        """The best of some times."""
        best = math.inf
        for _ in range(REPEATS):
            prepare()
            self.grid.wait()
            started = time.perf_counter()
            compute()
            self.grid.wait()
            best = min(best, time.perf_counter() - started)
        return best

    def product(self, size):
        """Seconds of a product, and how far it is off beside its largest element."""
        a, b, c = (self.matrix(size, size) for _ in range(3))
        a.draw((1, *self.grid.place))
        b.draw((2, *self.grid.place))
        seconds = self.timed(lambda: self.multiply(a, b, c, (size, size, size)))
        ones, step, expected, found = (self.matrix(size, 1) for _ in range(4))
        ones.own[...] = 1
        self.multiply(b, ones, step, (size, 1, size))
        self.multiply(a, step, expected, (size, 1, size))
        self.multiply(c, ones, found, (size, 1, size))
        off = self.largest(found.own - expected.own)
        return seconds, off / self.largest(expected.own)

    def factors(self, size):
        """Seconds of LU, and how far the elements of a solution are off, which are all one."""
        a, kept, ones, right = (self.matrix(size, n) for n in (size, size, 1, 1))
        kept.draw((3, *self.grid.place))
        ones.own[...] = 1
        self.multiply(kept, ones, right, (size, 1, size))
        pivots = (ctypes.c_int * (a.own.shape[0] + self.block))()
        state = ctypes.c_int()

        def prepare():
            a.own[...] = kept.own

        def factor():
            n = number(size)
            self.call("getrf", n, n, *a.arguments(), pivots, ctypes.byref(state))

        seconds = self.timed(factor, prepare)
        if state.value:
            sys.exit(f"the factorisation says {state.value}")
        solve = (b"N", number(size), number(1), *a.arguments(), pivots, *right.arguments())
        self.call("getrs", *solve, ctypes.byref(state), ctypes.c_size_t(1))
        # Only processes of the first column have a part of the vector.
        has_part = self.grid.place[1] == 0
        return seconds, self.largest(right.own - 1 if has_part else right.own[:0])


def measure(arguments):
    """All sizes on this process' grid."""
    library = ctypes.CDLL(os.environ.get("SCALAPACK_LIBRARY", "libscalapack-openmpi.so.2.2"))
    rows, cols = (int(side) for side in arguments.grid.split("x"))
    grid = Grid(library, rows, cols)
    routines = Routines(grid, arguments.type, arguments.block)
    for size in arguments.sizes:
        for name, compute, flops in (
            ("gemm", routines.product, 2 * size**3),
            ("getrf", routines.factors, 2 * size**3 / 3),
        ):
            seconds, off = compute(size)
            called = f"p{routines.letter}{name}"
            if grid.first:
                rate = flops / seconds / 1e9
                print(
                    f"{called:8} {size:6} {rows} x {cols} {seconds:9.4f} s {rate:8.1f} GFLOP/s,"
                    f" off by {off:.1e}",
                    flush=True,
                )
            if not off < routines.allowed(name, size):
                sys.exit(f"{called} of {size} is off by {off}")
    grid.close()


def predicted(size, processes, arguments):
    """Seconds of the product and of LU on a square grid, and of each the part that is communication.

    The product sends each panel of A along the rows of the grid and each of B along its columns, in rings of which the
    stages overlap: every process receives n^2 / sqrt(p) elements of each. LU is HPL's model: the panels of both
    factors travel likewise, of a matrix that shrinks, and each column of a panel asks all rows of processes for its pivot.
    """
    element = 4 if arguments.type == "f32" else 8
    rate, latency = arguments.rate * 1e9, arguments.latency * 1e-6
    per_element = element / (arguments.bandwidth * 1e9)
    side = math.sqrt(processes)
    panels = size / arguments.block
    hops = math.log2(side) + 1 if processes > 1 else 0
    volume = size**2 / side * per_element if processes > 1 else 0
    product = (2 * size**3 / processes / rate, 2 * volume + 2 * panels * hops * latency)
    columns = size * hops * latency
    factors = (2 * size**3 / 3 / processes / rate, 2 * volume + panels * hops * latency + columns)
    return product, factors


def model(arguments):
    """Prints the prediction as a table."""
    of_each = "s | of it communication | efficiency"
    print(f"| n | processes | pdgemm, {of_each} | LU, {of_each} |\n|---:|{'---:|' * 7}")
    for size in arguments.sizes:
        for processes in map(int, arguments.model.split(",")):
            cells = []
            for compute, send in predicted(size, processes, arguments):
                total = compute + send
                cells += [f"{total:.3g}", f"{100 * send / total:.0f} %", f"{compute / total:.2f}"]
            print(f"| {size} | {processes} | {' | '.join(cells)} |")


def main():
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--grid", default="1x1")
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--type", choices=list(TYPES), default="f64")
    parser.add_argument("--model", metavar="PROCESSES")
    parser.add_argument("--rate", type=float, default=1000.0, help="of a process, in GFLOP/s")
    parser.add_argument("--bandwidth", type=float, default=12.5, help="between two, in GB/s")
    parser.add_argument("--latency", type=float, default=2.0, help="of a message, in microseconds")
    parser.add_argument("sizes", nargs="+", type=int)
    arguments = parser.parse_intermixed_args()
    if arguments.model:
        return model(arguments)
    if importlib.util.find_spec("numpy") is None:
        parser.error("this Python has no NumPy; `python3 -m pip install numpy` installs it")
    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
