"""Plans of products of arrays in host memory: what matmul computes, of the arrays that were planned for alone."""

import array

import numpy as np
import pytest
import tessera
from conftest import KINDS, forms, whole
from test_libraries import Lent


def same(found, expected):
    assert type(found) is type(expected) and found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def numbers(rng, shape, dtype="f4"):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_computes_what_matmul_does(rng, kind):
    for left, right in [((2, 3), (3, 4)), ((3,), (3,)), ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((0, 3), (3, 4))]:
        a, b = whole(rng, left, kind), whole(rng, right, kind)
        plan = tessera.Plan(a, b)
        expected = tessera.matmul(a, b)
        assert (plan.shape, plan.dtype) == (expected.shape, expected.dtype.name)
        same(plan(a, b), expected)
        other = whole(rng, left, kind)
        same(plan(other, b), tessera.matmul(other, b))


def test_promotion_and_wide_results(rng):
    for left, right, options in [("i1", "f8", {}), ("f4", "f8", {}), ("i1", "i1", {"dtype": "i4"}), ("f2", "f2", {"dtype": "f4"})]:
        a, b = whole(rng, (4, 300), left), whole(rng, (300, 5), right)
        plan = tessera.Plan(a, b, **options)
        same(plan(a, b), tessera.matmul(a, b, **options))
    # A float32 out of 16-bit factors says what the plan is computed in, as it does for matmul.
    ones, out = np.ones((1, 2049), "f2"), np.zeros((1, 1), "f4")
    plan = tessera.Plan(ones, ones.T, out=out)
    assert plan.dtype == "float32" and plan(ones, ones.T, out=out) is out and out[0, 0] == 2049
    assert plan(ones, ones.T)[0, 0] == 2049


def test_bits_are_those_of_matmul(rng):
    """Large enough to be packed and shared by threads, of all forms in memory."""
    a, b = numbers(rng, (150, 290)), numbers(rng, (290, 130))
    for _, left in forms(a):
        for _, right in forms(b):
            plan = tessera.Plan(left, right, threads=2)
            expected = tessera.matmul(left, right)
            for _ in range(2):
                same(plan(left, right), expected)
    for threads in (1, 2, 5):
        plan = tessera.Plan(a, b, threads=threads)
        assert f"threads: {threads}" in plan.explain()
        same(plan(a, b), tessera.matmul(a, b))


def test_results_depend_on_no_earlier_call(rng):
    a, b = numbers(rng, (70, 90)), numbers(rng, (90, 60))
    plan, other = tessera.Plan(a, b), tessera.Plan(a[:, :45], b[:45])
    expected = plan(a, b)
    spoilt = np.full_like(a, np.nan)
    assert np.isnan(plan(spoilt, b)).all()
    with pytest.raises(ValueError, match="a has the shape"):
        plan(a[:, :45], b)
    other(a[:, :45], b[:45])
    first = plan(a, b)
    same(first, expected)
    first[...] = 0
    same(plan(a, b), expected)


def test_threads_are_those_at_planning(rng):
    a = numbers(rng, (40, 40))
    plan = tessera.Plan(a, a)
    before = plan.explain()
    tessera.set_num_threads(1)
    pinned = tessera.Plan(a, a)
    tessera.set_num_threads(None)
    assert plan.explain() == before and "threads: 1\n" in pinned.explain()
    same(pinned(a, a), plan(a, a))


def test_what_a_plan_says_of_itself(rng):
    a, b = np.ones((5, 2, 3), "f4"), np.asfortranarray(np.ones((3, 4), "f4"))
    plan = tessera.Plan(a, b, device="cpu", threads=1)
    told = tessera.explain(a, b, device="cpu", threads=1)
    assert (plan.device, plan.kernel, plan.workspace_bytes) == ("cpu", told["by"], 0)
    assert (plan.shape, plan.dtype) == ((5, 2, 4), "float32")
    assert plan.explain() == f"product: f32 10 x 4 x 3 on cpu\nkernel: {told['by']}\nthreads: 1\ncopied: nothing"
    assert repr(plan) == f"<tessera.Plan f32 10 x 4 x 3 by {told['by']} on cpu>"
    spread = np.ones((4, 6), "f4")[::2, ::2]
    assert "copied: a and b" in tessera.Plan(spread, spread.T).explain()
    assert "i8 by i8 to i32" in tessera.Plan(np.ones((2, 2), "i1"), np.ones((2, 2), "i1")).explain()


