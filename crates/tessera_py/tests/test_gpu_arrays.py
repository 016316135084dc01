"""Arrays on a GPU, on the emulated driver: `cargo xtask python-tests` builds the module that has it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tessera
from conftest import whole
from fakes import EMULATED, Cai, Lent, cupy, installed, jax, result, taken, torch, upload, view

pytestmark = pytest.mark.skipif(EMULATED is None, reason="this build of the module has no emulated driver")

# What waits for a GPU, and what may not be done while a stream is captured.
WAITS = ("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuMemFree")


def waits():
    return [EMULATED.count(name) for name in WAITS]


def test_no_faults():
    assert EMULATED.faults() == []


@pytest.mark.parametrize("of", [Cai, Lent])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_types(rng, of, dtype):
    """Those that kernels of the emulated device have, of which float16 and bfloat16 are of stacks alone."""
    a, b = whole(rng, (64, 5, 9), dtype), whole(rng, (64, 9, 6), dtype)
    found = tessera.matmul(upload(a, of), upload(b, of), dtype=np.dtype(dtype))
    assert isinstance(found, tessera.DeviceArray)
    assert (found.shape, found.dtype, found.device) == ((64, 5, 6), np.dtype(dtype).name, "cuda:0")
    np.testing.assert_array_equal(result(found), a @ b)
    target = upload(np.zeros((64, 5, 6), dtype), of)
    assert tessera.matmul(upload(a, of), upload(b, of), out=target) is target
    np.testing.assert_array_equal(target.host(), a @ b)


def test_bfloat16(rng):
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    a = whole(rng, (64, 4, 8), bfloat16)
    found = tessera.matmul(upload(a, Lent), upload(a.swapaxes(1, 2), Lent))
    assert found.dtype == "bfloat16" and not hasattr(found, "__cuda_array_interface__")
    np.testing.assert_array_equal(result(found).view(bfloat16), a @ a.swapaxes(1, 2))
    with pytest.raises(TypeError, match="no products of .<V2. on a GPU"):
        tessera.matmul(upload(a), upload(a))


def strided(rng, shape, dtype="f4"):
    """One array by rows, by columns, as a part of a larger one, and as a part of its transposed."""
    array = whole(rng, shape, dtype)
    yield array
    yield np.asfortranarray(array)
    wide = np.zeros((shape[0] + 3, shape[1] + 5), dtype)
    wide[2 : 2 + shape[0], 1 : 1 + shape[1]] = array
    yield wide[2 : 2 + shape[0], 1 : 1 + shape[1]]
    tall = np.asfortranarray(wide)
    yield tall[2 : 2 + shape[0], 1 : 1 + shape[1]]


def test_layouts_are_read_in_place(rng):
    before = EMULATED.count("cuMemcpyDtoDAsync")
    for a in strided(rng, (4, 7)):
        for b in strided(rng, (7, 5)):
            for out in strided(rng, (4, 5)):
                target = upload(out)
                tessera.matmul(upload(a), upload(b), out=target)
                np.testing.assert_array_equal(target.host(), a @ b)
    assert EMULATED.count("cuMemcpyDtoDAsync") == before


def test_shapes_are_those_of_numpy(rng):
    shapes = [
        ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)), ((2, 1, 2, 3), (1, 5, 3, 2)), ((5, 2, 3), (3,)), ((0, 3), (3, 4)), ((2, 0), (0, 4)),
        ((4, 0, 2, 3), (3, 2)), ((1, 1), (1, 1)),
    ]  # fmt: skip
    for left, right in shapes:
        a, b = whole(rng, left, "f4"), whole(rng, right, "f4")
        found = tessera.matmul(upload(a), upload(b))
        assert found.shape == (a @ b).shape
        np.testing.assert_array_equal(result(found), a @ b)
    with pytest.raises(ValueError, match="must be as many"):
        tessera.matmul(upload(a), upload(np.ones((2, 3), "f")))
    with pytest.raises(ValueError, match="cannot be broadcast"):
        tessera.matmul(upload(np.ones((2, 3, 3), "f")), upload(np.ones((5, 3, 3), "f")))


def test_stacks_in_any_order(rng):
    """Stacks whose dimensions one batch does not express, and results that are spread."""
    a, b = whole(rng, (4, 3, 2, 5), "f4"), whole(rng, (4, 3, 5, 2), "f4")
    for x in (a, a.transpose(1, 0, 2, 3).copy().transpose(1, 0, 2, 3), a[:, ::-1], a[::2][:1]):
        y = b[: len(x)]
        np.testing.assert_array_equal(result(tessera.matmul(upload(x), upload(y))), x @ y)
    spread = np.zeros((2, 3, 4, 2), "f4").transpose(2, 1, 0, 3)
    target = upload(spread)
    tessera.matmul(upload(a), upload(b), out=target)
    np.testing.assert_array_equal(target.host(), a @ b)


def test_alpha_beta_and_c(rng):
    a, b, c = (whole(rng, shape, "f4") for shape in ((4, 6), (6, 5), (4, 5)))
    expected = 2 * (a @ b) - 3 * c
    found = tessera.matmul(upload(a), upload(b), alpha=2, beta=-3, c=upload(c))
    np.testing.assert_array_equal(result(found), expected)
    found = tessera.matmul(upload(a), upload(b), alpha=2, beta=-3, c=upload(np.asfortranarray(c)))
    np.testing.assert_array_equal(result(found), expected)
    target = upload(c)
    tessera.matmul(upload(a), upload(b), out=target, alpha=2, beta=-3, c=target)
    np.testing.assert_array_equal(target.host(), expected)
    stack = whole(rng, (3, 4, 6), "f4")
    found = tessera.matmul(upload(stack), upload(b), beta=1, c=upload(c))
    np.testing.assert_array_equal(result(found), stack @ b + c)
    with pytest.raises(ValueError, match="c of shape .* strides of .* make a contiguous copy"):
        tessera.matmul(upload(a), upload(b), beta=1, c=upload(np.broadcast_to(c[0].copy(), c.shape)))
    with pytest.raises(ValueError, match="alpha is 0.5, and must be a number of i32"):
        tessera.matmul(upload(a.astype("i4")), upload(b.astype("i4")), alpha=0.5)
    with pytest.raises(TypeError, match="alpha and beta of a product on a GPU are real"):
        tessera.matmul(upload(a), upload(b), alpha=1j)


def test_work_is_ordered_and_nothing_waits(rng):
    """What a stream was given before is seen, be it the product's stream or the one that an array is ready in."""
    own, other = EMULATED.stream(0), EMULATED.stream(0)
    eye = upload(np.eye(4, dtype="i4"))
    expected = np.full((4, 4), 0x02020202, "i4")
    found = tessera.matmul(eye, eye)
    for stream, ready_in in ((own.handle, None), (other.handle, own.handle), (1, own.handle)):
        a = upload(np.zeros((4, 4), "i4"), stream=ready_in)
        found = None  # what ends here is waited for
        own.fill(a.memory, 2)
        before = waits()
        found = tessera.matmul(a, eye, stream=stream)
        assert waits() == before
        assert a.memory.read() == bytes(64), "it is queued"
        np.testing.assert_array_equal(result(found), expected)
    # The next product finds the result in whatever stream it is.
    a = upload(np.zeros((4, 4), "i4"))
    own.fill(a.memory, 2)
    found = tessera.matmul(tessera.matmul(a, eye, stream=own.handle), eye, stream=other.handle)
    np.testing.assert_array_equal(result(found), expected)


