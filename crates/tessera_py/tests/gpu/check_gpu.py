"""Checks tessera on the arrays of PyTorch, CuPy, JAX and Numba on an NVIDIA GPU, and times it.

    python check_gpu.py [--only torch,cupy,jax,numba] [--times]

Each library that is missing is named and skipped. The program ends with 1 if a check fails, and with 2 if there is
neither a GPU nor a library to check.
"""

import argparse
import importlib
import os
import sys
import threading
import time
import traceback

import numpy as np
import tessera

# JAX leaves room for the others.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

CHECKS = []


def check(library):
    """Registers a check, which is called with the library."""

    def register(function):
        CHECKS.append((library, function))
        return function

    return register


def equal_or_near(found, expected, terms, dtype, scale):
    """Compares a result with one of higher precision: the error of a chain of sums and one rounding."""
    unit = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}[dtype]
    bound = unit * np.abs(expected) + (terms + 4) * (2**-53 if dtype == "float64" else 2**-24) * scale
    error = np.abs(found - expected)
    worst = np.max(error - bound) if error.size else -1.0
    assert np.all(np.isfinite(found)) and worst <= 0, f"error beyond the bound by {worst:.3g} ({dtype}, k = {terms})"


def raises(text, kinds, call):
    """The call fails with one of these exceptions, whose words contain the text."""
    try:
        call()
    except kinds as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        assert "\n" not in str(error).strip(), f"more than one line: {error}"
        return
    raise AssertionError(f"no error, expected {text!r}")


# PyTorch


SHAPES = [
    ((64, 64), (64, 64)), ((1, 300), (300, 77)), ((129, 257), (257, 65)), ((7,), (7, 33)), ((33, 7), (7,)), ((9,), (9,)),
    ((6, 40, 24), (24, 56)), ((40, 24), (6, 24, 56)), ((6, 40, 24), (6, 24, 56)), ((3, 1, 20, 24), (4, 24, 16)),
    ((0, 5), (5, 4)), ((3, 0), (0, 4)), ((1024, 1024), (1024, 512)), ((512, 4096), (4096, 512)),
]  # fmt: skip


