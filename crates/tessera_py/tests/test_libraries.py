"""Arrays of other libraries: in without a copy, and out as their own."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest
import tessera
from conftest import whole


class Lent:
    """An array that NumPy lends by DLPack, and nothing else of it."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.asked = array, versioned, 0

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        self.asked += 1
        if not self.versioned and options:
            raise TypeError("no arguments")
        return self.array.__dlpack__(**options)

    def __array_namespace__(self):
        return np


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(rng, versioned):
    a, b = whole(rng, (4, 6), "f"), whole(rng, (6, 5), "f")
    for x, y in ((a, b), (a[:, ::2], b[::-2]), (b.T, a.T), (np.stack([a, a]), b)):
        found = tessera.matmul(Lent(x, versioned), Lent(y, versioned))
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, x @ y)


def test_dlpack_elements_are_read_where_they_are():
    """The product sees what is written to the lender's memory, and writes there: nothing is copied."""
    a = np.ones((3, 3))
    lent = Lent(a)
    address = ctypes.addressof(ctypes.c_double.from_buffer(a.data))
    ctypes.c_double.from_address(address).value = 5.0
    np.testing.assert_array_equal(tessera.matmul(lent, np.eye(3)), a)
    out = np.zeros((3, 3))
    assert isinstance(tessera.matmul(lent, lent, out=Lent(out)), Lent)
    np.testing.assert_array_equal(out, a @ a)
    assert tessera.explain(lent, lent)["copied"] == []


@pytest.mark.skipif(tuple(map(int, np.__version__.split(".")[:2])) < (2, 1), reason="NumPy 1 lends nothing that is read-only")
def test_dlpack_read_only():
    out = np.zeros((3, 3))
    out.flags.writeable = False
    a = np.ones((3, 3))
    np.testing.assert_array_equal(tessera.matmul(Lent(out), a), out)
    with pytest.raises(ValueError, match="read-only"):
        tessera.matmul(a, a, out=Lent(out))


def test_types_are_not_mixed_in_silence():
    a = np.ones((3, 3))
    with pytest.raises(TypeError, match="convert one of them"):
        tessera.matmul(Lent(a), a.astype("f"))
    found = tessera.matmul(Lent(a), a.astype("f"), dtype="float32")
    assert found.dtype == np.float32


def test_arrays_on_a_gpu_and_in_host_memory_are_not_mixed():
    class OnDevice(Lent):
        def __dlpack_device__(self):
            return (2, 0)

    class Cuda:
        __cuda_array_interface__ = {"shape": (3, 3), "typestr": "<f4", "data": (4096, False), "version": 3}

    class Elsewhere(Lent):
        def __dlpack_device__(self):
            return (8, 0)

    a = np.ones((3, 3))
    with pytest.raises(TypeError, match="a is in host memory and b on cuda:0: copy one of them"):
        tessera.matmul(a, OnDevice(a))
    with pytest.raises(TypeError, match="a is in host memory and out on cuda:0"):
        tessera.matmul(a, a, out=OnDevice(a))
    with pytest.raises(TypeError, match="on a device of DLPack's type 8"):
        tessera.matmul(a, Elsewhere(a))
    # What the address is only a driver says.
    with pytest.raises((RuntimeError, ValueError), match="no CUDA device|no device memory"):
        tessera.matmul(Cuda(), Cuda())
    with pytest.raises(ValueError, match="stream is for arrays on a GPU"):
        tessera.matmul(a, a, stream=0)


def test_a_refusal_of_the_lender_comes_through():
    class Refuses(Lent):
        def __dlpack__(self, **_):
            raise BufferError("not today")

    with pytest.raises(BufferError, match="not today"):
        tessera.matmul(Refuses(np.ones((3, 3))), np.ones((3, 3)))


def spied(monkeypatch, module):
    """The addresses of what a library is given by DLPack."""
    given, original = [], module.from_dlpack

    def from_dlpack(array):
        given.append(array.ctypes.data)
        return original(array)

    monkeypatch.setattr(module, "from_dlpack", from_dlpack)
    return given


def test_torch_takes_results_without_a_copy(monkeypatch):
    torch = pytest.importorskip("torch")
    given = spied(monkeypatch, torch)
    for dtype in (torch.float32, torch.bfloat16):
        for n in (1, 5, 300):
            a = torch.ones((n, n), dtype=dtype)
            assert tessera.matmul(a, a).data_ptr() == given[-1]


def test_jax_takes_results_without_a_copy(monkeypatch):
    dlpack = pytest.importorskip("jax.dlpack")
    jnp = pytest.importorskip("jax.numpy")
    given = spied(monkeypatch, dlpack)
    for n in (1, 5, 300):
        a = jnp.ones((n, n))
        assert tessera.matmul(a, a).unsafe_buffer_pointer() == given[-1]


def test_torch(rng):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.complex64):
        a = torch.from_numpy(whole(rng, (2, 5, 7), "d")).to(dtype)
        b = torch.from_numpy(whole(rng, (7, 3), "d")).to(dtype)
        expected = (a.to(torch.complex128) @ b.to(torch.complex128)).to(dtype)
        for x, y in ((a, b), (a.flip(1), b), (a[:, ::2], b)):
            found = tessera.matmul(x, y)
            assert isinstance(found, torch.Tensor) and found.dtype == dtype
            rows = expected if x is a else expected.flip(1) if x.shape == a.shape else expected[:, ::2]
            assert torch.equal(found, rows)
        out = torch.empty((2, 5, 3), dtype=dtype)
        at = out.data_ptr()
        assert tessera.matmul(a, b, out=out) is out
        assert out.data_ptr() == at and torch.equal(out, expected)
        assert tessera.explain(a, b)["copied"] == []
    tessera.matmul(a, b).add_(1)  # a result may be written
    with pytest.raises(RuntimeError):
        tessera.matmul(torch.ones(2, 2, requires_grad=True), torch.ones(2, 2))


def test_jax(rng):
    jnp = pytest.importorskip("jax.numpy")
    for dtype in ("float32", "int32", "bfloat16", "float16"):
        a = jnp.asarray(whole(rng, (4, 6), "f")).astype(dtype)
        found = tessera.matmul(a, a.T)
        assert type(found) is type(a) and found.dtype == a.dtype
        np.testing.assert_array_equal(np.asarray(found, "f"), np.asarray(a @ a.T, "f"))
    with pytest.raises(ValueError, match="read-only"):
        tessera.matmul(a, a.T, out=a)


COPIES = """
import resource, numpy as np, tessera

class Lent:
    def __init__(self, array): self.array = array
    def __dlpack_device__(self): return self.array.__dlpack_device__()
    def __dlpack__(self, **options): return self.array.__dlpack__(**options)
    def __array_namespace__(self): return np

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

a, x = np.ones((8192, 8192), "f"), np.ones(8192, "f")
tessera.matmul(x, x)
before = peak()
tessera.matmul(a, x), tessera.matmul(x, a.T), tessera.matmul(Lent(a), Lent(x))
in_place = peak()
tessera.matmul(a[::-1], x)
print(in_place - before, peak() - in_place)
"""


def test_operands_are_not_copied():
    """The most memory in use, in MiB: of a matrix of 256 a copy would be seen, as that of one upside down is."""
    done = subprocess.run([sys.executable, "-c", COPIES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    in_place, copied = map(int, done.stdout.split())
    assert in_place < 64 and copied > 200, done.stdout