def test_results_are_ordered_for_their_consumers():
    own, other = EMULATED.stream(0), EMULATED.stream(0)
    a, eye = upload(np.zeros((4, 4), "i4")), upload(np.eye(4, dtype="i4"))
    own.fill(a.memory, 2)
    found = tessera.matmul(a, eye, stream=own.handle)
    assert found.__cuda_array_interface__["stream"] == own.handle
    assert found.__cuda_array_interface__["data"] == (found.ptr, False)
    # The consumer's stream waits for the product's: once the one is done the other is.
    address, shape, give_back = taken(found, stream=other.handle)
    other.synchronize()
    np.testing.assert_array_equal(view(address, shape, "i4", (16, 4)), np.full((4, 4), 0x02020202))
    give_back()
    for refused in ({"stream": 0}, {"stream": -2}):
        with pytest.raises(ValueError, match="DLPack gives no meaning"):
            found.__dlpack__(**refused)
    with pytest.raises(BufferError, match="another device"):
        found.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="no copies"):
        found.__dlpack__(copy=True)


def test_an_array_that_is_written_again_is_ordered_for_its_consumers():
    own, other, third = (EMULATED.stream(0) for _ in range(3))
    eye, zeros = upload(np.eye(4, dtype="i4")), np.zeros((4, 4), "i4")
    twos = np.full((4, 4), 0x02020202)
    for consumer in (third, own):
        out = tessera.matmul(eye, eye, stream=own.handle)
        a = upload(zeros)
        other.fill(a.memory, 2)
        assert tessera.matmul(a, eye, out=out, stream=other.handle) is out
        assert out.__cuda_array_interface__["stream"] == other.handle
        found = tessera.matmul(out, eye, stream=consumer.handle)
        consumer.synchronize()
        np.testing.assert_array_equal(view(found.ptr, (4, 4), "i4", (16, 4)), twos)
    out = tessera.matmul(eye, eye, stream=own.handle)
    a = upload(zeros)
    other.fill(a.memory, 2)
    tessera.matmul(a, eye, out=out, stream=other.handle)
    address, shape, give_back = taken(out, stream=own.handle)
    own.synchronize()
    np.testing.assert_array_equal(view(address, shape, "i4", (16, 4)), twos)
    give_back()


def test_a_threads_own_stream_is_found_by_other_threads():
    """The number of a thread's default stream means another one in every thread."""
    stream, eye = EMULATED.stream(0), upload(np.eye(4, dtype="i4"))
    handle, own_eye = stream.handle, tessera.matmul(eye, eye)
    found = tessera.matmul(upload(np.full((4, 4), 3, "i4")), eye, stream=2)
    assert found.__cuda_array_interface__["stream"] == 2

    def consume():
        interface = found.__cuda_array_interface__
        array = type("Array", (), {"__cuda_array_interface__": interface})()
        return interface["stream"], tessera.matmul(array, own_eye, stream=handle)

    with ThreadPoolExecutor(1) as pool:
        number, product = pool.submit(consume).result()
    assert number == 1
    stream.synchronize()
    np.testing.assert_array_equal(view(product.ptr, (4, 4), "i4", (16, 4)), np.full((4, 4), 3))