def test_out(rng):
    a, b = numbers(rng, (6, 9)), numbers(rng, (9, 7))
    plan, out = tessera.Plan(a, b), np.empty((6, 7), "f4")
    assert plan(a, b, out=out) is out and plan(a, b, (out,)) is out
    same(out, tessera.matmul(a, b))
    wide = np.zeros((6, 20), "f4")
    for strided in (np.empty((6, 7), "f4", order="F"), wide[:, 3:10]):
        with pytest.raises(ValueError, match="out has strides of .* bytes, the plan"):
            plan(a, b, out=strided)
        planned = tessera.Plan(a, b, out=strided)
        assert planned(a, b, out=strided) is strided
        same(strided, out)
        same(planned(a, b), out)
    double = np.empty((6, 7))
    assert tessera.Plan(a, b, out=double)(a, b, out=double) is double
    np.testing.assert_array_equal(double, out)
    # It may overlap what is read.
    square = numbers(rng, (9, 9))
    expected = tessera.matmul(square, square.T)
    tessera.Plan(square, square.T, out=square)(square, square.T, out=square)
    same(square, expected)
    read_only = np.empty((6, 7), "f4")
    read_only.flags.writeable = False
    for wrong, kind, words in [
        (double, TypeError, "out is of float64, the plan of float32"),
        (np.empty((7, 6), "f4"), ValueError, "out has the shape"),
        (read_only, ValueError, "read-only"),
        ([1.0], TypeError, "out must be an array"),
    ]:
        with pytest.raises(kind, match=words):
            plan(a, b, out=wrong)
    for wrong, kind, words in [
        (np.empty((6, 7), "i4"), TypeError, "out is of int32, the product of float32"),
        (np.empty((7, 6), "f4"), ValueError, "out has the shape"),
        (read_only, ValueError, "read-only"),
    ]:
        with pytest.raises(kind, match=words):
            tessera.Plan(a, b, out=wrong)


def test_alpha_beta_and_c(rng):
    for kind in "hilfdFD":
        a, b, c = (whole(rng, shape, kind) for shape in ((3, 4), (4, 5), (3, 5)))
        settings = {"alpha": 2, "beta": -3}
        plan = tessera.Plan(a, b, c=c, **settings)
        expected = tessera.matmul(a, b, c=c, **settings)
        same(plan(a, b, c=c), expected)
        out = c.copy()
        assert plan(a, b, out=out, c=out) is out
        same(out, expected)
        # With an out alone that is C.
        out = c.copy()
        assert plan(a, b, out=out) is out
        same(out, expected)
        out = np.full_like(c, 7)
        plan(a, b, out=out, c=c)
        same(out, expected)
        row = tessera.Plan(a, b, beta=1, c=c[0])
        same(row(a, b, c=c[1]), tessera.matmul(a, b, beta=1, c=c[1]))
    a, b, c = (whole(rng, shape, "d") for shape in ((3, 4), (4, 5), (3, 5)))
    plan = tessera.Plan(a, b, beta=1, c=c)
    for wrong, kind, words in [
        ({}, ValueError, "give c or out"),
        ({"c": c[0]}, ValueError, "c has the shape"),
        ({"c": np.asfortranarray(c)}, ValueError, "c has strides"),
        ({"c": c.astype("f4")}, TypeError, "c is of float32, the plan of float64"),
    ]:
        with pytest.raises(kind, match=words):
            plan(a, b, **wrong)
    for wrong, kind, words in [
        ({"c": c}, ValueError, "without beta"),
        ({"beta": 1}, ValueError, "without c"),
        ({"beta": 1, "c": np.ones(3)}, ValueError, "cannot be broadcast"),
        ({"alpha": 1j}, ValueError, "alpha"),
    ]:
        with pytest.raises(kind, match=words):
            tessera.Plan(a, b, **wrong)
    # A beta of zero reads no C.
    same(tessera.Plan(a, b, beta=0, c=c)(a, b, c=np.full_like(c, np.nan)), tessera.matmul(a, b))


