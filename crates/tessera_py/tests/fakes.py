"""Arrays on the GPUs of the emulated driver, and libraries of such arrays.

Device memory of that driver is memory of the process: what is queued is done late, and then there.
"""

import contextlib
import ctypes
import sys
import types

import numpy as np
import tessera

EMULATED = getattr(tessera._native, "emulated", None)

KEPT = []


def itemsize(dtype):
    return np.dtype(dtype).itemsize


class Base:
    """An array of a shape, strides in bytes and a type in device memory."""

    def __init__(self, memory, shape, dtype, strides=None, offset=0, device=0, stream=None):
        self.memory, self.offset, self.on, self.ready_in = memory, offset, device, stream
        self.sizes, self.type = tuple(shape), np.dtype(dtype)
        self.steps = strides or np.empty(shape, np.int8).strides
        if strides is None:
            self.steps = tuple(step * self.type.itemsize for step in self.steps)

    @property
    def address(self):
        return self.memory.address + self.offset

    def part(self, host):
        """The same memory with the shape, strides and offset that a view of `host` has."""
        offset = host.__array_interface__["data"][0] - base(host).__array_interface__["data"][0]
        return type(self)(self.memory, host.shape, host.dtype, host.strides, offset, self.on, self.ready_in)

    def host(self):
        """Its elements, once all that is queued is done."""
        EMULATED.synchronize(self.on)
        return view(self.address, self.sizes, self.type, self.steps)


def base(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def view(address, shape, dtype, strides):
    """A copy of elements at an address."""
    dtype = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    reaches = [(n - 1) * step for n, step in zip(shape, strides)]
    low, high = sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches)
    raw = (ctypes.c_char * (high - low + dtype.itemsize)).from_address(address + low)
    return np.ndarray(shape, dtype, raw, -low, strides).copy()