def test_lenders_are_asked_for_the_stream_and_keep_until_it_is_over():
    stream = EMULATED.stream(0)
    a, b = (upload(np.ones((3, 3), "f4"), Lent) for _ in range(2))
    found = tessera.matmul(a, b, stream=stream.handle)
    assert (a.streams, b.streams) == ([stream.handle],) * 2
    tessera.matmul(upload(np.ones((1, 1), "f4")), upload(np.ones((1, 1), "f4")))
    assert (a.loans, a.returned) == (1, 0), "the product is still queued"
    result(found)
    tessera.matmul(upload(np.ones((1, 1), "f4")), upload(np.ones((1, 1), "f4")))
    assert (a.loans, a.returned, b.returned) == (1, 1, 1)
    tessera.matmul(a, b)
    assert a.streams[-1] == 1, "the legacy default stream"
    EMULATED.synchronize(0)


def test_streams_as_programs_name_them():
    own = EMULATED.stream(0)
    a = upload(np.ones((3, 3), "f4"))

    def named(**attributes):
        return type("Stream", (), attributes)()

    for stream in (
        own.handle, named(cuda_stream=own.handle), named(ptr=own.handle), named(handle=own.handle),
        named(__cuda_stream__=lambda _: (0, own.handle)), named(handle=named(value=own.handle)),
    ):  # fmt: skip
        assert tessera.matmul(a, a, stream=stream).__cuda_array_interface__["stream"] == own.handle
    for stream, number in ((0, 1), (1, 1), (2, 2), (named(handle=named(value=None)), 1)):
        assert tessera.matmul(a, a, stream=stream).__cuda_array_interface__["stream"] == number
    for stream, error in ((-1, ValueError), ("x", TypeError), (True, TypeError), (named(__cuda_stream__=lambda _: (1, 1)), TypeError)):
        with pytest.raises(error, match="stream"):
            tessera.matmul(a, a, stream=stream)
    with pytest.raises(RuntimeError, match="400"):
        tessera.matmul(a, a, stream=EMULATED.stream(1).handle)
    with pytest.raises(ValueError, match="stream is for arrays on a GPU"):
        tessera.matmul(np.eye(3), np.eye(3), stream=1)


def test_what_is_refused(rng):
    a = upload(np.ones((3, 3), "f4"))
    host = np.ones((3, 3), "f4")
    for left, right, text in (
        (a, host, "a is on cuda:0 and b in host memory"),
        (host, a, "a is in host memory and b on cuda:0"),
        (a, upload(host, device=1), "a is on cuda:0 and b on cuda:1"),
        (a, upload(np.ones((3, 3), "f8")), "a is of float32 and b of float64"),
        (upload(np.ones((3, 3), "c8")), a, "no products of .<c8"),
        (upload(np.ones((3, 3), "c8"), Lent), a, "no products of its type"),
        (upload(np.ones((3, 3), "i1")), a, r"no products of .\|i1"),
    ):
        with pytest.raises(TypeError, match=text):
            tessera.matmul(left, right)
    with pytest.raises(TypeError, match="a is on cuda:0 and out in host memory"):
        tessera.matmul(a, a, out=host)
    with pytest.raises(TypeError, match="a is in host memory and out on cuda:0"):
        tessera.matmul(host, host, out=a)
    with pytest.raises(TypeError, match="no products of float32 with a result of float16"):
        tessera.matmul(a, a, dtype="float16")
    with pytest.raises(TypeError, match="out is of float64, the product of float32|no products of float32"):
        tessera.matmul(a, a, out=upload(np.ones((3, 3))))
    for device in ("cpu", "cuda:1"):
        with pytest.raises(ValueError, match=f"a is on cuda:0 and device is .{device}"):
            tessera.matmul(a, a, device=device)
    assert result(tessera.matmul(a, a, device="cuda:0"))[0, 0] == 3
    with pytest.raises(ValueError, match="accuracy"):
        tessera.matmul(a, a, accuracy="none")
    with pytest.raises(ValueError, match="out has the shape"):
        tessera.matmul(a, a, out=upload(np.ones((3, 4), "f4")))
    with pytest.raises(ValueError, match="make a contiguous copy"):
        tessera.matmul(upload(np.ones((6, 6), "f4")[::2, ::2]), a)
    with pytest.raises(ValueError, match="make a contiguous copy"):
        tessera.matmul(upload(np.broadcast_to(np.ones((3, 1), "f4"), (3, 3))), a)


@pytest.mark.parametrize(
    "changes,text",
    [
        ({"version": 1}, "version 1, 2 is needed"), ({"shape": None}, "valid shape"), ({"typestr": "f4"}, "typestr"),
        ({"data": (0, False)}, "knows no device memory"), ({"data": None}, "valid data"), ({"shape": (300, 300)}, "larger"),
        ({"mask": 1}, "masked"), ({"stream": 0}, "valid stream"), ({"strides": (4,)}, "valid strides"),
        ({"typestr": ">f4"}, "no products of"), ({"shape": (3, -3)}, "valid shape"),
    ],
)  # fmt: skip
def test_interfaces_that_say_nonsense(changes, text):
    array = upload(np.ones((3, 3), "f4"))
    honest = array.__cuda_array_interface__
    liar = type("Liar", (), {"__cuda_array_interface__": {**honest, "strides": None, **changes}})()
    with pytest.raises((TypeError, ValueError), match=text):
        tessera.matmul(liar, array)
    with pytest.raises((TypeError, ValueError), match=text):
        tessera.matmul(array, liar)


