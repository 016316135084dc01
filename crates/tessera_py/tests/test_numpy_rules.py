"""matmul by NumPy's rules: its own tests, and its own results beside ours."""

import sys

import numpy as np
import pytest
import tessera
from conftest import KINDS, forms, pairs, whole

try:
    from numpy._core.tests.test_multiarray import MatmulCommon
except ImportError:  # NumPy 1
    from numpy.core.tests.test_multiarray import MatmulCommon


class TestMatmulCommon(MatmulCommon):
    matmul = staticmethod(tessera.matmul)


SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((0, 2, 3), (3, 4)),
    ((0,), (0,)),
    ((17, 65), (65, 33)),
    ((1, 1), (1, 1)),
]


def same(found, expected):
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes_and_types(rng, kind, shapes):
    a, b = (whole(rng, shape, kind) for shape in shapes)
    if kind == "e":  # NumPy rounds each step, we round once
        same(tessera.matmul(a, b), np.matmul(a.astype("f4"), b.astype("f4")).astype("e")[()])
    else:
        same(tessera.matmul(a, b), np.matmul(a, b))


@pytest.mark.parametrize("kinds", pairs(KINDS), ids="".join)
def test_promotion(rng, kinds):
    a, b = whole(rng, (2, 3), kinds[0]), whole(rng, (3, 4), kinds[1])
    same(tessera.matmul(a, b), np.matmul(a, b))


@pytest.mark.parametrize("kind", KINDS)
def test_forms(rng, kind):
    a, b = whole(rng, (5, 7, 6), kind), whole(rng, (6, 4), kind)
    expected = np.matmul(a, b)
    for a_form, left in forms(a):
        for b_form, right in forms(b):
            found = tessera.matmul(left, right)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, f"{a_form} by {b_form}")


def test_broadcast_views_and_windows(rng):
    a = np.broadcast_to(whole(rng, (1, 6), "d"), (4, 6))
    windows = np.lib.stride_tricks.sliding_window_view(whole(rng, 9, "d"), 4)
    same(tessera.matmul(a, windows), np.matmul(a, windows))
    same(tessera.matmul(windows, windows[0]), np.matmul(windows, windows[0]))


@pytest.mark.parametrize("kind", "bhilqBHILQ")
def test_integers_wrap(rng, kind):
    info = np.iinfo(kind)
    a = rng.integers(info.min, info.max, (9, 40), kind, endpoint=True)
    b = rng.integers(info.min, info.max, (40, 11), kind, endpoint=True)
    with np.errstate(over="ignore"):
        same(tessera.matmul(a, b), np.matmul(a, b))


def test_random_numbers_are_within_rounding(rng):
    for kind, eps in (("f", 2**-24), ("d", 2**-53), ("F", 2**-23), ("D", 2**-52)):
        a = rng.standard_normal((65, 300)).astype(kind)
        b = rng.standard_normal((300, 70)).astype(kind)
        if kind in "FD":
            a, b = a + 1j * a[::-1], b - 2j * b[::-1]
        exact = a.astype("G") @ b.astype("G")
        bound = 302 * 2 * eps * (np.abs(a) @ np.abs(b))
        assert (np.abs(tessera.matmul(a, b) - exact) <= bound).all()


def test_out(rng):
    a, b = whole(rng, (5, 2, 3), "d"), whole(rng, (3, 4), "d")
    expected = a @ b
    for _, out in forms(np.full((5, 2, 4), np.nan)):
        if out.dtype.isnative:
            assert tessera.matmul(a, b, out=out) is out
            np.testing.assert_array_equal(out, expected)
    out = np.empty((5, 2, 4))
    assert tessera.matmul(a, b, out) is out
    assert tessera.matmul(a, b, out=(out,)) is out
    single = np.empty((5, 2, 4), "f")
    tessera.matmul(a, b, out=single)
    np.testing.assert_array_equal(single, expected)
    with pytest.raises(TypeError):
        tessera.matmul(a, b, out=np.empty((5, 2, 4), "i"))
    with pytest.raises(ValueError, match="shape"):
        tessera.matmul(a, b, out=np.empty((2, 4)))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tessera.matmul(a, b, out=out)
    with pytest.raises(TypeError, match="order of bytes"):
        tessera.matmul(a, b, out=np.empty((5, 2, 4), ">f8"))
    with pytest.raises(TypeError, match="out must be an array"):
        tessera.matmul(a, b, out=[1.0])


