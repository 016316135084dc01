"""Products with a bias, an activation and scales, of arrays in host memory and on the emulated GPU."""

import math

import numpy as np
import pytest
import tessera
from conftest import whole
from fakes import EMULATED, Cai, Lent, result, upload

ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": np.vectorize(lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
HOST = "cpu"
PLACES = [HOST, *([Cai, Lent] if EMULATED is not None else [])]


def put(array, place):
    """An array in host memory, or a copy of it on the emulated GPU."""
    return array if place is HOST or array is None else upload(array, place)


def product(a, b, place, epilogue, **arguments):
    """The product in a place, as an array of NumPy."""
    epilogue = tessera.Epilogue(**{
        name: given if name == "activation" else put(given, place) for name, given in epilogue.items()
    })
    arrays = {name: put(arguments.pop(name), place) for name in ("c", "out") if name in arguments}
    found = tessera.matmul(put(a, place), put(b, place), epilogue=epilogue, **arrays, **arguments)
    if place is HOST:
        return found
    return found.host() if "out" in arrays else result(found)


def expected(a, b, bias=None, activation=None, row_scale=None, column_scale=None, alpha=1, beta=0, c=0):
    """The same by NumPy, in double precision."""
    value = alpha * (np.asarray(a, float) @ np.asarray(b, float))
    if row_scale is not None:
        value = value * np.reshape(row_scale, (-1, 1)).astype(float)
    if column_scale is not None:
        value = value * np.asarray(column_scale, float)
    value = value + beta * np.asarray(c, float)
    if bias is not None:
        value = value + np.asarray(bias, float)
    return ACTIVATIONS[activation](value)


def numbers(rng, shape, dtype="f4"):
    return (rng.integers(-8, 9, shape) / 8).astype(dtype)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(rng, place, activation):
    a, b = numbers(rng, (13, 7)), numbers(rng, (7, 11))
    given = {"bias": numbers(rng, 11), "activation": activation}
    np.testing.assert_allclose(product(a, b, place, given), expected(a, b, **given), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", [(11,), (1, 11), (13, 1), (1, 1, 11)])
def test_biases_are_broadcast_as_numpy_does(rng, place, shape):
    a, b, bias = numbers(rng, (13, 7)), numbers(rng, (7, 11)), numbers(rng, shape)
    found = product(a, b, place, {"bias": bias})
    np.testing.assert_array_equal(found, (a @ b + bias).reshape(13, 11))


@pytest.mark.parametrize("place", PLACES)
def test_scales_and_c(rng, place):
    a, b, c = numbers(rng, (13, 7)), numbers(rng, (7, 11)), numbers(rng, (13, 11))
    for rows, cols in [((13,), (11,)), ((13, 1), (1, 11))]:
        given = {"row_scale": numbers(rng, rows), "column_scale": numbers(rng, cols), "bias": numbers(rng, 11)}
        more = {"alpha": 0.5, "beta": -2.0, "c": c}
        found = product(a, b, place, {**given, "activation": "relu"}, **more)
        np.testing.assert_allclose(found, expected(a, b, activation="relu", **given, **more), rtol=1e-6)
        # C is where the result goes.
        target = c.copy()
        found = product(a, b, place, given, alpha=0.5, beta=-2.0, c=c, out=target)
        np.testing.assert_allclose(found, expected(a, b, **given, **more), rtol=1e-6)


@pytest.mark.parametrize("place", PLACES)
def test_stacks_and_transposed_factors(rng, place):
    a, b = numbers(rng, (5, 13, 7)), numbers(rng, (7, 11))
    for given in [{"bias": numbers(rng, (13, 1))}, {"row_scale": numbers(rng, 13)}, {"bias": numbers(rng, 11)}]:
        np.testing.assert_array_equal(product(a, b, place, given), expected(a, b, **given))
    given = {"bias": numbers(rng, 13), "activation": "relu"}
    np.testing.assert_array_equal(product(b.T, a[0].T, place, given), expected(b.T, a[0].T, **given))
    vector = numbers(rng, 7)
    np.testing.assert_array_equal(
        product(a[0], vector, place, {"bias": numbers(rng, 13) * 0 + 2}), expected(a[0], vector) + 2
    )


def test_columns_as_results(rng):
    """A result by columns, and one reversed."""
    a, b, bias = numbers(rng, (13, 7)), numbers(rng, (7, 11)), numbers(rng, (13, 1))
    epilogue = tessera.Epilogue(bias=bias, activation="relu")
    wanted = np.maximum(a @ b + bias, 0)
    for out in [np.zeros((13, 11), "f4", order="F"), np.zeros((13, 11), "f4")[::-1], np.zeros((26, 22), "f4")[::2, ::2]]:
        assert tessera.matmul(a, b, out=out, epilogue=epilogue) is out
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_types(rng, dtype):
    a, b = whole(rng, (9, 5), dtype), whole(rng, (5, 6), dtype)
    epilogue = tessera.Epilogue(bias=[1, -2, 3, -4, 5, -6], activation="relu", row_scale=2)
    found = tessera.matmul(a, b, epilogue=epilogue)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, np.maximum(2 * (a @ b) + np.array([1, -2, 3, -4, 5, -6], dtype), 0))