def test_out_is_apart(rng):
    wide = whole(rng, (4, 8), "f4")
    device = upload(wide)
    left, right = device.part(wide[:, :4]), device.part(wide[:, 4:])
    tessera.matmul(left, left, out=right)
    np.testing.assert_array_equal(right.host(), wide[:, :4] @ wide[:, :4])
    for out in (left, device.part(wide[:, 2:6])):
        with pytest.raises(ValueError, match="out shares memory with a"):
            tessera.matmul(left, upload(np.ones((4, 4), "f4")), out=out)
    with pytest.raises(ValueError, match="out shares memory with b"):
        tessera.matmul(upload(np.ones((4, 4), "f4")), left, out=left)
    with pytest.raises(ValueError, match="out shares memory with c"):
        tessera.matmul(upload(np.ones((4, 2), "f4")), upload(np.ones((2, 4), "f4")), out=right, beta=1, c=device.part(wide[:, 3:7]))
    with pytest.raises(ValueError, match="the same in memory"):
        same = upload(np.broadcast_to(np.ones((4, 1), "f4"), (4, 4)))
        tessera.matmul(upload(np.ones((4, 4), "f4")), upload(np.ones((4, 4), "f4")), out=same)
    read_only = type("ReadOnly", (), {"__cuda_array_interface__": {**device.__cuda_array_interface__, "data": (device.address, True)}})
    with pytest.raises(ValueError, match="read-only"):
        tessera.matmul(upload(np.ones((4, 4), "f4")), upload(np.ones((4, 8), "f4")), out=read_only())


def test_workspaces_of_streams(rng):
    """Products with ranges of k need a workspace, which the stream keeps."""
    a, b = whole(rng, (3, 3000), "f4"), whole(rng, (3000, 70), "f4")
    on = upload(a), upload(b)
    assert tessera.explain(*on)["workspace_bytes"] > 0
    own, other = EMULATED.stream(0), EMULATED.stream(0)
    first = [tessera.matmul(*on, stream=own.handle), tessera.matmul(*on, stream=other.handle)]
    before, allocated = waits(), EMULATED.count("cuMemAlloc")
    more = [tessera.matmul(*on, stream=stream.handle) for stream in (own, other, own)]
    assert waits() == before and EMULATED.count("cuMemAlloc") == allocated + 3, "the results alone"
    for found in first + more:
        np.testing.assert_array_equal(result(found), a @ b)


def test_explain():
    a = upload(np.ones((5, 2, 3), "f4"))
    told = tessera.explain(a, upload(np.ones((3, 4), "f4")))
    assert told["device"] == "cuda:0" and told["copied"] == [] and told["types"] == ("f32", "f32", "f32")
    assert (told["products"], told["m"], told["n"], told["k"]) == (5, 2, 4, 3)
    assert told["by"] in told["plan"]


def test_plan_only_launches(rng):
    a, b, c = whole(rng, (3, 3000), "f4"), whole(rng, (3000, 70), "f4"), whole(rng, (3, 70), "f4")
    on, out = (upload(a), upload(b)), upload(c)
    plan = tessera.Plan(*on, out=out)
    assert (plan.shape, plan.dtype, plan.device) == ((3, 70), "float32", "cuda:0")
    assert plan.kernel in plan.explain() and plan.workspace_bytes > 0
    workspace = upload(np.zeros(plan.workspace_bytes + 256, np.uint8))
    workspace.nbytes = plan.workspace_bytes
    workspace.offset = -workspace.address % 256
    stream = EMULATED.stream(0)
    calls = ("cuMemAlloc", "cuEventCreate", "cuModuleLoadData", *WAITS)
    before = [EMULATED.count(name) for name in calls]
    for _ in range(3):
        assert plan(*on, out=out, stream=stream.handle, workspace=workspace) is out
    assert [EMULATED.count(name) for name in calls] == before
    np.testing.assert_array_equal(out.host(), a @ b)

    graph = stream.capture(lambda: plan(*on, out=out, stream=stream.handle, workspace=workspace))
    out.memory.write(bytes(c.nbytes))
    for _ in range(2):
        graph.launch(stream)
        np.testing.assert_array_equal(out.host(), a @ b)
    with pytest.raises(ValueError, match="give a Plan workspace="):
        stream.capture(lambda: plan(*on, out=out, stream=stream.handle))
    workspace.nbytes = 16
    with pytest.raises(ValueError, match="16 bytes, and .* are needed"):
        plan(*on, out=out, workspace=workspace)
    with pytest.raises(TypeError, match="workspace must be an array on cuda:0"):
        plan(*on, out=out, workspace=np.zeros(4096, np.uint8))


