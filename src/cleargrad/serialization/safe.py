"""safetensors files: a dict of names and tensors, nothing else.

Read next: amp/__init__.py.
"""

from __future__ import annotations

import os
from pickle import UnpicklingError
from typing import Any

import numpy as np

from cleargrad.core.dtype import OF_NUMPY
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.serialization.atomic import replacing


def is_safetensors(f: Any) -> bool:
    """Whether a path asks for this format by its ending."""
    return isinstance(f, (str, bytes, os.PathLike)) and os.fsdecode(f).endswith(".safetensors")


def save(obj: Any, path: Any) -> None:
    """Writes a dict of tensors; the file is replaced whole."""
    from safetensors.numpy import save as to_bytes

    if not isinstance(obj, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in obj.items()
    ):
        rule = "a .safetensors file holds a dict of names and tensors, nothing else"
        raise error(ValueError, "save", rule, given=type(obj).__name__, fix="use another ending, such as .pt")
    arrays = {key: np.ascontiguousarray(value._data) for key, value in obj.items()}
    with replacing(path) as stream:
        stream.write(to_bytes(arrays, {"format": "pt"}))


def load(path: Any) -> dict[str, Tensor]:
    """Reads a dict of tensors."""
    from safetensors import SafetensorError, safe_open

    tensors = {}
    try:
        with safe_open(os.fsdecode(path), "numpy") as file:
            for key in file.keys():  # noqa: SIM118 (the file is no mapping)
                array = file.get_tensor(key)
                if array.dtype not in OF_NUMPY:
                    rule = f"the tensor {key!r} has the dtype {array.dtype}, which cleargrad does not have"
                    raise error(RuntimeError, "load", rule)
                tensors[key] = wrap(array)
    except SafetensorError as failure:
        raise error(UnpicklingError, "load", f"not a valid safetensors file: {failure}") from failure
    return tensors