def test_sums_are_not_rounded_before_the_bias(rng):
    one = np.ones((1, 2049), "f2")
    epilogue = tessera.Epilogue(bias=[-2048.0])
    assert tessera.matmul(one, one.T, epilogue=epilogue) == 1.0


def test_numbers_are_read_before_the_result_is_written():
    shared = np.arange(9, dtype="f4").reshape(3, 3)
    bias = shared[0]
    eye = np.eye(3, dtype="f4")
    wanted = eye + bias.copy()
    np.testing.assert_array_equal(tessera.matmul(eye, eye, out=shared, epilogue=tessera.Epilogue(bias=bias)), wanted)


def test_what_is_asked_for_in_vain(rng):
    a, b = numbers(rng, (3, 4)), numbers(rng, (4, 5))

    def refused(error, match, a=a, b=b, **arguments):
        with pytest.raises(error, match=match):
            tessera.matmul(a, b, epilogue=tessera.Epilogue(**arguments))

    with pytest.raises(ValueError, match=r"activation is 'tanh'|activation is .tanh."):
        tessera.Epilogue(activation="tanh")
    with pytest.raises(TypeError, match="must be a tessera.Epilogue"):
        tessera.matmul(a, b, epilogue="relu")
    refused(ValueError, r"bias has the shape \[3\], it must be \(5,\)", bias=[1, 2, 3])
    refused(ValueError, r"bias has the shape \[3, 5\]", bias=np.zeros((3, 5)))
    refused(ValueError, r"row_scale has the shape \[5\], it must be \(3,\)", row_scale=np.ones(5))
    refused(ValueError, r"column_scale has the shape \[5, 1\]", column_scale=np.ones((5, 1)))
    refused(ValueError, "all products of a stack", bias=np.zeros((2, 1, 5)))
    refused(TypeError, "float16, bfloat16, float32 and float64", a.astype(int), b.astype(int), activation="relu")
    refused(TypeError, "float16, bfloat16, float32 and float64", a + 0j, b + 0j, activation="relu")
    refused(Exception, "they have relu", a.astype("f8"), b.astype("f8"), activation="gelu")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_the_largest_magnitude(rng, place, dtype):
    if place is not HOST and dtype == "f2":
        pytest.skip("the emulated GPU has no such kernels")
    cases = [((13, 7), (7, 11)), ((3, 13, 7), (3, 7, 11)), ((3, 13, 7), (7, 11)), ((13, 7), (7, 0)), ((13, 0), (0, 11))]
    for a, b in cases:
        a, b = numbers(rng, a, dtype), numbers(rng, b, dtype)
        amax = put(np.full(1, 77, "f4"), place)
        given = {"activation": "relu"}
        epilogue = tessera.Epilogue(amax=amax, **given)
        found = tessera.matmul(put(a, place), put(b, place), alpha=-2, epilogue=epilogue)
        found = found if place is HOST else result(found)
        np.testing.assert_allclose(found, expected(a, b, alpha=-2, **given), rtol=2e-3)
        largest = amax if place is HOST else amax.host()
        assert largest == np.abs(found).max(initial=0)
    a, b = numbers(rng, (4, 4), dtype), numbers(rng, (4, 4), dtype)
    a[1, 2] = np.nan
    amax = put(np.zeros((1, 1), "f4"), place)
    tessera.matmul(put(a, place), put(b, place), epilogue=tessera.Epilogue(amax=amax))
    assert np.isnan(amax if place is HOST else amax.host()).all()