def test_plan_by_shapes(rng):
    a, b, c = whole(rng, (4, 6), "f4"), np.asfortranarray(whole(rng, (6, 5), "f4")), whole(rng, (4, 5), "f4")
    plan = tessera.Plan.from_shapes((4, 6), (6, 5), "float32", b_order="F", alpha=2)
    np.testing.assert_array_equal(result(plan(upload(a), upload(b))), 2 * (a @ b))
    added = tessera.Plan.from_shapes((4, 6), (6, 5), "float32", out_dtype="float32", b_order="F", beta=1)
    target = upload(c)
    added(upload(a), upload(b), out=target)
    np.testing.assert_array_equal(target.host(), c + a @ b)
    with pytest.raises(ValueError, match="give c or out"):
        added(upload(a), upload(b))
    with pytest.raises(ValueError, match="of other shapes or strides"):
        plan(upload(a), upload(np.ascontiguousarray(b)))
    for stack in ((2,), (2, 3), (2, 3, 2)):
        with pytest.raises(ValueError, match="of other shapes or strides"):
            plan(upload(np.ones((*stack, 4, 6), "f4")), upload(b))
    with pytest.raises(TypeError, match="of float64 and float64, the plan of f32"):
        plan(upload(a.astype("f8")), upload(b.astype("f8")))
    with pytest.raises(TypeError, match="on cuda:1|device"):
        tessera.Plan(upload(a), upload(b, device=1))
    with pytest.raises((TypeError, ValueError), match="device is"):
        plan(upload(a, device=1), upload(b, device=1))
    odd = upload(np.zeros((4, 7), "f4"))
    with pytest.raises(ValueError, match="multiples of 4 bytes, those of the plan of 16"):
        odd.offset, odd.sizes, odd.steps = 4, (4, 6), (24, 4)
        plan(odd, upload(b))
    with pytest.raises(ValueError, match="a_order"):
        tessera.Plan.from_shapes((4, 6), (6, 5), "float32", a_order="K")
    with pytest.raises(ValueError, match="power of two"):
        tessera.Plan.from_shapes((4, 6), (6, 5), "float32", alignment=3)


def test_torch(rng):
    a, b = whole(rng, (4, 6), "f4"), whole(rng, (6, 5), "f4")
    with installed(torch) as fake:
        x, y = upload(a, fake.Tensor), upload(b, fake.Tensor)
        first, other = EMULATED.stream(0), EMULATED.stream(0)
        own = fake.cuda.current[0] = first.handle
        before = waits()
        found = tessera.matmul(x, y)
        assert waits() == before and isinstance(found, fake.Tensor) and found.allocated_in == own
        assert x.recorded == () and fake.copies == 0
        np.testing.assert_array_equal(found.host(), a @ b)
        # In another stream than the current one the allocator is told.
        found = tessera.matmul(x, y, stream=fake.cuda.ExternalStream(other.handle, 0))
        assert found.allocated_in == other.handle and fake.cuda.current[0] == own
        assert x.recorded == y.recorded == found.recorded == (other.handle,)
        np.testing.assert_array_equal(found.host(), a @ b)
        fake.cuda.current[0] = 1
        # What no leading dimension expresses is copied by the library.
        spread = np.repeat(np.repeat(a, 2, 0), 3, 1)
        part = upload(spread, fake.Tensor).part(spread[::2, ::3])
        assert tessera.explain(part, y)["copied"] == ["a"]
        np.testing.assert_array_equal(tessera.matmul(part, y).host(), a @ b)
        room = np.zeros((8, 10), "f4")
        target = upload(room, fake.Tensor).part(room[::2, ::2])
        assert fake.copies == 1 and tessera.matmul(x, y, out=target) is target
        np.testing.assert_array_equal(target.host(), a @ b)
        # In another stream it is told of what was copied, too.
        target = upload(room, fake.Tensor).part(room[::2, ::2])
        tessera.matmul(part, y, out=target, stream=other.handle)
        assert part.recorded == target.recorded == (other.handle,)
        np.testing.assert_array_equal(target.host(), a @ b)
        bias = whole(rng, (5,), "f4")
        found = tessera.matmul(x, y, beta=2, c=upload(bias, fake.Tensor))
        np.testing.assert_array_equal(found.host(), a @ b + 2 * bias)
        # Another library's array is lent by DLPack.
        lent = upload(b, Lent)
        assert isinstance(tessera.matmul(x, lent), fake.Tensor) and lent.streams == [1]
        x.requires_grad = True
        with pytest.raises(RuntimeError, match=r"a requires grad.*a\.detach"):
            tessera.matmul(x, y)
        fake.grad = False
        assert isinstance(tessera.matmul(x, y), fake.Tensor)
        fake.grad = True
        x.is_cuda = False
        with pytest.raises(TypeError, match="a is in host memory and b on cuda:0"):
            tessera.matmul(x, y)
    EMULATED.synchronize(0)


def test_torch_marks_of_negatives(rng):
    """A tensor that is marked as the negative of its memory is written out in the product's stream."""
    a, b = whole(rng, (4, 6), "f4"), whole(rng, (6, 5), "f4")
    with installed(torch) as fake:
        x, y, other = upload(-a, fake.Tensor), upload(b, fake.Tensor), EMULATED.stream(0)
        x.negative = True
        del fake.made[:]
        found = tessera.matmul(x, y, stream=other.handle)
        assert [made.allocated_in for made in fake.made] == [other.handle] * 2
        assert x.recorded == (other.handle,)
        np.testing.assert_array_equal(found.host(), a @ b)
        out = upload(np.zeros((4, 5), "f4"), fake.Tensor)
        out.negative = True
        with pytest.raises(ValueError, match="out is marked as the negative"):
            tessera.matmul(x, y, out=out)
        assert not out.host().any()


