"""The BLAS that comes with the package."""

from __future__ import annotations

from pathlib import Path


def blas_library() -> str:
    """The path of libtessera_blas.so, level 3 of BLAS for other programs."""
    path = Path(__file__).parent / "lib" / "libtessera_blas.so"
    if not path.is_file():
        raise FileNotFoundError(f"this installation has no {path}")
    return str(path)
