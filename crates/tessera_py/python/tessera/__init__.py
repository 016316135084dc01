"""Matrix products on CPU and GPU, for arrays of NumPy, PyTorch, CuPy, JAX and Numba, where they are.

>>> import numpy as np, tessera
>>> tessera.matmul(np.ones((2, 3)), np.ones((3, 4))).shape
(2, 4)
"""

from ._library import blas_library
from ._native import (
    DeviceArray,
    Epilogue,
    Plan,
    PreparedMatrix,
    __version__,
    config,
    explain,
    get_num_threads,
    grouped_matmul,
    matmul,
    set_num_threads,
)

__all__ = [
    "DeviceArray",
    "Epilogue",
    "Plan",
    "PreparedMatrix",
    "__version__",
    "blas_library",
    "config",
    "explain",
    "get_num_threads",
    "grouped_matmul",
    "matmul",
    "set_num_threads",
]