def test_torch_workspace_is_the_librarys(rng):
    a, b = whole(rng, (3, 3000), "f4"), whole(rng, (3000, 70), "f4")
    with installed(torch) as fake:
        x, y = upload(a, fake.Tensor), upload(b, fake.Tensor)
        del fake.made[:]
        found = tessera.matmul(x, y)
        needed = tessera.explain(x, y)["workspace_bytes"]
        assert [made.type.name for made in fake.made] == ["float32", "uint8"]
        assert fake.made[1].nbytes >= needed > 0
        np.testing.assert_array_equal(found.host(), a @ b)
        # The program's own, in another stream than the current one.
        plan, other = tessera.Plan(x, y), EMULATED.stream(0)
        workspace = upload(np.zeros(plan.workspace_bytes, np.uint8), fake.Tensor)
        found = plan(x, y, stream=other.handle, workspace=workspace)
        assert workspace.recorded == (other.handle,)
        np.testing.assert_array_equal(found.host(), a @ b)


def test_cupy(rng):
    a, b = whole(rng, (3, 3000), "f4"), whole(rng, (3000, 70), "f4")
    with installed(cupy) as fake:
        first, other = EMULATED.stream(1), EMULATED.stream(1)
        own = first.handle
        x, y = upload(a, fake.ndarray, 1), upload(b, fake.ndarray, 1)
        fake.cuda.current = own
        found = tessera.matmul(x, y)
        assert isinstance(found, fake.ndarray) and found.on == 1 and fake.cuda.device == 0
        assert [stream for _, stream in fake.allocated] == [own, own], "result and workspace"
        np.testing.assert_array_equal(found.host(), a @ b)
        found = tessera.matmul(x, y, stream=other.handle)
        assert [stream for _, stream in fake.allocated[2:]] == [other.handle] * 2
        assert fake.cuda.current == own
        np.testing.assert_array_equal(found.host(), a @ b)
        out = upload(np.zeros((3, 70), "f4"), fake.ndarray, 1)
        assert tessera.matmul(x, y, out=out) is out
        np.testing.assert_array_equal(out.host(), a @ b)
        back = x.part(a[:, ::-1])
        np.testing.assert_array_equal(tessera.matmul(back, y).host(), a[:, ::-1] @ b)
        fake.cuda.current = 1

        # A stream that fails when it is left leaves the device as it was.
        class Failing(fake.cuda.Stream):
            def __exit__(self, *raised):
                super().__exit__(*raised)
                raise RuntimeError("left")

        usual, fake.cuda.ExternalStream = fake.cuda.ExternalStream, Failing
        with pytest.raises(RuntimeError, match="left"):
            tessera.matmul(x, y, stream=other.handle)
        fake.cuda.ExternalStream = usual
        assert (fake.cuda.device, fake.cuda.current) == (0, 1)


def test_jax(rng):
    a, b = whole(rng, (4, 6), "f4"), whole(rng, (6, 5), "f4")
    with installed(jax) as fake:
        x, y = upload(a, fake.Array), upload(b, fake.Array)
        before = waits()
        found = tessera.matmul(x, y)
        assert waits() == before and isinstance(found, fake.Array)
        (owner,) = fake.made
        (address, _, give_back) = fake.taken[-1]
        assert (address, owner.returned) == (owner.address, 0), "the library's memory, without a copy"
        give_back()
        assert owner.returned == 0, "it is still being written"
        np.testing.assert_array_equal(found.host(), a @ b)
        tessera.matmul(upload(a), upload(b))
        assert owner.returned == 1
        with pytest.raises(ValueError, match="read-only"):
            tessera.matmul(x, y, out=upload(np.ones((4, 5), "f4"), fake.Array))
        own = tessera.matmul(upload(a), upload(b))
        assert tessera.matmul(x, y, out=own) is own
    EMULATED.synchronize(0)


def test_the_device_array_says_what_it_is():
    found = tessera.matmul(upload(np.ones((2, 3), "f4")), upload(np.ones(3, "f4")))
    assert repr(found) == "tessera.DeviceArray(shape=(2,), dtype=float32, device=cuda:0)"
    assert found.__dlpack_device__() == (2, 0)
    with pytest.raises(TypeError):
        tessera.DeviceArray()
    versioned = found.__dlpack__(max_version=(1, 0), stream=-1)
    assert "dltensor_versioned" in repr(versioned)
    EMULATED.synchronize(0)


def test_captures_of_others_are_left_alone():
    """What may not be done while a thread captures is done as if it did not: memory, and asking for events."""
    own, other = EMULATED.stream(0), EMULATED.stream(0)
    a = upload(np.ones((3, 3), "f4"), Lent)
    out, found = upload(np.zeros((3, 3), "f4")), []
    tessera.matmul(a, a)

    def captured():
        tessera.matmul(on, on, out=out, stream=own.handle)
        found.append(tessera.matmul(a, a, stream=other.handle))
        found.clear()
        found.append(tessera.matmul(a, a, stream=other.handle))

    on = upload(np.ones((3, 3), "f4"))
    graph = own.capture(captured)
    np.testing.assert_array_equal(out.host(), np.zeros((3, 3)))
    graph.launch(own)
    np.testing.assert_array_equal(out.host(), np.full((3, 3), 3))
    np.testing.assert_array_equal(result(found[0]), np.full((3, 3), 3))