def test_epilogues(rng):
    a, b = numbers(rng, (13, 7)), numbers(rng, (7, 11))
    amax = np.zeros(1, "f4")
    first = tessera.Epilogue(bias=numbers(rng, 11), activation="relu", row_scale=numbers(rng, 13), amax=np.zeros(1, "f4"))
    plan = tessera.Plan(a, b, epilogue=first)
    other = tessera.Epilogue(bias=numbers(rng, 11), activation="relu", row_scale=numbers(rng, 13), amax=amax)
    found = plan(a, b, epilogue=other)
    same(found, tessera.matmul(a, b, epilogue=other))
    assert amax[0] == np.abs(found).max()
    for unfit in (None, tessera.Epilogue(activation="relu"), tessera.Epilogue(bias=first.bias)):
        with pytest.raises(ValueError, match="another than the plan's"):
            plan(a, b, epilogue=unfit)
    with pytest.raises(ValueError, match="another than the plan's"):
        tessera.Plan(a, b)(a, b, epilogue=first)
    with pytest.raises(TypeError, match="must be a tessera.Epilogue"):
        tessera.Plan(a, b, epilogue=1)
    with pytest.raises(TypeError, match="not of int32"):
        tessera.Plan(a.astype("i4"), b.astype("i4"), epilogue=tessera.Epilogue(activation="relu"))
    with pytest.raises(Exception, match="accumulators of f32"):
        tessera.Plan(a.astype("f8"), b.astype("f8"), epilogue=tessera.Epilogue(amax=amax))


def test_arrays_of_others_are_refused(rng):
    a, b = numbers(rng, (6, 9)), numbers(rng, (9, 7))
    plan = tessera.Plan(a, b)
    for left, right, kind, words in [
        (a[:5], b, ValueError, r"a has the shape \[5, 9\], the plan \[6, 9\]"),
        (a, b[:, :6], ValueError, "b has the shape"),
        (np.asfortranarray(a), b, ValueError, "a has strides of"),
        (a, np.zeros((9, 20), "f4")[:, :7], ValueError, "b has strides of"),
        (a.astype("f8"), b, TypeError, "a is of float64, the plan of float32"),
        (a, b.astype(">f4"), ValueError, "b is in another order of bytes"),
        (np.stack([a, a]), b, ValueError, "a has the shape"),
        (a.astype(object), b, TypeError, "NumPy alone"),
        (np.ma.masked_array(a), b, TypeError, "NumPy alone"),
    ]:
        with pytest.raises(kind, match=words):
            plan(left, right)
    same(plan(a, b), tessera.matmul(a, b))
    # A stride that leads nowhere may be any.
    row = np.lib.stride_tricks.as_strided(a, (1, 9), (400, 4))
    plan = tessera.Plan(a[:1], b)
    same(plan(row, b), tessera.matmul(row, b))


def test_what_is_refused(rng):
    a = numbers(rng, (3, 3))
    plan = tessera.Plan(a, a)
    for options in ({"stream": 1}, {"workspace": np.zeros(256, "u1")}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} is for arrays on a GPU"):
            plan(a, a, **options)
    with pytest.raises(ValueError, match="workspace_limit is for arrays on a GPU"):
        tessera.Plan(a, a, workspace_limit=0)
    for alone in (a.astype("g"), a.astype(object), np.ma.masked_array(a)):
        with pytest.raises(TypeError, match="NumPy alone multiplies such arrays"):
            tessera.Plan(alone, alone)
    with pytest.raises(TypeError, match="NumPy alone"):
        tessera.Plan(a, a, dtype="g")
    for wrong in ({"device": "tpu"}, {"accuracy": "exact"}, {"threads": 0}):
        with pytest.raises(ValueError):
            tessera.Plan(a, a, **wrong)
    with pytest.raises(RuntimeError, match="CUDA device"):
        tessera.Plan(a, a, device="cuda:4000000000")
    with pytest.raises(ValueError, match="must be as many"):
        tessera.Plan(a, a[:2])
    with pytest.raises(ValueError, match="no dimensions"):
        tessera.Plan(2.0, [1.0])
    with pytest.raises(ValueError, match="device of a Plan by shapes"):
        tessera.Plan.from_shapes((3, 3), (3, 3), "float32", device="cpu")
    with pytest.raises(TypeError, match="array must be an array on a GPU"):
        tessera.PreparedMatrix(a)


def test_arrays_of_other_libraries(rng):
    a, b = numbers(rng, (6, 9)), numbers(rng, (9, 7))
    plan = tessera.Plan(Lent(a), Lent(b))
    same(plan(Lent(a), Lent(b)), tessera.matmul(a, b))
    out = np.zeros((6, 7), "f4")
    assert isinstance(plan(Lent(a), b, out=Lent(out)), Lent)
    same(out, tessera.matmul(a, b))
    lists = tessera.Plan([[1.0, 2.0]], array.array("d", [3, 4]))
    same(lists([[1.0, 2.0]], [5.0, 6.0]), np.array([17.0]))


def test_eight_threads_share_a_plan(rng):
    from concurrent.futures import ThreadPoolExecutor

    a, b = numbers(rng, (90, 120)), numbers(rng, (120, 80))
    plan = tessera.Plan(a, b)
    expected = plan(a, b)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: plan(a, b), range(64)):
            same(found, expected)
