from typing import Any, Final, Literal, TypedDict

import numpy.typing as npt

__all__ = [
    "__version__",
    "config",
    "explain",
    "get_num_threads",
    "matmul",
    "set_num_threads",
]

__version__: Final[str]

_Accuracy = Literal["bf16", "tf32", "fp32", "componentwise"]

class _Config(TypedDict):
    version: str
    threads: int
    instruction_set: str
    matrix_units: str
    gpu: str

def matmul(
    a: Any,
    b: Any,
    /,
    out: Any = None,
    *,
    alpha: complex = 1,
    beta: complex = 0,
    c: Any = None,
    accuracy: _Accuracy | None = None,
    device: str | None = None,
    threads: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Any: ...
def explain(
    a: Any,
    b: Any,
    /,
    *,
    accuracy: _Accuracy | None = None,
    device: str | None = None,
    threads: int | None = None,
    dtype: npt.DTypeLike | None = None,
) -> dict[str, Any]: ...
def config() -> _Config: ...
def set_num_threads(threads: int | None, /) -> None: ...
def get_num_threads() -> int: ...