def test_groups_are_refused_where_they_do_not_fit(rng):
    """The emulated device has no kernel for groups, which is said last; check_gpu.py multiplies them on a real one."""
    a, b = upload(whole(rng, (20, 6), "f2")), upload(whole(rng, (3, 6, 8), "f2"))
    ends = upload(np.array([4, 4, 20], "i4"))
    refused = [
        (TypeError, "a is in host memory", (np.zeros((20, 6), "f2"), b, ends), {}),
        (TypeError, "ends is in host memory", (a, b, np.array([4, 4, 20], "i4")), {}),
        (TypeError, "ends is of float32", (a, b, upload(np.zeros(3, "f4"))), {}),
        (TypeError, "ends must be on cuda:0", (a, b, upload(np.zeros(3, "i4"), device=1)), {}),
        (ValueError, "ends has the shape", (a, b, upload(np.zeros(4, "i4"))), {}),
        (ValueError, "contiguous", (a, b, upload(np.zeros(6, "i4")[::2])), {}),
        (ValueError, "it must have 2 dimensions", (b, b, ends), {}),
        (ValueError, "it must have 3 dimensions", (a, a, ends), {}),
        (ValueError, "a has 6 columns", (a, upload(np.zeros((3, 5, 8), "f2")), ends), {}),
        (ValueError, "out has the shape", (a, b, ends), {"out": upload(np.zeros((20, 9), "f2"))}),
        (ValueError, "has the shape .4., it must be", (a, b, ends), {"epilogue": bias_of(4)}),
        (ValueError, "no scales", (a, b, ends), {"epilogue": tessera.Epilogue(row_scale=upload(np.ones(20, "f4")))}),
        (TypeError, "must be a tessera.Epilogue", (a, b, ends), {"epilogue": 1}),
    ]  # fmt: skip
    for kind, words, arrays, options in refused:
        with pytest.raises(kind, match=words):
            tessera.grouped_matmul(*arrays, **options)
    for epilogue in (None, bias_of(8), bias_of((3, 8))):
        with pytest.raises(Exception, match="no kernel for f16 in groups of rows"):
            tessera.grouped_matmul(a, b, ends, epilogue=epilogue)
    # Without rows there is nothing to be launched.
    assert tessera.grouped_matmul(upload(np.zeros((0, 6), "f2")), b, ends).shape == (0, 8)
    assert EMULATED.faults() == []


def bias_of(shape):
    return tessera.Epilogue(bias=upload(np.zeros(shape, "f2")), activation="relu")


def test_prepared_matrices_are_refused_where_they_do_not_fit(rng):
    """The emulated device has no kernels for limbs, which is said last; check_gpu.py multiplies them on a real one."""
    host = whole(rng, (24, 16), "f4")
    array, own = upload(host), EMULATED.stream(0)
    before = EMULATED.count("cuMemAlloc")
    prepare = tessera.PreparedMatrix
    refused = [
        (TypeError, "array must be an array on a GPU", host, {}),
        (TypeError, "array is of float64: only float32", upload(host.astype("f8")), {}),
        (ValueError, r"array has the shape \[16\], it must have two dimensions", upload(host[0].copy()), {}),
        (ValueError, "two dimensions", upload(np.zeros((2, 16, 16), "f4")), {}),
        (ValueError, "neither of them empty", upload(host[:, :0].copy()), {}),
        (ValueError, "array of shape .* make a contiguous copy", upload(np.zeros((32, 32), "f4")[::2, ::2]), {}),
        (ValueError, 'limbs is "f16"; it may be "two_f16" or "three_bf16"', array, {"limbs": "f16"}),
        (ValueError, "accuracy", array, {"accuracy": "none"}),
        (TypeError, "stream", array, {"stream": "x"}),
        (RuntimeError, "no kernel for f32 with B in two limbs of f16", array, {}),
        (RuntimeError, "no kernel for f32 with B in three limbs of bf16", array, {"limbs": "three_bf16"}),
        (RuntimeError, "componentwise", array, {"accuracy": "componentwise"}),
    ]
    given = EMULATED.count("cuMemAlloc") - before
    for kind, words, of, options in refused:
        with pytest.raises(kind, match=words):
            prepare(of, **options)
    with pytest.raises(ValueError, match="stream is being captured: prepare the matrix before"):
        own.capture(lambda: prepare(array, stream=own.handle))
    assert EMULATED.count("cuMemAlloc") == before + given, "nothing is allocated for what is refused"
    by_shapes = tessera.Plan.from_shapes
    for kind, words, shapes, options in (
        (RuntimeError, "no kernel for f32 with B in two limbs", ((4, 24), (24, 16)), {}),
        (ValueError, "only factors of f32 are split", ((4, 24), (24, 16)), {"dtype": "float64"}),
        (ValueError, r"b_shape is \[2, 24, 16\], a prepared b has two dimensions", ((4, 24), (2, 24, 16)), {}),
        (ValueError, 'prepared is "f32"', ((4, 24), (24, 16)), {"prepared": "f32"}),
    ):
        with pytest.raises(kind, match=words):
            by_shapes(*shapes, **{"dtype": "float32", "prepared": "two_f16", **options})
    assert EMULATED.faults() == []


