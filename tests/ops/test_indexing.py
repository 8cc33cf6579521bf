"""Indexing with brackets, compared with PyTorch expression by expression: values, shapes, memory, gradients, errors.

Each expression is Python source, evaluated once with our module and once with PyTorch's under the name `T`.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.ops.record import CaptureError, Recorder, replay

SHAPES = {"(4, 3)": (4, 3), "(2, 3, 4)": (2, 3, 4), "(5,)": (5,), "()": (), "(0, 3)": (0, 3), "(2, 1, 3, 2)": (2, 1, 3, 2)}

ATOMS = [
    "0", "-1", "1", "7", "np.int64(1)", "np.int32(-1)", "T.tensor(1)", "T.tensor(-1, dtype=T.int32)", ":", "1:", ":-1", "::2",
    "-2:", "0:0", "5:9", "T.tensor(0):T.tensor(2)", "None", "...", "True", "False", "[0, 1]", "[0]", "[]", "[1, 1, 0]",
    "[[0, 1], [1, 0]]", "[True, False]", "[True, False, True]", "[True, False, True, True]", "(0, 1)", "T.tensor([0, -1, 0])",
    "T.tensor([[0, 1], [1, 1]])", "T.tensor([0, 1], dtype=T.int32)", "T.tensor([True, False, True])", "T.tensor([False, False])",
    "T.tensor(True)", "T.tensor(False)", "T.tensor([], dtype=T.int64)", "T.tensor([9])", "np.array([0, 1])",
    "np.array([True, False])", "np.array(1)", "range(2)",
]  # fmt: skip
WRONG = [
    "1.0", "1.5:2", "::-1", "::0", "T.tensor([0., 1.])", "T.tensor(1.)", "[0.5]", "T.tensor([0, 1], dtype=T.int8)",
    "T.tensor([0, 1], dtype=T.int16)", "{}", "object()", "1j", "..., ...", "[[0], [1, 2]]", "[None]", "[slice(0, 1)]",
    "T.tensor([-9])", "0, 0, 0, 0, 0, 0",
]  # fmt: skip
PAIRS = [
    "0", "-1", "1:", "::2", ":", "None", "...", "True", "[0, 1]", "[[0], [1]]", "[True, False]", "T.tensor(1)",
    "T.tensor([0, 1, 0])", "T.tensor([True, False, True])", "T.tensor([[True, False, True]] * 4)",
]  # fmt: skip
MORE = [
    "0, 1, 2", "0, :, 1", "[0, 1], :, [0, 1]", "[0, 1], 0, [0, 1]", ":, [0, 1], [1, 2]", ":, [0, 2], 1", "[1], :, [0, 1]", "0, :, [0, 1]",
    ":, 0, [0, 1]", "[0, 1], ..., [1, 1]", "..., [1, 1], None", "None, [0, 1], None, [1, 1]", "[0, 1], None, [0, 1]", "[0, 1], True",
    "T.tensor([[True, False, True], [False, True, True]])", "T.tensor([[True, False, True], [False, True, True]]), [1, 0, 2, 2]",
    "T.tensor([[True, False, True], [False, True, True]]), 1:3", "1, T.tensor([[True, False, True, True]] * 3)", "[0, 1], T.tensor([True, True, False])",
    "T.ones(2, 3, 4, dtype=T.bool)", "T.zeros(2, 3, 4, dtype=T.bool)", "T.zeros(4, 3, dtype=T.bool)", "T.ones(4, 3, dtype=T.bool)",
    "T.tensor([[0, 1], [1, 0]]), T.tensor([1, 2])", "[0, 1], [0, 1, 2]", "T.tensor(1), :, [0, 1]", ":, [0, 1], :, T.tensor(0)",
    ":, :, T.tensor([2, 0]), None, 0", "..., 0, :, [1, 0]", "1, 0, 2, 1", ":, T.tensor(0), [[2], [0]], [[1, 0]]", "T.tensor(True), 0", "False, [0, 1]",
    "None, None, 0", "::2, 1::2", "1:, ..., -1", "0, ...", "..., None", "None, ..., None, 0",
]  # fmt: skip

EXPRESSIONS = ATOMS + WRONG + [f"{a}, {b}" for a, b in itertools.product(PAIRS, PAIRS)] + MORE


def evaluate(module: Any, source: str, **names: Any) -> Any:
    scope = {"T": module, "np": np, "index": _Index(), **names}
    return eval(source, scope)


class _Index:
    def __getitem__(self, key: Any) -> Any:
        return key


def outcome(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as failure:
            return type(failure)


def start(module: Any, shape: tuple[int, ...], grad: bool) -> Any:
    data = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    tensor = module.tensor(data)
    return tensor.requires_grad_(grad) if grad else tensor


def facts(module: Any, shape: tuple[int, ...], source: str) -> Any:
    """Everything a user could notice of x[index], as plain values."""

    def get() -> Any:
        leaf = start(module, shape, True)
        x = leaf * 1
        result = evaluate(module, f"x[{source}]", x=x)
        weights = module.tensor(np.arange(2.0, 2 + result.numel()).reshape(tuple(result.shape)))
        (result * weights).sum().backward()
        return (
            tuple(result.shape),
            result.tolist(),
            # The stride of a dimension of size one means nothing.
            [step for step, size in zip(result.stride(), result.shape, strict=True) if size > 1] if result.numel() else None,
            result.grad_fn.name(),
            shares(x, result),
            leaf.grad.tolist(),
        )

    return outcome(get)


def shares(x: Any, result: Any) -> bool:
    if not result.numel():
        return False
    before = result.detach().clone()
    x.detach().add_(1)
    changed = result.detach().tolist() != before.tolist()
    x.detach().add_(-1)
    return changed


@pytest.mark.parametrize("shape", SHAPES)
def test_get(shape: str) -> None:
    wrong = []
    for source in EXPRESSIONS:
        ours, theirs = facts(cg, SHAPES[shape], source), facts(torch, SHAPES[shape], source)
        if ours != theirs:
            wrong.append(f"x[{source}]: {ours}, PyTorch gives {theirs}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong)


VALUES = {
    "number": lambda T, place: 7.5,
    "whole number": lambda T, place: 3,
    "0-d": lambda T, place: T.tensor(2.5, dtype=T.float64),
    "full": lambda T, place: T.tensor(np.arange(0.5, 0.5 + np.prod(place)).reshape(place)),
    "leading ones": lambda T, place: T.tensor(np.arange(0.5, 0.5 + np.prod(place)).reshape((1, 1, *place))),
    "last row": lambda T, place: T.tensor(np.arange(0.5, 0.5 + np.prod(place[-1:])).reshape(place[-1:])),
    "one": lambda T, place: T.tensor([4.5], dtype=T.float64),
    "too long": lambda T, place: T.tensor(np.zeros((*place[:-1], 13))),
    "other dtype": lambda T, place: T.tensor(np.ones(place, np.float32)),
    "list": lambda T, place: [1.0],
    "array": lambda T, place: np.ones(place),
    "numpy number": lambda T, place: np.float32(1.5),
    "None": lambda T, place: None,
}


def written(module: Any, shape: tuple[int, ...], source: str, make: Any, grad: bool) -> Any:
    """The tensor after x[index] = value, and the gradients of it and of the value."""

    def put() -> Any:
        leaf = start(module, shape, grad)
        x = leaf * 1
        try:
            place = tuple(evaluate(torch, f"x[{source}]", x=start(torch, shape, False)).shape)
        except Exception:
            place = (2,)
        value = make(module, place)
        if grad and isinstance(value, module.Tensor):
            value.requires_grad_(True)
        x[evaluate(module, f"index[{source}]")] = value
        found = [x.tolist()]
        if grad:
            (x * module.tensor(np.arange(2.0, 2 + x.numel()).reshape(shape))).sum().backward()
            found.append(None if leaf.grad is None else leaf.grad.tolist())
            found.append(value.grad.tolist() if isinstance(value, module.Tensor) and value.grad is not None else None)
        return found

    return outcome(put)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_set(shape: str, grad: bool) -> None:
    wrong = []
    few = ATOMS + WRONG + MORE + EXPRESSIONS[len(ATOMS) + len(WRONG) : -len(MORE)][:: 3 if grad else 2]
    for source in few:
        for name, make in VALUES.items():
            ours = written(cg, SHAPES[shape], source, make, grad)
            theirs = written(torch, SHAPES[shape], source, make, grad)
            if ours != theirs:
                wrong.append(f"x[{source}] = {name}: {ours}, PyTorch gives {theirs}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong)
