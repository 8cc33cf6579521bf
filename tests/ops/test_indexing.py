"""Indexing with brackets, compared with PyTorch by expression: values, shapes, memory, gradients, errors.

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

SHAPES = {
    "(4, 3)": (4, 3),
    "(2, 3, 4)": (2, 3, 4),
    "(5,)": (5,),
    "()": (),
    "(0, 3)": (0, 3),
    "(2, 1, 3, 2)": (2, 1, 3, 2),
}

ATOMS = [
    "0", "-1", "1", "7", "np.int64(1)", "np.int32(-1)", "T.tensor(1)", "T.tensor(-1, dtype=T.int32)", ":",
    "1:", ":-1", "::2", "-2:", "0:0", "5:9", "T.tensor(0):T.tensor(2)", "None", "...", "True", "False",
    "[0, 1]", "[0]", "[]", "[1, 1, 0]", "[[0, 1], [1, 0]]", "[True, False]", "[True, False, True]",
    "[True, False, True, True]", "(0, 1)", "T.tensor([0, -1, 0])", "T.tensor([[0, 1], [1, 1]])",
    "T.tensor([0, 1], dtype=T.int32)", "T.tensor([True, False, True])", "T.tensor([False, False])",
    "T.tensor(True)", "T.tensor(False)", "T.tensor([], dtype=T.int64)", "T.tensor([9])", "np.array([0, 1])",
    "np.array([True, False])", "np.array(1)", "range(2)",
]  # fmt: skip
WRONG = [
    "1.0", "1.5:2", "::-1", "::0", "T.tensor([0., 1.])", "T.tensor(1.)", "[0.5]",
    "T.tensor([0, 1], dtype=T.int8)", "T.tensor([0, 1], dtype=T.int16)", "{}", "object()", "1j", "..., ...",
    "[[0], [1, 2]]", "[None]", "[slice(0, 1)]", "T.tensor([-9])", "0, 0, 0, 0, 0, 0",
]  # fmt: skip
PAIRS = [
    "0", "-1", "1:", "::2", ":", "None", "...", "True", "[0, 1]", "[[0], [1]]", "[True, False]",
    "T.tensor(1)", "T.tensor([0, 1, 0])", "T.tensor([True, False, True])",
    "T.tensor([[True, False, True]] * 4)",
]  # fmt: skip
MORE = [
    "0, 1, 2", "0, :, 1", "[0, 1], :, [0, 1]", "[0, 1], 0, [0, 1]", ":, [0, 1], [1, 2]", ":, [0, 2], 1",
    "[1], :, [0, 1]", "0, :, [0, 1]", ":, 0, [0, 1]", "[0, 1], ..., [1, 1]", "..., [1, 1], None",
    "None, [0, 1], None, [1, 1]", "[0, 1], None, [0, 1]", "[0, 1], True",
    "T.tensor([[True, False, True], [False, True, True]])",
    "T.tensor([[True, False, True], [False, True, True]]), [1, 0, 2, 2]",
    "T.tensor([[True, False, True], [False, True, True]]), 1:3",
    "1, T.tensor([[True, False, True, True]] * 3)", "[0, 1], T.tensor([True, True, False])",
    "T.ones(2, 3, 4, dtype=T.bool)", "T.zeros(2, 3, 4, dtype=T.bool)", "T.zeros(4, 3, dtype=T.bool)",
    "T.ones(4, 3, dtype=T.bool)", "T.tensor([[0, 1], [1, 0]]), T.tensor([1, 2])", "[0, 1], [0, 1, 2]",
    "T.tensor(1), :, [0, 1]", ":, [0, 1], :, T.tensor(0)", ":, :, T.tensor([2, 0]), None, 0",
    "..., 0, :, [1, 0]", "1, 0, 2, 1", ":, T.tensor(0), [[2], [0]], [[1, 0]]", "T.tensor(True), 0",
    "False, [0, 1]", "None, None, 0", "::2, 1::2", "1:, ..., -1", "0, ...", "..., None",
    "None, ..., None, 0",
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
            [step for step, size in zip(result.stride(), result.shape, strict=True) if size > 1]
            if result.numel()
            else None,
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
            found.append(
                value.grad.tolist() if isinstance(value, module.Tensor) and value.grad is not None else None
            )
        return found

    return outcome(put)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("shape", SHAPES)
def test_set(shape: str, grad: bool) -> None:
    wrong = []
    for position, source in enumerate(EXPRESSIONS):
        # Every fifth value, another one for each expression: all combinations would take minutes.
        for name, make in itertools.islice(VALUES.items(), (position + grad) % 5, None, 5):
            ours = written(cg, SHAPES[shape], source, make, grad)
            theirs = written(torch, SHAPES[shape], source, make, grad)
            if ours != theirs:
                wrong.append(f"x[{source}] = {name}: {ours}, PyTorch gives {theirs}")
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong)


# What the brackets do beside their values -----------------------------------------------------------------


def test_augmented_assignment_reads_and_writes() -> None:
    for T in (cg, torch):
        x = T.arange(6.0).reshape(2, 3)
        x[0] += 10
        x[:, 1] *= 2
        x[T.tensor([1, 1])] += 1  # read, add, write: a repeated place is written, not added up
        assert x.tolist() == [[10, 22, 12], [4, 9, 6]]


def test_a_view_is_written_through() -> None:
    x = cg.zeros(2, 3)
    row = x[1]
    row[cg.tensor([0, 2])] = 5.0
    assert x.tolist() == [[0, 0, 0], [5, 0, 5]]
    assert x._version == row._version == 1


def test_uint8_masks_warn() -> None:
    mask = [1, 0, 1]
    for T in (cg, torch):
        with pytest.warns(UserWarning, match="uint8"):
            assert T.arange(3)[T.tensor(mask, dtype=T.uint8)].tolist() == [0, 2]


@pytest.mark.parametrize("source", ["x['a']", "x[[0, 'a']]"])
def test_strings_are_no_index(source: str) -> None:
    for T in (cg, torch):
        with pytest.raises(TypeError):
            evaluate(T, source, x=T.zeros(2, 2))


@pytest.mark.parametrize("value", [1.7, 300, -1, True, 1j, 2**70, 1e30, float("inf")])
@pytest.mark.parametrize("kind", ["uint8", "int64", "bool", "float16", "float32"])
def test_numbers_are_converted(kind: str, value: Any) -> None:
    def put(T: Any) -> Any:
        x = T.zeros(2, dtype=getattr(T, kind))
        x[0] = value
        return x.tolist()

    assert outcome(lambda: put(cg)) == outcome(lambda: put(torch))


def test_leaf_may_not_be_written() -> None:
    for T in (cg, torch):
        x = T.zeros(3, requires_grad=True)
        for index in (0, [0, 1], T.tensor([True, False, True])):
            with pytest.raises(RuntimeError, match="leaf"):
                x[index] = 1.0


# Recording -------------------------------------------------------------------------------------------------


def recorded(function: Any, *arrays: np.ndarray) -> list:
    with Recorder() as recorder:
        inputs = [recorder.input(cg.from_numpy(array)) for array in arrays]
        graph = recorder.finish([function(*inputs)])
    return replay(graph, arrays)[0].tolist()


def test_a_mask_is_no_index_while_recording() -> None:
    with pytest.raises(CaptureError):
        recorded(lambda x, m: x[m], np.arange(3.0), np.array([True, False, True]))
    with pytest.raises(CaptureError):
        recorded(lambda x, m: cg.nonzero(m), np.arange(3.0), np.array([True, False, True]))


def fill_masked(x: Any, mask: Any) -> Any:
    x = x * 1
    x[mask] = 9.0
    return x


def fill_masked_rows(x: Any, mask: Any) -> Any:
    x = x * 1
    x[:, mask] = 9.0
    return x


def read_place(x: Any, place: Any) -> Any:
    return x[:, [0, 1], :, place]


def write_place(x: Any, place: Any) -> Any:
    x = x * 1
    x[place] = 7.0
    return x


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (fill_masked, (np.arange(6.0).reshape(2, 3), np.array([[True, False, True], [False, True, True]]))),
        (fill_masked, (np.arange(6.0).reshape(2, 3), np.array([False, True]))),
        (fill_masked_rows, (np.arange(6.0).reshape(2, 3), np.array([False, True, True]))),
        (lambda x, m: x.masked_fill(m, 3), (np.arange(3.0), np.array([True, False, True]))),
        (lambda x, i: x[i], (np.arange(6.0).reshape(2, 3), np.array([1, 0, 1]))),
        (read_place, (np.arange(48.0).reshape(2, 3, 4, 2), np.array(1))),
        (write_place, (np.arange(6.0).reshape(2, 3), np.array(1))),
    ],
    ids=[
        "mask",
        "partial mask",
        "second dimension",
        "masked_fill",
        "gather",
        "number in a tensor",
        "write there",
    ],
)
def test_recorded_equals_eager(function: Any, arrays: tuple) -> None:
    expected = function(*[torch.from_numpy(array.copy()) for array in arrays]).tolist()
    assert function(*[cg.from_numpy(array.copy()) for array in arrays]).tolist() == expected
    assert recorded(function, *arrays) == expected


# Embeddings: gradients that are not derivatives, and the write in the forward -------------------------------


@pytest.mark.parametrize(
    "options", [{"padding_idx": 1}, {"padding_idx": -1, "scale_grad_by_freq": True}, {"sparse": False}]
)
@pytest.mark.parametrize("bag", [False, True])
def test_embedding_gradient(options: dict, bag: bool) -> None:
    found = []
    for T in (cg, torch):
        weight = T.tensor(np.arange(12.0).reshape(4, 3) / 7, requires_grad=True)
        indices = T.tensor([[0, 1, 3], [3, 3, 1]])
        function = T.nn.functional.embedding_bag if bag else T.nn.functional.embedding
        out = function(indices, weight, **options)
        (out * T.tensor(np.arange(1.0, 1 + out.numel()).reshape(tuple(out.shape)))).sum().backward()
        found.append((out.detach().numpy(), weight.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_max_norm_renormalises_in_place(norm_type: float) -> None:
    found = []
    for T in (cg, torch):
        weight = T.tensor(np.arange(12.0).reshape(4, 3), requires_grad=True)
        out = T.nn.functional.embedding(T.tensor([0, 2, 2]), weight, max_norm=2.0, norm_type=norm_type)
        found.append((out.detach().numpy(), weight.detach().numpy(), weight._version))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    assert found[0][2] > 0 and found[1][2] > 0