@check("torch")
def types_and_shapes(torch):
    torch.manual_seed(1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        for left, right in SHAPES:
            a = torch.randn(left, device="cuda", dtype=torch.float64).to(dtype)
            b = torch.randn(right, device="cuda", dtype=torch.float64).to(dtype)
            found = tessera.matmul(a, b)
            assert isinstance(found, torch.Tensor) and found.is_cuda and found.dtype == dtype
            expected, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
            assert found.shape == expected.shape
            scale = scale.amax() if scale.numel() else scale.new_zeros(())
            equal_or_near(found.double().cpu().numpy(), expected.cpu().numpy(), left[-1], name, float(scale))
            if dtype in (torch.float16, torch.bfloat16):
                found = tessera.matmul(a, b, dtype=torch.float32)
                assert found.dtype == torch.float32
                equal_or_near(found.double().cpu().numpy(), expected.cpu().numpy(), left[-1], "float32", float(scale))
    for left, right in SHAPES:
        a, b = (torch.randint(-100, 100, shape, device="cuda", dtype=torch.int32) for shape in (left, right))
        assert torch.equal(tessera.matmul(a, b).double(), a.double() @ b.double())


@check("torch")
def layouts_in_place(torch):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        big = torch.randn(400, 416, device="cuda", dtype=torch.float64).to(dtype)
        views = {
            "rows": lambda m, n: big[:m, :n], "columns": lambda m, n: big[:n, :m].T,
            "odd rows": lambda m, n: big[3 : 3 + m, 5 : 5 + n], "odd columns": lambda m, n: big[3 : 3 + n, 5 : 5 + m].T,
            "packed": lambda m, n: big[:m, :n].contiguous(), "packed columns": lambda m, n: big[:n, :m].contiguous().T,
        }  # fmt: skip
        for of_a in views:
            for of_b in views:
                for of_c in ("packed", "packed columns", "padded"):
                    a, b = views[of_a](96, 160), views[of_b](160, 128)
                    room = torch.full((128, 160), 7.0, device="cuda", dtype=dtype)
                    out = {"packed": room[:96, :128].contiguous(), "packed columns": room[:128, :96].contiguous().T}
                    out = out.get(of_c, room[:96, :128])
                    before = torch.cuda.memory_stats()["allocation.all.allocated"]
                    at = out.data_ptr()
                    assert tessera.matmul(a, b, out=out) is out and out.data_ptr() == at
                    # A workspace at most: no operand is copied by the library.
                    assert torch.cuda.memory_stats()["allocation.all.allocated"] - before <= 1
                    expected, scale = a.double() @ b.double(), (a.double().abs() @ b.double().abs()).amax()
                    name = str(dtype).removeprefix("torch.")
                    equal_or_near(out.double().cpu().numpy(), expected.cpu().numpy(), 160, name, float(scale))
                    if of_c == "padded":
                        assert torch.all(room[96:] == 7) and torch.all(room[:, 128:] == 7), "written beside out"
                    assert tessera.explain(a, b)["copied"] == []
    every_second = big[::2, ::2]
    found = tessera.matmul(every_second, every_second.T)
    expected = every_second.double() @ every_second.double().T
    assert torch.allclose(found.double(), expected), "what no leading dimension expresses is copied"
    assert tessera.explain(every_second, every_second.T)["copied"] == ["a", "b"]


@check("torch")
def alpha_beta_and_c(torch):
    a, b = torch.randn(48, 32, device="cuda"), torch.randn(32, 80, device="cuda")
    for c in (torch.randn(48, 80, device="cuda"), torch.randn(80, device="cuda"), torch.randn(80, 48, device="cuda").T):
        found = tessera.matmul(a, b, alpha=0.5, beta=-2, c=c)
        assert torch.allclose(found.double(), 0.5 * (a.double() @ b.double()) - 2 * c.double(), rtol=1e-5, atol=1e-5)
    out = c.contiguous()
    tessera.matmul(a, b, out=out, beta=1, c=out)
    assert torch.allclose(out.double(), a.double() @ b.double() + c.double(), rtol=1e-5, atol=1e-5)


def slow(torch, seconds=0.05):
    """Keeps the current stream busy."""
    torch.cuda._sleep(int(seconds * 1.5e9))


@check("torch")
def groups_of_rows(torch):
    """Each group by itself, whose sizes only the GPU knows; weights by rows and by columns, and rows of no group."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    torch.manual_seed(2)
    rows, groups, n, k = 700, 5, 264, 136
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        a = torch.randn(rows, k, device="cuda").to(dtype)
        by_rows = torch.randn(groups, k, n, device="cuda").to(dtype)
        by_columns = by_rows.transpose(1, 2).contiguous().transpose(1, 2)
        bias = torch.randn(groups, n, device="cuda").to(dtype)
        finishing = tessera.Epilogue(bias=bias, activation="relu")
        for ends in ([100, 100, 384, 390, 650], [0, 0, 0, 0, 700], [1, 2, 3, 4, 5]):
            on_gpu = torch.tensor(ends, dtype=torch.int32, device="cuda")
            for b in (by_rows, by_columns):
                for epilogue in (None, finishing):
                    out = torch.full((rows, n), 7.0, device="cuda", dtype=dtype)
                    found = tessera.grouped_matmul(a, b, on_gpu, out=out, epilogue=epilogue)
                    assert found is out
                    begin = 0
                    for group, end in enumerate(ends):
                        left, right = a[begin:end].double(), b[group].double()
                        expected, scale = left @ right, left.abs() @ right.abs()
                        if epilogue is not None:
                            expected = (expected + bias[group].double()).relu()
                            scale = scale + bias[group].double().abs()
                        worst = float(scale.amax()) if scale.numel() else 0.0
                        of_group = out[begin:end].double().cpu().numpy()
                        equal_or_near(of_group, expected.cpu().numpy(), k, name, worst)
                        begin = end
                    assert (out[begin:] == 7).all()
        new = tessera.grouped_matmul(a, by_rows, on_gpu, dtype=torch.float32)
        assert new.dtype == torch.float32 and new.shape == (rows, n)


@check("torch")
def prepared_factors(torch):
    """A right factor that is split once gives the bits of the kernel that splits both, of stacks and in plans too."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    torch.manual_seed(3)

    def same(found, expected):
        assert torch.equal(found.view(torch.int32), expected.view(torch.int32)), "other bits"

    # Sizes of which matmul picks these kernels by itself.
    for limbs, by, size in (("two_f16", "f16x3", 1536), ("three_bf16", "bf16x6", 800)):
        a, bias = torch.randn(size, size, device="cuda"), torch.randn(size, device="cuda")
        wide = torch.randn(size + 5, size + 8, device="cuda")
        infinite = torch.randn(size, size, device="cuda")
        infinite[5, 7] = float("inf")
        for b in (torch.randn(size, size, device="cuda"), wide[3 : 3 + size, 1 : 1 + size], wide[3 : 3 + size, 1 : 1 + size].T, infinite):
            prepared = tessera.PreparedMatrix(b, limbs=limbs)
            assert prepared.array is b and prepared.shape == (size, size) and prepared.limbs == limbs
            assert prepared.limb_bytes >= size * size * (4 if limbs == "two_f16" else 6)
            assert tessera.explain(a, b)["by"] == tessera.explain(a, prepared)["by"] == by
            expected = tessera.matmul(a, b)
            same(tessera.matmul(a, prepared), expected)
            for out in (torch.empty_like(expected), torch.empty_like(expected).T, torch.empty(size, size + 3, device="cuda")[:, :size]):
                assert tessera.matmul(a, prepared, out=out) is out
                same(out.contiguous(), tessera.matmul(a, b, out=torch.empty_like(out)).contiguous())
            c = torch.randn(size, size, device="cuda")
            same(tessera.matmul(a, prepared, alpha=0.5, beta=-2, c=c), tessera.matmul(a, b, alpha=0.5, beta=-2, c=c))
            if b is infinite:
                continue
            finishing = tessera.Epilogue(bias=bias, activation="relu")
            same(tessera.matmul(a, prepared, epilogue=finishing), (expected + bias).relu())
            # Stacks whose rows are evenly apart are one product.
            for x in (a.view(4, size // 4, size), a.view(2, 2, size // 4, size), a.view(size, 1, size), a[None]):
                told = tessera.explain(x, prepared)
                assert (told["products"], told["m"]) == (1, size), told
                same(tessera.matmul(x, prepared).view(size, size), expected)
                out = torch.empty(*x.shape[:-1], size, device="cuda")
                same(tessera.matmul(x, prepared, out=out, epilogue=finishing).view(size, size), (expected + bias).relu())
                same(tessera.Plan(x, prepared)(x, prepared).view(size, size), expected)
            last = torch.randn(8, 50, size, device="cuda")[:, -1:]
            told = tessera.explain(last, prepared)
            assert (told["products"], told["m"]) == (1, 8), told
            same(tessera.matmul(last, prepared).view(8, size), tessera.matmul(last.reshape(8, size), prepared))
            # Others are launched one after the other: matrices with rows between them, one for all, and overlapping ones.
            for odd in (a[:1].expand(5, 1, size), torch.randn(size + 60, device="cuda").as_strided((5, 1, size), (12, size, 1))):
                assert tessera.explain(odd, prepared)["products"] == 5
                found = tessera.matmul(odd, prepared)
                for i in range(5):
                    same(found[i], tessera.matmul(odd[i], prepared))
            apart = torch.randn(3, 2, 40, size, device="cuda")[:, :, :30]
            assert tessera.explain(apart, prepared)["products"] == 6
            found = tessera.matmul(apart, prepared)
            rows = tessera.Epilogue(row_scale=torch.arange(30, device="cuda", dtype=torch.float32))
            scaled = tessera.matmul(apart.contiguous(), prepared, epilogue=rows)
            for i in range(3):
                for j in range(2):
                    one = tessera.matmul(apart[i, j], prepared)
                    same(found[i, j], one)
                    assert torch.allclose(scaled[i, j], one * rows.row_scale[:, None], rtol=1e-4, atol=1e-2)
            vector = tessera.matmul(a[0], prepared)
            same(vector, tessera.matmul(a[:1], prepared)[0])
            # Plans, of arrays and by shapes, with a workspace, and in a graph.
            plan, out = tessera.Plan(a, prepared), torch.empty_like(expected)
            same(plan(a, prepared), expected)
            if b.is_contiguous():
                by_shapes = tessera.Plan.from_shapes((size, size), (size, size), "float32", prepared=limbs)
                assert by_shapes.kernel == by
                same(by_shapes(a, prepared), expected)
            workspace = torch.empty(max(plan.workspace_bytes, 256), dtype=torch.uint8, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                plan(a, prepared, out=out, workspace=workspace)
                made = tessera.matmul(a, prepared)
                raises("being captured", ValueError, lambda: tessera.PreparedMatrix(b, limbs=limbs))
            for _ in range(3):
                out.zero_()
                graph.replay()
                same(out, expected)
                same(made, expected)
            other = tessera.PreparedMatrix(b, limbs="three_bf16" if limbs == "two_f16" else "two_f16")
            raises("limbs=", TypeError, lambda: plan(a, other))
            raises("b is an array", TypeError, lambda: plan(a, b))
            raises("b is a PreparedMatrix", TypeError, lambda: tessera.Plan(a, b)(a, prepared))
    raises("componentwise", RuntimeError, lambda: tessera.PreparedMatrix(b, accuracy="componentwise"))
    strict = tessera.PreparedMatrix(b, limbs="three_bf16", accuracy="componentwise")
    tessera.matmul(a, strict, accuracy="componentwise")
    raises("requires grad", RuntimeError, lambda: tessera.PreparedMatrix(b.clone().requires_grad_()))
    raises("make a contiguous copy", ValueError, lambda: tessera.PreparedMatrix(wide[::2, ::2]))


@check("torch")
def memory_of_prepared_factors(torch):
    """It is given back, after the launches that use it; and any stream may use what another one has split."""
    if torch.cuda.get_device_capability()[0] != 9:
        return
    side, n = torch.cuda.Stream(), 2048
    a, b = torch.randn(n, n, device="cuda"), torch.zeros(n, n, device="cuda")
    split = torch.randn(n, n, device="cuda")
    expected = tessera.matmul(a, tessera.PreparedMatrix(split))
    torch.cuda.synchronize()
    for stream in (side, torch.cuda.default_stream()):
        b.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            slow(torch)
            b.copy_(split)
            prepared = tessera.PreparedMatrix(b)
        # It was waited for: the other stream needs no order.
        with torch.cuda.stream(torch.cuda.Stream()):
            found = tessera.matmul(a, prepared)
            torch.cuda.current_stream().synchronize()
        assert torch.equal(found, expected)
        prepared = None
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    prepared = tessera.PreparedMatrix(split)
    assert free - torch.cuda.mem_get_info()[0] >= prepared.limb_bytes >= 4 * n * n
    del prepared
    assert torch.cuda.mem_get_info()[0] >= free, "the limbs' memory is not given back"
    for _ in range(5):
        prepared = tessera.PreparedMatrix(split)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            slow(torch, 0.02)
            found = tessera.matmul(a, prepared)
        del prepared
        trash = tessera.PreparedMatrix(torch.full((n, n), float("nan"), device="cuda"))
        side.synchronize()
        assert torch.equal(found, expected)
        del trash


@check("torch")
def epilogues_by_shapes_and_largest_magnitudes(torch):
    """A plan by shapes with an epilogue, whose arrays each call gives, and the largest magnitude of its results."""
    m, n, k = 300, 200, 64
    for name in ("float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        plan = tessera.Plan.from_shapes((m, k), (k, n), name, bias="column", activation="relu", amax=True)
        amax = torch.full((1,), 7.0, device="cuda")
        for _ in range(3):
            a, b = (torch.randn(shape, device="cuda").to(dtype) for shape in ((m, k), (k, n)))
            bias = torch.randn(n, device="cuda").to(dtype)
            out = plan(a, b, epilogue=tessera.Epilogue(bias=bias, activation="relu", amax=amax))
            left, right = a.double(), b.double()
            worst = float((left.abs() @ right.abs() + bias.double().abs()).amax())
            expected = (left @ right + bias.double()).relu()
            equal_or_near(out.double().cpu().numpy(), expected.cpu().numpy(), k, name, worst)
            assert float(amax) == float(out.abs().max())


@check("torch")
def order_without_waiting(torch):
    """A producer that is still at work when matmul returns: the product sees what it wrote, in any stream."""
    n = 512
    a, b = torch.zeros(n, n, device="cuda"), torch.eye(n, device="cuda")
    tessera.matmul(a, b)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for stream in (torch.cuda.default_stream(), side):
        for explicit in (None, stream, stream.cuda_stream):
            a.zero_()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                slow(torch)
                a.fill_(3)
                begun = time.perf_counter()
                found = tessera.matmul(a, b, stream=explicit)
                took = time.perf_counter() - begun
                busy = not stream.query()
            assert busy, "the producer was over too early for this to show anything"
            assert took < 0.03, f"matmul took {took * 1e3:.1f} ms: it waited"
            stream.synchronize()
            assert torch.all(found == 3)
    # Results of another library's arrays are ordered, too: a DeviceArray crosses streams.
    class Lent:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

    a.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        slow(torch)
        a.fill_(5)
        found = tessera.matmul(Lent(a), Lent(b))
        assert isinstance(found, tessera.DeviceArray)
    assert not side.query()
    assert torch.all(torch.from_dlpack(found) == 5)


@check("torch")
def two_streams_overlap(torch):
    """Two small products in a row of launches each: in two streams they take less than one after the other."""
    a, b = torch.randn(128, 8192, device="cuda", dtype=torch.float64), torch.randn(8192, 128, device="cuda", dtype=torch.float64)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    outs = [torch.empty(128, 128, device="cuda", dtype=torch.float64) for _ in streams]
    expected = tessera.matmul(a, b)
    plan = tessera.Plan(a, b, out=outs[0])
    spaces = [torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda") for _ in streams]

    def run(pairs):
        torch.cuda.synchronize()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        slow(torch, 0.02)
        first.record()
        for stream in streams:
            stream.wait_event(first)
        for _ in range(100):
            for which, stream in pairs:
                plan(a, b, out=outs[which], stream=stream, workspace=spaces[which])
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last)

    run([(0, streams[0]), (1, streams[1])])
    in_row = min(run([(0, streams[0]), (1, streams[0])]) for _ in range(3))
    at_once = min(run([(0, streams[0]), (1, streams[1])]) for _ in range(3))
    print(f"    200 products of 128 x 128 x 8192 in f64: one stream {in_row:.2f} ms, two {at_once:.2f} ms")
    assert all(torch.equal(out, expected) for out in outs), "other bits"
    assert at_once < 0.95 * in_row, "two streams do not overlap"


@check("torch")
def graphs(torch):
    """A captured product launched 1000 times with other launches between gives the same bits."""
    for dtype, sizes in ((torch.bfloat16, (512, 512, 512)), (torch.float32, (96, 64, 20000)), (torch.float32, (1024,) * 3)):
        m, n, k = sizes
        a = torch.randn(m, k, device="cuda").to(dtype)
        b = torch.randn(k, n, device="cuda").to(dtype)
        other = torch.randn(300, 300, device="cuda")
        out, plan = torch.empty(m, n, device="cuda", dtype=dtype), tessera.Plan(a, b)
        expected, by_plan = tessera.matmul(a, b), plan(a, b)
        assert torch.equal(expected, by_plan)
        tessera.matmul(other, other)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            plan(a, b, out=out)
            made = tessera.matmul(a, b)
        for replay in range(1000):
            out.zero_()
            graph.replay()
            between = tessera.matmul(other, other)
            if replay % 100 == 99:
                assert torch.equal(out, expected) and torch.equal(made, expected), f"other bits in replay {replay}"
        b.mul_(2)
        graph.replay()
        assert torch.equal(out, tessera.matmul(a, b)), "a replay reads the operands anew"
        assert torch.all(torch.isfinite(between))
    # What a graph captures first may be picked and loaded in it.
    graph = torch.cuda.CUDAGraph()
    a = torch.randn(200, 72, device="cuda", dtype=torch.float64)
    with torch.cuda.graph(graph):
        found = tessera.matmul(a, a.T)
    graph.replay()
    assert torch.allclose(found, a @ a.T)


@check("torch")
def eight_threads(torch):
    a, b = torch.randn(300, 500, device="cuda"), torch.randn(500, 200, device="cuda")
    expected, failed = tessera.matmul(a, b), []
    torch.cuda.synchronize()

    def work(which):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for turn in range(200):
                    if which % 2:
                        found = tessera.matmul(a, b)
                        same = torch.equal(found, expected)
                    else:
                        part = tessera.matmul(a[: 100 + turn], b)
                        same = torch.allclose(part, a[: 100 + turn] @ b, rtol=1e-4, atol=1e-3)
                    assert same, f"thread {which}, turn {turn}"
        except BaseException:
            failed.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(which,)) for which in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed[0]


@check("torch")
def errors(torch):
    a = torch.randn(64, 64, device="cuda")
    values = (TypeError, ValueError)
    raises("out shares memory with a", values, lambda: tessera.matmul(a, a.clone(), out=a))
    raises("out shares memory with b", values, lambda: tessera.matmul(a.clone(), a, out=a.T))
    raises("out shares memory with a", values, lambda: tessera.matmul(a[:, :32], a[:32].clone(), out=a))
    wide = torch.randn(64, 128, device="cuda")
    tessera.matmul(wide[:, :64], a, out=wide[:, 64:])
    assert torch.allclose(wide[:, 64:], wide[:, :64] @ a, rtol=1e-3, atol=1e-3), "parts of one matrix are apart"
    raises("out has the shape", values, lambda: tessera.matmul(a, a, out=a[:5].clone()))
    raises("the product of", values + (TypeError,), lambda: tessera.matmul(a, a, out=a.half(), dtype=torch.float32))
    raises("b in host memory", values, lambda: tessera.matmul(a, a.cpu()))
    raises("a is in host memory", values, lambda: tessera.matmul(np.ones((64, 64), "f"), a))
    raises("a is of float32 and b of float16", values, lambda: tessera.matmul(a, a.half()))
    raises("complex64", values, lambda: tessera.matmul(a.to(torch.complex64), a))
    raises("int64", values, lambda: tessera.matmul(a.long(), a.long()))
    raises("must be as many", values, lambda: tessera.matmul(a, a[:5]))
    raises("device is", values, lambda: tessera.matmul(a, a, device="cpu"))
    raises("stream", values, lambda: tessera.matmul(a, a, stream="s"))
    raises("requires grad", RuntimeError, lambda: tessera.matmul(a.clone().requires_grad_(), a))
    raises("other shapes or strides", values, lambda: tessera.Plan(a, a)(a.T, a))
    raises("make a contiguous copy", values, lambda: tessera.Plan(a[::2, ::2], a[:32]))
    raises("workspace", values, lambda: tessera.Plan(a, a)(a, a, workspace=np.zeros(4)))
    with torch.no_grad():
        tessera.matmul(a.clone().requires_grad_(), a)
    if torch.cuda.device_count() > 1:
        raises("b on cuda:1", values, lambda: tessera.matmul(a, a.to("cuda:1")))
        other = a.to("cuda:1")
        found = tessera.matmul(other, other)
        assert found.device.index == 1 and torch.cuda.current_device() == 0
        assert torch.allclose(found, other @ other, rtol=1e-3, atol=1e-3)
    torch.cuda.synchronize()


@check("torch")
def memory_is_not_reused_too_early(torch):
    """Operands that are dropped while the product is queued in another stream."""
    side = torch.cuda.Stream()
    expected = torch.full((1024, 1024), 1024.0, device="cuda")
    for _ in range(5):
        a, b = torch.ones(1024, 1024, device="cuda"), torch.ones(1024, 1024, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            slow(torch, 0.02)
        found = tessera.matmul(a, b, stream=side)
        del a, b
        trash = [torch.full((1024, 1024), float("nan"), device="cuda") for _ in range(4)]
        side.synchronize()
        assert torch.equal(found, expected)
        del trash


# CuPy


@check("cupy")
def cupy_arrays(cupy):
    cupy.random.seed(1)
    for dtype in ("float16", "float32", "float64", "int32"):
        for left, right in SHAPES:
            a, b = (cupy.asarray(cupy.random.randn(*shape) * 3).astype(dtype) for shape in (left, right))
            found = tessera.matmul(a, b)
            assert isinstance(found, cupy.ndarray) and found.dtype == dtype
            exact = cupy.asnumpy(a).astype("f8") @ cupy.asnumpy(b).astype("f8")
            assert found.shape == exact.shape
            if dtype == "int32":
                np.testing.assert_array_equal(cupy.asnumpy(found), exact)
            else:
                scale = np.abs(cupy.asnumpy(a).astype("f8")) @ np.abs(cupy.asnumpy(b).astype("f8"))
                scale = float(scale.max()) if scale.size else 0.0
                equal_or_near(cupy.asnumpy(found).astype("f8"), exact, left[-1], dtype, scale)
    a = cupy.random.randn(96, 64).astype("f4")
    for view in (a, cupy.asfortranarray(a), a[::-1], a[:, ::2], a[5:50, 3:40]):
        found = tessera.matmul(view, view.T)
        cupy.testing.assert_allclose(found, view.astype("f8") @ view.T.astype("f8"), rtol=1e-4, atol=1e-3)
    assert tessera.explain(a, a.T)["copied"] == [] and tessera.explain(a[::-1], a.T)["copied"] == ["a"]
    out = cupy.empty((96, 96), "f4")
    at = out.data.ptr
    assert tessera.matmul(a, a.T, out=out) is out and out.data.ptr == at
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        found = tessera.matmul(a, a.T)
    explicit = tessera.matmul(a, a.T, stream=stream)
    stream.synchronize()
    assert bool((found == out).all()) and bool((explicit == out).all())
    plan = tessera.Plan(a, a.T)
    workspace = cupy.empty(max(plan.workspace_bytes, 256), "u1")
    with stream:
        stream.begin_capture()
        plan(a, a.T, out=out, workspace=workspace)
        graph = stream.end_capture()
        out.fill(0)
        graph.launch()
    stream.synchronize()
    assert bool((found == out).all())
    square = a[:64]
    raises("out shares memory", ValueError, lambda: tessera.matmul(square, square, out=square))
    if cupy.cuda.Device().compute_capability[0] == "9":
        prepared = tessera.PreparedMatrix(a.T)
        found = tessera.matmul(cupy.stack([a, a]), prepared)
        assert isinstance(found, cupy.ndarray)
        cupy.testing.assert_allclose(found[1], a.astype("f8") @ a.T.astype("f8"), rtol=1e-4, atol=1e-3)


# JAX


@check("jax")
def jax_arrays(jax):
    jnp = importlib.import_module("jax.numpy")
    for dtype in ("float16", "bfloat16", "float32", "int32"):
        for left, right in SHAPES:
            if 0 in left + right:
                continue
            keys = jax.random.split(jax.random.key(1))
            a, b = ((3 * jax.random.normal(key, shape)).astype(dtype) for key, shape in zip(keys, (left, right)))
            found = tessera.matmul(a, b)
            assert isinstance(found, jax.Array) and found.dtype == a.dtype, type(found)
            assert next(iter(found.devices())).platform in ("gpu", "cuda")
            x, y = np.asarray(a).astype("f8"), np.asarray(b).astype("f8")
            if dtype == "int32":
                np.testing.assert_array_equal(np.asarray(found), x @ y)
            else:
                scale = float((np.abs(x) @ np.abs(y)).max())
                equal_or_near(np.asarray(found).astype("f8"), x @ y, left[-1], dtype, scale)
    a = jax.random.normal(jax.random.key(2), (512, 512))
    # A chain of products of both, without a pause: each sees what the one before wrote, and no memory is reused
    # before that.
    jitted = jax.jit(lambda x: jnp.tanh(x @ x / 30))
    exact = np.asarray(a).astype("f8")
    value = a
    for _ in range(20):
        value = tessera.matmul(jitted(value), a, alpha=1 / 30)
        exact = np.tanh(exact @ exact / 30) @ np.asarray(a).astype("f8") / 30
    assert np.allclose(np.asarray(value), exact, rtol=2e-2, atol=2e-3), np.abs(np.asarray(value) - exact).max()
    for _ in range(50):
        tessera.matmul(a, a)
    raises("read-only", ValueError, lambda: tessera.matmul(a, a, out=a))
    if jax.devices()[0].compute_capability.startswith("9"):
        prepared = tessera.PreparedMatrix(a)
        found, exact = tessera.matmul(a[:33], prepared), np.asarray(a).astype("f8")
        assert isinstance(found, jax.Array) and np.allclose(np.asarray(found), exact[:33] @ exact, rtol=1e-4, atol=1e-3)
    raises("a is of float32 and b of bfloat16", TypeError, lambda: tessera.matmul(a, a.astype("bfloat16")))


# Numba


@check("numba")
def numba_arrays(numba):
    cuda = importlib.import_module("numba.cuda")
    a, b = np.random.default_rng(1).standard_normal((2, 96, 96)).astype("f4")
    on = cuda.to_device(a), cuda.to_device(b)
    found = tessera.matmul(*on)
    assert cuda.is_cuda_array(found) and type(found) is type(on[0]), type(found)
    assert np.allclose(found.copy_to_host(), a @ b, rtol=1e-3, atol=1e-3)
    out = cuda.device_array((96, 96), "f4")
    assert tessera.matmul(on[0].T, on[1], out=out) is out
    assert np.allclose(out.copy_to_host(), a.T @ b, rtol=1e-3, atol=1e-3)
    stream = cuda.stream()
    found = tessera.matmul(*on, stream=stream)
    stream.synchronize()
    assert np.allclose(found.copy_to_host(), a @ b, rtol=1e-3, atol=1e-3)


# Times


def microseconds(call, count=2000):
    for _ in range(50):
        call()
    begun = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begun) / count * 1e6


def times(libraries):
    """Of one call on the host, and of products on the GPU."""
    torch = libraries.get("torch")
    if torch is not None:
        a, b = torch.ones(16, 16, device="cuda"), torch.ones(16, 16, device="cuda")
        out, plan = torch.empty(16, 16, device="cuda"), tessera.Plan(a, b)
        for name, call in {
            "torch.matmul(a, b)": lambda: torch.matmul(a, b),
            "torch.matmul(a, b, out=out)": lambda: torch.matmul(a, b, out=out),
            "tessera.matmul(a, b)": lambda: tessera.matmul(a, b),
            "tessera.matmul(a, b, out=out)": lambda: tessera.matmul(a, b, out=out),
            "tessera plan(a, b)": lambda: plan(a, b),
            "tessera plan(a, b, out=out)": lambda: plan(a, b, out=out),
        }.items():
            print(f"    {name:32} {microseconds(call):6.2f} us a call (16 x 16 of float32)")
            torch.cuda.synchronize()
        for dtype, n in ((torch.bfloat16, 4096), (torch.float16, 4096), (torch.float32, 4096), (torch.bfloat16, 8192)):
            a, b = (torch.rand(n, n, device="cuda").sub_(0.5).to(dtype) for _ in range(2))
            out, found = torch.empty(n, n, device="cuda", dtype=dtype), {"torch": [], "tessera": []}
            for _ in range(5):
                for name, call in (("torch", torch.matmul), ("tessera", tessera.matmul)):
                    for _ in range(3):
                        call(a, b, out=out)
                    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    first.record()
                    for _ in range(20):
                        call(a, b, out=out)
                    last.record()
                    last.synchronize()
                    found[name].append(first.elapsed_time(last) / 20)
            torch_ms, own_ms = (sorted(found[name])[2] for name in ("torch", "tessera"))
            flop = 2 * n**3 / 1e9
            kernel = tessera.explain(a, b)["by"]
            print(
                f"    {n}^3 of {str(dtype)[6:]:9} torch {torch_ms:.3f} ms ({flop / torch_ms:.0f} TFLOP/s), tessera "
                f"{own_ms:.3f} ms ({flop / own_ms:.0f} TFLOP/s), {torch_ms / own_ms:.2f} times as fast, {kernel}"
            )
    cupy = libraries.get("cupy")
    if cupy is not None:
        a, b, out = (cupy.ones((16, 16), "f4") for _ in range(3))
        print(f"    cupy.matmul(a, b)                {microseconds(lambda: cupy.matmul(a, b)):6.2f} us a call")
        print(f"    tessera.matmul(a, b)             {microseconds(lambda: tessera.matmul(a, b)):6.2f} us a call (CuPy)")
    jax = libraries.get("jax")
    if jax is not None:
        a = jax.numpy.ones((16, 16))
        multiply = jax.jit(jax.numpy.matmul)
        print(f"    jitted matmul(a, a)              {microseconds(lambda: multiply(a, a), 500):6.2f} us a call")
        print(f"    tessera.matmul(a, a)             {microseconds(lambda: tessera.matmul(a, a), 500):6.2f} us a call (JAX)")


def found_library(name):
    """A library with a GPU that it can use, or why there is none."""
    try:
        module = importlib.import_module(name)
        if name == "torch":
            assert module.cuda.is_available(), "it sees no GPU"
            print(f"torch {module.__version__} on {module.cuda.get_device_name()}")
        elif name == "cupy":
            assert module.cuda.runtime.getDeviceCount() > 0
            print(f"cupy {module.__version__}")
        elif name == "jax":
            importlib.import_module("jax.dlpack")
            assert module.default_backend() in ("gpu", "cuda"), "it sees no GPU"
            print(f"jax {module.__version__}")
        else:
            cuda = importlib.import_module("numba.cuda")
            assert cuda.is_available(), "it sees no GPU"
            # What copies an array fails where Numba is older than the NumPy beside it.
            cuda.to_device(np.ones((2, 2), "f4")).T.copy_to_host()
            print(f"numba {module.__version__}")
        return module
    except Exception as error:
        print(f"SKIPPED: {name}: {str(error).strip().splitlines()[0] if str(error) else type(error).__name__}")
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="torch,cupy,jax,numba", help="libraries, with commas between them")
    parser.add_argument("--times", action="store_true", help="times alone")
    options = parser.parse_args()
    print(f"tessera {tessera.__version__}: {tessera.config()['gpu']}")
    libraries = {name: found_library(name) for name in options.only.split(",")}
    libraries = {name: module for name, module in libraries.items() if module is not None}
    if not libraries:
        print("nothing is checked: no library has a GPU here")
        return 2
    failed = []
    for library, function in CHECKS if not options.times else ():
        if library not in libraries:
            continue
        begun = time.perf_counter()
        try:
            function(libraries[library])
            verdict = "ok"
        except Exception:
            verdict = "FAILED"
            failed.append(function.__name__)
            traceback.print_exc(limit=-6, file=sys.stdout)
        print(f"{verdict:6} {library}: {function.__name__} ({time.perf_counter() - begun:.1f} s)", flush=True)
    times(libraries)
    print(f"{len(failed)} checks failed: {', '.join(failed)}" if failed else "every check has passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
