"""What the classes and functions in PyTorch's checkpoints are called.

Both directions read these tables: pickling writes the names, unpickling accepts them. Read next:
serialization/pickling.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.ops.op import FACES

STORAGES = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
STORAGE_OF = {kind: name for name, kind in STORAGES.items()}


class Name:
    """A global that a pickle mentions; whoever loads it decides what it stands for."""

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name

    def __call__(self) -> None:
        raise TypeError(f"{self.module}.{self.name} is only a name here")


REBUILD_TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
REBUILD_META = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
REBUILD_PARAMETER = Name("torch._utils", "_rebuild_parameter")
REBUILD_PARAMETER_WITH_STATE = Name("torch._utils", "_rebuild_parameter_with_state")
REBUILD_FROM_TYPE = Name("torch._tensor", "_rebuild_from_type_v2")
TENSOR = Name("torch", "Tensor")
SIZE = Name("torch", "Size")
DEVICE = Name("torch", "device")
DTYPE = {kind: Name("torch", kind.name) for kind in dtypes.ALL}
STORAGE = {kind: Name("torch", name) for kind, name in STORAGE_OF.items()}


def public_name(thing: Any) -> str:
    """The dotted name of a class or function, with our package called as PyTorch's is."""
    name = f"{thing.__module__}.{thing.__qualname__}"
    return "torch" + name.removeprefix("cleargrad") if name.startswith("cleargrad.") else name


def function_name(function: Any) -> Name | None:
    """The public name of one of our functions; None for functions of other people."""
    for face in FACES:
        if face.function is function:
            for space in face.spaces:
                return Name(f"torch.{space}".rstrip("."), face.name)
    return None