def test_out_that_overlaps(rng):
    for make in (
        lambda x: (x, x, x),
        lambda x: (x.T, x, x),
        lambda x: (x[::-1], x[:, ::-1], x.T),
        lambda x: (x[:3, :3], x[1:4, 1:4], x[2:5, 2:5]),
    ):
        x = whole(rng, (6, 6), "d")
        a, b, out = make(x)
        expected = np.matmul(a.copy(), b.copy())
        tessera.matmul(a, b, out=out)
        np.testing.assert_array_equal(out, expected)


def test_alpha_beta_c(rng):
    for kind in "hilqHIfdFD":
        a, b, c = (whole(rng, shape, kind) for shape in ((3, 4), (4, 5), (3, 5)))
        expected = 2 * (a @ b) - 3 * c
        if kind in "HI":
            expected = (2 * (a @ b) + 3 * c).astype(kind)
        beta = 3 if kind in "HI" else -3
        found = tessera.matmul(a, b, alpha=2, beta=beta, c=c)
        assert found.dtype == a.dtype
        np.testing.assert_array_equal(found, expected)
        # In place, with a row of C for all rows, and into memory of which C is a part.
        out = c.copy()
        assert tessera.matmul(a, b, out=out, alpha=2, beta=beta, c=out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(
            tessera.matmul(a, b, beta=1, c=c[:1]), (a @ b + c[:1]).astype(kind)
        )
        both = np.concatenate([c, c])
        expected = a @ b + both[1:4]
        tessera.matmul(a, b, out=both[:3], beta=1, c=both[1:4])
        np.testing.assert_array_equal(both[:3], expected.astype(kind))
    a = np.ones((2, 2))
    nan = np.full((2, 2), np.nan)
    np.testing.assert_array_equal(tessera.matmul(a, a, beta=0, c=nan), a @ a)
    np.testing.assert_array_equal(tessera.matmul(nan, a, alpha=0), np.zeros((2, 2)))
    np.testing.assert_array_equal(tessera.matmul(a + 0j, a, alpha=1j), 1j * (a @ a))
    np.testing.assert_array_equal(tessera.matmul(a, a, beta=1, c=np.int8([1, 2])), a @ a + [1, 2])
    for wrong, kind, words in [
        ({"c": a}, ValueError, "without beta"),
        ({"beta": 1}, ValueError, "without c"),
        ({"beta": 1, "c": np.ones(3)}, ValueError, "cannot be broadcast"),
        ({"beta": 1, "c": a + 0j}, TypeError, "complex128"),
        ({"alpha": 1j}, ValueError, "alpha"),
        ({"alpha": "2"}, TypeError, "alpha"),
    ]:
        with pytest.raises(kind, match=words):
            tessera.matmul(a, a, **wrong)
    with pytest.raises(ValueError, match="alpha is 0.5"):
        tessera.matmul(a.astype("i"), a.astype("i"), alpha=0.5)


def test_narrow_factors_and_wide_sums():
    a = np.full((2, 300), 100, "int8")
    same(tessera.matmul(a, a.T, dtype="int32"), np.matmul(a, a.T, dtype="int32"))
    # 2049 ones: float16 has no 2049.
    ones = np.ones((1, 2049), "float16")
    same(tessera.matmul(ones, ones.T), np.array([[2048]], "float16"))
    same(tessera.matmul(ones, ones.T, dtype="float32"), np.array([[2049]], "float32"))
    out = np.empty((1, 1), "float32")
    assert tessera.matmul(ones, ones.T, out=out) == 2049
    same(tessera.matmul(a, a.T, dtype=float), np.matmul(a, a.T, dtype=float))


def test_bfloat16(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = whole(rng, (3, 300), ml_dtypes.bfloat16)
    b = whole(rng, (300, 5), ml_dtypes.bfloat16)
    exact = a.astype("f") @ b.astype("f")
    same(tessera.matmul(a, b), exact.astype(ml_dtypes.bfloat16))
    same(tessera.matmul(a, b, dtype="float32"), exact)
    same(tessera.matmul(a, b.astype("f")), exact)
    same(tessera.matmul(a[:, ::-2], b[::-2]), (a[:, ::-2].astype("f") @ b[::-2].astype("f")).astype(a.dtype))


def test_what_numpy_alone_multiplies():
    for a in (np.ones((2, 2), "g"), np.array([[1, 2], [3, 4]], object)):
        same(tessera.matmul(a, a), np.matmul(a, a))
        same(tessera.matmul(a, a, alpha=2, beta=1, c=a), 2 * np.matmul(a, a) + a)
        assert tessera.explain(a, a)["by"] == "numpy.matmul"
    masked = np.ma.masked_array(np.ones((2, 2)), mask=[[True, False], [False, False]])
    assert type(tessera.matmul(masked, masked)) is type(np.matmul(masked, masked))
    with pytest.raises(TypeError):
        tessera.matmul(np.array([["a"]]), np.array([["b"]]))


def test_other_sequences():
    same(tessera.matmul([[1.0, 2.0]], [[3.0], [4.0]]), np.array([[11.0]]))
    import array

    view = memoryview(array.array("d", [1, 2, 3, 4])).cast("B").cast("d", (2, 2))
    same(tessera.matmul(view, view), np.matmul(view, view))
    with pytest.raises(ValueError, match="no dimensions"):
        tessera.matmul(2.0, [1.0])


def test_explain_tells_of_copies(rng):
    a = whole(rng, (40, 30), "d")
    told = tessera.explain(a, a.T, threads=1)
    assert (told["m"], told["n"], told["k"], told["products"]) == (40, 40, 30, 1)
    assert told["copied"] == [] and told["threads"] == 1 and told["types"] == ["f64"] * 3
    copied = {
        name: tessera.explain(form, np.ones((30, 1)))["copied"] for name, form in forms(a)
    }
    assert [name for name, which in copied.items() if which == []] == ["as it is", "by columns"]
    assert tessera.explain(a.astype("i"), np.ones((30, 1)))["copied"] == ["a"]
    assert tessera.explain(np.ones((9, 40, 30)), a.T)["products"] == 1, "one product of 360 rows"


def test_settings():
    a = np.ones((3, 3))
    for settings in ({"device": "cpu"}, {"accuracy": "componentwise"}, {"threads": 1}, {"threads": 9}):
        np.testing.assert_array_equal(tessera.matmul(a, a, **settings), a @ a)
    for wrong in ({"device": "tpu"}, {"accuracy": "exact"}, {"threads": 0}, {"threads": -1}):
        with pytest.raises(ValueError):
            tessera.matmul(a, a, **wrong)
    with pytest.raises(RuntimeError, match="CUDA device"):
        tessera.matmul(a, a, device="cuda:4000000000")
    usual = tessera.get_num_threads()
    tessera.set_num_threads(1)
    assert tessera.get_num_threads() == tessera.explain(a, a)["threads"] == 1
    tessera.set_num_threads(usual + 3)
    assert tessera.explain(a, a)["threads"] == usual + 3
    tessera.set_num_threads(None)
    assert tessera.get_num_threads() == usual
    with pytest.raises(ValueError):
        tessera.set_num_threads(0)
    assert tessera.config()["version"] == tessera.__version__


def test_references_are_given_back(rng):
    a, b = whole(rng, (30, 30), "d"), whole(rng, (30, 30), ">f8")
    counts = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(20):
        tessera.matmul(a, b)
        with pytest.raises(ValueError):
            tessera.matmul(a, b[1:])
    assert (sys.getrefcount(a), sys.getrefcount(b)) == counts