class Cai(Base):
    """An array with the CUDA array interface, and nothing else."""

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.sizes,
            "typestr": self.type.str,
            "data": (self.address, False),
            "strides": self.steps,
            "version": 3,
            "stream": self.ready_in,
        }


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Lent(Base):
    """An array with DLPack, and nothing else. `returned` counts the loans that were given back."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.streams, self.loans, self.returned = [], 0, 0

    def __dlpack_device__(self):
        return (2, self.on)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        code = {"f": 2, "i": 0, "V": 4, "u": 1, "c": 5}[self.type.kind]
        count = len(self.sizes)
        managed = _Managed()
        shape = (ctypes.c_int64 * count)(*self.sizes)
        strides = (ctypes.c_int64 * count)(*(step // self.type.itemsize for step in self.steps))
        at = managed.tensor
        at.data, at.device_type, at.device_id, at.ndim = self.address, 2, self.on, count
        at.code, at.bits, at.lanes = code, 8 * self.type.itemsize, 1
        at.shape, at.strides, at.byte_offset = shape, strides, 0
        self.loans += 1

        def end(_):
            self.returned += 1

        end = _DESTRUCTOR(end)
        # The capsule's end is the loan's, as long as nobody takes it.
        KEPT.append((managed, shape, strides, end))
        return _api.PyCapsule_New(ctypes.addressof(managed), b"dltensor", ctypes.cast(end, ctypes.c_void_p))


def taken(lender, **options):
    """A capsule of an array, taken as a consumer does: address, shape, and how to give it back."""
    capsule = lender.__dlpack__(**options)
    managed = _Managed.from_address(_api.PyCapsule_GetPointer(capsule, b"dltensor"))
    name = ctypes.c_char_p(b"used_dltensor")
    KEPT.append(name)
    _api.PyCapsule_SetName(capsule, name)
    at = managed.tensor
    shape = tuple(at.shape[i] for i in range(at.ndim))
    assert at.device_type == 2 and at.byte_offset == 0
    return at.data, shape, lambda: managed.deleter(ctypes.addressof(managed))


def upload(host, of=Cai, device=0, **options):
    """An array of a library with the elements of one in host memory, and its form."""
    owner = base(host) if isinstance(host.base, np.ndarray) else host
    memory = EMULATED.allocate(device, owner.nbytes)
    if owner.nbytes:
        memory.write(ctypes.string_at(owner.__array_interface__["data"][0], owner.nbytes))
    offset = host.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return of(memory, host.shape, host.dtype, host.strides, offset, device, **options)


def result(found):
    """The elements of what tessera made."""
    EMULATED.synchronize(found.__dlpack_device__()[1])
    address, shape, give_back = taken(found)
    dtype = np.dtype("V2") if found.dtype == "bfloat16" else np.dtype(found.dtype)
    elements = view(address, shape, dtype, tuple(s * dtype.itemsize for s in np.empty(shape, np.int8).strides))
    give_back()
    return elements


class _Dtype:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


def torch():
    """What tessera asks of PyTorch, on the emulated driver."""
    module = types.ModuleType("torch")
    for name in ("float16", "bfloat16", "float32", "float64", "int32", "int8", "int64", "uint8"):
        setattr(module, name, _Dtype(name))
    module.grad = True
    module.is_grad_enabled = lambda: module.grad
    cuda, private = types.ModuleType("torch.cuda"), types.ModuleType("torch._C")
    module.cuda, module._C = cuda, private
    cuda.current = [1, 1]
    cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=cuda.current[device])
    cuda.default_stream = lambda device: types.SimpleNamespace(cuda_stream=0, device=device)
    cuda.ExternalStream = lambda handle, device: types.SimpleNamespace(cuda_stream=handle, device=device)

    class stream:  # noqa: N801, PyTorch's name
        """As PyTorch's, it may be entered again once it was left."""

        def __init__(self, of):
            self.of = of

        def __enter__(self):
            self.before, cuda.current = cuda.current, [self.of.cuda_stream] * 2

        def __exit__(self, *_):
            cuda.current = self.before

    cuda.stream = stream
    private._cuda_getCurrentRawStream = lambda device: cuda.current[device]

    class Tensor(Base):
        __module__ = "torch"
        is_cuda, requires_grad = True, False
        recorded, allocated_in, negative = (), None, False

        shape = property(lambda self: self.sizes)
        dtype = property(lambda self: getattr(module, self.type.name))
        nbytes = property(lambda self: int(np.prod(self.sizes)) * self.type.itemsize)

        def get_device(self):
            return self.on

        def data_ptr(self):
            return self.address

        def stride(self):
            return tuple(step // self.type.itemsize for step in self.steps)

        def is_neg(self):
            return self.negative

        def resolve_neg(self):
            made = upload(-self.host(), Tensor, self.on)
            made.allocated_in = cuda.current[self.on]
            module.made.append(made)
            return made

        def new_empty(self, sizes, dtype=None):
            sizes = sizes if isinstance(sizes, tuple) else (sizes,)
            dtype = np.dtype(dtype.name) if dtype else self.type
            memory = EMULATED.allocate(self.on, int(np.prod(sizes)) * dtype.itemsize)
            made = Tensor(memory, sizes, dtype, device=self.on)
            made.allocated_in = cuda.current[self.on]
            module.made.append(made)
            return made

        def contiguous(self):
            module.copies += 1
            return upload(np.ascontiguousarray(self.host()), Tensor, self.on)

        def copy_(self, other):
            module.copies += 1
            EMULATED.synchronize(self.on)
            elements = np.broadcast_to(other.host(), self.sizes)
            for at in np.ndindex(*self.sizes):
                to = self.address + sum(i * step for i, step in zip(at, self.steps))
                ctypes.memmove(to, elements[at].tobytes(), self.type.itemsize)

        def record_stream(self, of):
            self.recorded += (of.cuda_stream,)

    module.Tensor, module.made, module.copies = Tensor, [], 0
    return {"torch": module, "torch.cuda": cuda, "torch._C": private}


def cupy():
    """What tessera asks of CuPy."""
    module, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
    module.cuda = cuda
    cuda.current, cuda.device = 1, 0

    class _Stream:
        def __init__(self, ptr, device=None):
            self.ptr = ptr

        def __enter__(self):
            self.before, cuda.current = cuda.current, self.ptr

        def __exit__(self, *_):
            cuda.current = self.before

    class Device:
        def __init__(self, index=None):
            self.id = cuda.device if index is None else index

        def __enter__(self):
            self.before, cuda.device = cuda.device, self.id

        def __exit__(self, *_):
            cuda.device = self.before

    _Stream.null, _Stream.ptds = _Stream(0), _Stream(2)
    cuda.Stream = cuda.ExternalStream = _Stream
    cuda.Device = Device
    cuda.get_current_stream = lambda device: _Stream(cuda.current)

    def alloc(count):
        memory = EMULATED.allocate(cuda.device, count)
        module.allocated.append((count, cuda.current))
        return types.SimpleNamespace(ptr=memory.address, memory=memory)

    cuda.alloc = alloc

    class ndarray(Base):
        __module__ = "cupy"
        shape = property(lambda self: self.sizes)
        strides = property(lambda self: self.steps)
        dtype = property(lambda self: self.type)
        data = property(lambda self: types.SimpleNamespace(ptr=self.address))
        device = property(lambda self: Device(self.on))

    def empty(shape, dtype):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        module.allocated.append((count, cuda.current))
        return ndarray(EMULATED.allocate(cuda.device, count), shape, dtype, device=cuda.device)

    module.ndarray, module.empty, module.allocated = ndarray, empty, []
    module.ascontiguousarray = lambda array: upload(np.ascontiguousarray(array.host()), ndarray, array.on)
    return {"cupy": module, "cupy.cuda": cuda}


def jax():
    """What tessera asks of JAX."""
    module = types.ModuleType("jax")
    numpy, dlpack = types.ModuleType("jax.numpy"), types.ModuleType("jax.dlpack")
    module.numpy, module.dlpack, module.taken = numpy, dlpack, []

    class Array(Lent):
        __module__ = "jax"
        dtype = property(lambda self: self.type)

        def devices(self):
            return {self.on}

    def empty(shape, dtype, device):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        made = Array(EMULATED.allocate(device, count), shape, dtype, device=device)
        module.made.append(made)
        return made

    def from_dlpack(array):
        address, shape, give_back = taken(array, stream=1)
        module.taken.append((address, shape, give_back))
        (owner,) = (made for made in module.made if made.address == address)
        return Array(owner.memory, shape, owner.type, device=owner.on)

    numpy.empty, dlpack.from_dlpack = empty, from_dlpack
    module.Array, module.made = Array, []
    return {"jax": module, "jax.numpy": numpy, "jax.dlpack": dlpack}


@contextlib.contextmanager
def installed(make):
    """The fake of a library in the place of it. Functions that tessera has looked up stay those of the first."""
    made = _MADE.setdefault(make, make())
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield next(iter(made.values()))
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


_MADE = {}
