"""What the tests share."""

import itertools

import numpy as np
import pytest

KINDS = "?bhilqBHILQefdFD"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def whole(rng, shape, dtype):
    """Small whole numbers, whose sums of products are exact in every type."""
    return rng.integers(0, 3, shape).astype(dtype)


def forms(array):
    """The same elements in memory of other strides, alignment and order of bytes."""
    yield "as it is", array
    yield "by columns", np.asfortranarray(array)
    wide = np.zeros([2 * count + 1 for count in array.shape], array.dtype)
    part = wide[tuple(slice(1, None, 2) for _ in array.shape)]
    part[...] = array
    yield "every second", part
    back = tuple(slice(None, None, -1) for _ in array.shape)
    yield "backward", array[back].copy()[back]
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    raw[...] = array
    yield "unaligned", raw
    yield "swapped", array.astype(array.dtype.newbyteorder("S"))


def pairs(kinds):
    return list(itertools.product(kinds, kinds))
