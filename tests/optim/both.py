"""Moving parameters, options and checkpoints between PyTorch and cleargrad."""

from __future__ import annotations

from typing import Any

import torch

import cleargrad as cg


def here(value: Any) -> Any:
    """PyTorch's tensors as cleargrad's, through lists, tuples and dicts."""
    return through(value, torch.Tensor, lambda x: cg.from_numpy(x.detach().numpy().copy()))


def there(value: Any) -> Any:
    """cleargrad's tensors as PyTorch's."""
    return through(value, cg.Tensor, lambda x: torch.from_numpy(x.detach().numpy().copy()))


def through(value: Any, kind: type, convert: Any) -> Any:
    if isinstance(value, kind):
        return convert(value)
    if isinstance(value, dict):
        return {key: through(part, kind, convert) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(through(part, kind, convert) for part in value)
    return value


def parameters(seed: int, *shapes: tuple, dtype: torch.dtype = torch.float32) -> tuple[list, list]:
    """The same parameters for both."""
    torch.manual_seed(seed)
    theirs = [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]
    ours = [here(p).requires_grad_() for p in theirs]
    return theirs, ours


def close(ours: Any, theirs: Any, rtol: float = 1e-4, atol: float = 1e-6) -> None:
    """Both hold the same keys and, to a tolerance, the same numbers."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            close(ours[key], theirs[key], rtol, atol)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            close(one, other, rtol, atol)
    elif isinstance(theirs, torch.Tensor) or isinstance(ours, cg.Tensor):
        one, other = torch.as_tensor(there(ours)), torch.as_tensor(theirs)
        if isinstance(theirs, torch.Tensor) and isinstance(ours, cg.Tensor):
            assert one.dtype == other.dtype and one.shape == other.shape
        torch.testing.assert_close(one, other.detach(), rtol=rtol, atol=atol, check_dtype=False)
    elif isinstance(theirs, float):
        torch.testing.assert_close(float(ours), theirs, rtol=rtol, atol=atol)
    else:
        assert ours == theirs
