"""Matrix products on CPU and GPU, for NumPy, PyTorch and JAX arrays in host memory.

>>> import numpy as np, tessera
>>> tessera.matmul(np.ones((2, 3)), np.ones((3, 4))).shape
(2, 4)
"""

from ._library import blas_library
from ._native import (
    __version__,
    config,
    explain,
    get_num_threads,
    matmul,
    set_num_threads,
)

__all__ = [
    "__version__",
    "blas_library",
    "config",
    "explain",
    "get_num_threads",
    "matmul",
    "set_num_threads",
]
