"""torch.types: names for the types of arguments, for annotations. Read next: torch_names/version.py."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from cleargrad.core.device import device as _device
from cleargrad.core.dtype import dtype
from cleargrad.core.shape import Size as Size
from cleargrad.core.tensor import Tensor as Tensor

_dtype = dtype
_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_size = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
