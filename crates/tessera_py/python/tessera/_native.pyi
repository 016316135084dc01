from typing import Any, Final, Literal, TypedDict, final

import numpy.typing as npt

__all__ = [
    "DeviceArray",
    "Epilogue",
    "Plan",
    "PreparedMatrix",
    "__version__",
    "config",
    "explain",
    "get_num_threads",
    "grouped_matmul",
    "matmul",
    "set_num_threads",
]

__version__: Final[str]

_Accuracy = Literal["bf16", "tf32", "fp32", "componentwise"]
_Order = Literal["C", "F"]
_Limbs = Literal["two_f16", "three_bf16"]
_Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]

class _Config(TypedDict):
    version: str
    threads: int
    instruction_set: str
    matrix_units: str
    gpu: str

@final
class DeviceArray:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def ptr(self) -> int: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

@final
class Epilogue:
    def __new__(
        cls,
        *,
        bias: Any = None,
        activation: _Activation | None = None,
        row_scale: Any = None,
        column_scale: Any = None,
        amax: Any = None,
    ) -> Epilogue: ...
    @property
    def bias(self) -> Any: ...
    @property
    def activation(self) -> str | None: ...
    @property
    def row_scale(self) -> Any: ...
    @property
    def column_scale(self) -> Any: ...
    @property
    def amax(self) -> Any: ...

@final
class Plan:
    def __new__(
        cls,
        a: Any,
        b: Any,
        /,
        *,
        c: Any = None,
        out: Any = None,
        alpha: complex = 1,
        beta: complex = 0,
        accuracy: _Accuracy | None = None,
        dtype: npt.DTypeLike | Any | None = None,
        workspace_limit: int | None = None,
        epilogue: Epilogue | None = None,
        device: str | None = None,
        threads: int | None = None,
    ) -> Plan: ...
    @staticmethod
    def from_shapes(
        a_shape: tuple[int, ...],
        b_shape: tuple[int, ...],
        /,
        dtype: Any,
        *,
        out_dtype: Any = None,
        a_order: _Order = "C",
        b_order: _Order = "C",
        out_order: _Order = "C",
        alpha: float = 1,
        beta: float = 0,
        accuracy: _Accuracy | None = None,
        device: str = "cuda:0",
        workspace_limit: int | None = None,
        alignment: int = 16,
        bias: Literal["row", "column"] | None = None,
        activation: _Activation | None = None,
        row_scale: bool = False,
        column_scale: bool = False,
        amax: bool = False,
        prepared: _Limbs | None = None,
    ) -> Plan: ...
    def __call__(
        self,
        a: Any,
        b: Any,
        /,
        out: Any = None,
        *,
        c: Any = None,
        stream: Any = None,
        workspace: Any = None,
        epilogue: Epilogue | None = None,
    ) -> Any: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def kernel(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def explain(self) -> str: ...

@final
class PreparedMatrix:
    def __new__(
        cls,
        array: Any,
        /,
        *,
        limbs: _Limbs = "two_f16",
        accuracy: _Accuracy | None = None,
        stream: Any = None,
    ) -> PreparedMatrix: ...
    @property
    def array(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def limbs(self) -> str: ...
    @property
    def limb_bytes(self) -> int: ...

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
    stream: Any = None,
    dtype: npt.DTypeLike | Any | None = None,
    epilogue: Epilogue | None = None,
) -> Any: ...
def grouped_matmul(
    a: Any,
    b: Any,
    ends: Any,
    /,
    out: Any = None,
    *,
    accuracy: _Accuracy | None = None,
    stream: Any = None,
    dtype: npt.DTypeLike | Any | None = None,
    epilogue: Epilogue | None = None,
) -> Any: ...
def explain(
    a: Any,
    b: Any,
    /,
    *,
    accuracy: _Accuracy | None = None,
    device: str | None = None,
    threads: int | None = None,
    dtype: npt.DTypeLike | Any | None = None,
) -> dict[str, Any]: ...
def config() -> _Config: ...
def set_num_threads(threads: int | None, /) -> None: ...
def get_num_threads() -> int: ...