def test_where_the_largest_magnitude_cannot_go(rng):
    a, b = numbers(rng, (3, 4)), numbers(rng, (4, 5))
    read_only = np.zeros(1, "f4")
    read_only.flags.writeable = False
    refusals = [
        (np.zeros(2, "f4"), ValueError, "one float32"),
        (np.zeros(1, "f8"), ValueError, "one float32"),
        (read_only, ValueError, "read-only"),
        (0.0, TypeError, "amax must be an array"),
    ]
    for amax, error, match in refusals:
        with pytest.raises(error, match=match):
            tessera.matmul(a, b, epilogue=tessera.Epilogue(amax=amax))
    with pytest.raises(Exception, match="accumulators of f32"):
        epilogue = tessera.Epilogue(amax=np.zeros(1, "f4"))
        tessera.matmul(a.astype("f8"), b.astype("f8"), epilogue=epilogue)


def test_what_an_epilogue_says_of_itself():
    epilogue = tessera.Epilogue(bias=[1.0], activation="gelu")
    assert (epilogue.bias, epilogue.activation, epilogue.row_scale) == ([1.0], "gelu", None)
    assert repr(epilogue) == "tessera.Epilogue(bias=[1.0], activation=\"gelu\")"


@pytest.mark.skipif(EMULATED is None, reason="this build of the module has no emulated driver")
def test_on_a_gpu_numbers_are_of_the_products_types(rng):
    a, b = upload(numbers(rng, (3, 4)), Lent), upload(numbers(rng, (4, 5)), Lent)

    def refused(error, match, **arguments):
        with pytest.raises(error, match=match):
            tessera.matmul(a, b, epilogue=tessera.Epilogue(**arguments))

    refused(TypeError, "bias is in host memory|bias in host memory", bias=np.zeros(5, "f4"))
    refused(TypeError, "bias is of float64, it must be of float32", bias=upload(np.zeros(5), Lent))
    refused(ValueError, "one number for 5", bias=upload(np.zeros(1, "f4"), Lent))
    wide = np.zeros((5, 2), "f4")
    refused(ValueError, "not contiguous", bias=upload(wide, Lent).part(wide[:, 0]))


@pytest.mark.skipif(EMULATED is None, reason="this build of the module has no emulated driver")
def test_plans_have_epilogues(rng):
    a, b = numbers(rng, (6, 4)), numbers(rng, (4, 5))
    on_gpu = [upload(a, Lent), upload(b, Lent)]
    first = tessera.Epilogue(bias=upload(numbers(rng, 5), Lent), activation="relu")
    plan = tessera.Plan(*on_gpu, epilogue=first)
    assert "bias" in plan.explain()
    other = numbers(rng, 5)
    epilogue = tessera.Epilogue(bias=upload(other, Lent), activation="relu")
    np.testing.assert_array_equal(result(plan(*on_gpu, epilogue=epilogue)), np.maximum(a @ b + other, 0))
    by_shapes = tessera.Plan.from_shapes((6, 4), (4, 5), "float32", bias="column", activation="relu")
    np.testing.assert_array_equal(result(by_shapes(*on_gpu, epilogue=epilogue)), np.maximum(a @ b + other, 0))
    for unfit in [None, tessera.Epilogue(activation="relu"), tessera.Epilogue(bias=first.bias)]:
        with pytest.raises(ValueError, match="another than the plan's"):
            by_shapes(*on_gpu, epilogue=unfit)
        with pytest.raises(ValueError, match="another than the plan's"):
            plan(*on_gpu, epilogue=unfit)
    rows, cols = numbers(rng, 6), numbers(rng, 5)
    by_shapes = tessera.Plan.from_shapes((6, 4), (4, 5), "float32", bias="row", row_scale=True, column_scale=True)
    largest = upload(np.full(1, 9, "f4"), Lent)
    with_amax = tessera.Plan.from_shapes((6, 4), (4, 5), "float32", amax=True)
    found = result(with_amax(*on_gpu, epilogue=tessera.Epilogue(amax=largest)))
    assert largest.host() == np.abs(found).max()
    given = {"bias": numbers(rng, (6, 1)), "row_scale": rows, "column_scale": cols}
    epilogue = tessera.Epilogue(**{name: upload(it, Lent) for name, it in given.items()})
    np.testing.assert_array_equal(result(by_shapes(*on_gpu, epilogue=epilogue)), expected(a, b, **given))
    with pytest.raises(ValueError, match='bias is "each"; it may be "row", "column" or None'):
        tessera.Plan.from_shapes((6, 4), (4, 5), "float32", bias="each")
    assert EMULATED.faults() == []