def test_what_a_prepared_matrix_says_of_itself(rng):
    array = upload(whole(rng, (24, 16), "f4"))
    freed = EMULATED.count("cuMemFree")
    prepared = EMULATED.unsplit(array, "three_bf16")
    assert prepared.array is array and (prepared.shape, prepared.dtype, prepared.device) == ((24, 16), "float32", "cuda:0")
    assert prepared.limbs == "three_bf16" and prepared.limb_bytes == 1
    assert repr(prepared) == "tessera.PreparedMatrix(shape=(24, 16), dtype=float32, device=cuda:0, limbs=three_bf16)"
    del prepared
    assert EMULATED.count("cuMemFree") == freed + 1, "the limbs' memory goes with it"


def test_prepared_factors_are_refused_where_they_do_not_fit(rng):
    """By the plan, or, of products, by the emulated device, which has no kernels for them."""
    a, b = upload(whole(rng, (4, 24), "f4")), upload(whole(rng, (24, 24), "f4"))
    prepared = EMULATED.unsplit(b, "two_f16")
    plan = tessera.Plan(a, b)
    out = upload(np.zeros((4, 24), "f4"))
    before = EMULATED.count("cuLaunchKernel")
    refused = [
        (TypeError, "a is a PreparedMatrix, which is a right factor", lambda: tessera.matmul(prepared, b)),
        (TypeError, "a is a PreparedMatrix", lambda: tessera.Plan(prepared, b)),
        (TypeError, "a is a PreparedMatrix", lambda: tessera.explain(prepared, prepared)),
        (TypeError, "a is a PreparedMatrix", lambda: plan(prepared, b)),
        (TypeError, "the plan is of an array b, and b is a PreparedMatrix", lambda: plan(a, prepared)),
        (TypeError, "b is a PreparedMatrix, which products of groups", lambda: tessera.grouped_matmul(a, prepared, b)),
        (TypeError, "array must be an array on a GPU", lambda: tessera.PreparedMatrix(prepared)),
        (TypeError, "a is in host memory and b on cuda:0", lambda: tessera.matmul(np.ones((4, 24), "f4"), prepared)),
        (TypeError, "a is of float64 and b of float32", lambda: tessera.matmul(upload(np.ones((4, 24))), prepared)),
        (TypeError, "a is on cuda:1 and b on cuda:0", lambda: tessera.matmul(upload(np.ones((4, 24), "f4"), device=1), prepared)),
        (ValueError, "must be as many", lambda: tessera.matmul(upload(np.ones((4, 23), "f4")), prepared)),
        (ValueError, "out shares memory with b", lambda: tessera.matmul(upload(np.ones((24, 24), "f4")), prepared, out=b)),
        (RuntimeError, "no kernel for f32 with B in two limbs of f16", lambda: tessera.matmul(a, prepared)),
        (RuntimeError, "no kernel for f32 with B in two limbs of f16", lambda: tessera.matmul(a, prepared, out=out)),
        (RuntimeError, "no kernel for f32 with B in two limbs of f16", lambda: tessera.Plan(a, prepared)),
        (RuntimeError, "no kernel for f32 with B in two limbs of f16", lambda: tessera.explain(a, prepared)),
        (RuntimeError, "componentwise", lambda: tessera.matmul(a, prepared, accuracy="componentwise")),
    ]  # fmt: skip
    for kind, words, call in refused:
        with pytest.raises(kind, match=words):
            call()
    with pytest.raises(TypeError, match="b is on a GPU, and the plan is of arrays in host memory"):
        tessera.Plan(np.ones((4, 24), "f4"), np.ones((24, 24), "f4"))(np.ones((4, 24), "f4"), prepared)
    # Without rows there is nothing to be launched.
    assert tessera.matmul(upload(np.zeros((0, 24), "f4")), prepared).shape == (0, 24)
    # An array that has moved, as of a tensor that was resized.
    b.offset, b.sizes = 24 * 4, (23, 24)
    with pytest.raises(ValueError, match="other memory, shape or strides than when it was prepared"):
        tessera.matmul(upload(np.ones((4, 23), "f4")), prepared)
    assert EMULATED.count("cuLaunchKernel") == before and EMULATED.faults() == []


def test_plans_of_arrays_in_host_memory(rng):
    """They may be computed on the GPU; arrays that are there have plans of their own."""
    a, b = whole(rng, (40, 60), "f4"), whole(rng, (60, 50), "f4")
    plan = tessera.Plan(a, b, device="cuda")
    assert plan.device == "cuda:0" and plan.kernel == tessera.explain(a, b, device="cuda")["by"] and plan.workspace_bytes == 0
    np.testing.assert_array_equal(plan(a, b), tessera.matmul(a, b, device="cuda"))
    for arrays, name in (((upload(a), b), "a"), ((a, upload(b)), "b")):
        with pytest.raises(TypeError, match=f"{name} is on a GPU, and the plan is of arrays in host memory"):
            plan(*arrays)
    with pytest.raises(TypeError, match="out is on a GPU"):
        plan(a, b, out=upload(np.zeros((40, 50), "f4")))
    with pytest.raises(ValueError, match="a is in host memory"):
        tessera.Plan(upload(a), upload(b))(a, b)
    for arrays in ((upload(a), b), (a, upload(b))):
        with pytest.raises(TypeError, match="in host memory"):
            tessera.Plan(*arrays)
    with pytest.raises(ValueError, match="a is on cuda:0 and device is .cpu"):
        tessera.Plan(upload(a), upload(b), device="cpu")
    assert tessera.Plan(upload(a), upload(b), device="cuda:0", threads=1).device == "cuda:0"
