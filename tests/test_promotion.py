"""Result dtypes, for every pair of dtypes and every mixture of tensors, 0-d tensors and numbers."""

from __future__ import annotations

import itertools

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

NAMES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
NUMBERS = (True, 3, 1.5, 2j)


def operands(T):
    """Every dtype with a dimension and without, and Python's numbers."""
    for name in NAMES:
        kind = getattr(T, name)
        yield name, T.ones(2, dtype=kind)
        yield f"0-d {name}", T.ones((), dtype=kind)
    for number in NUMBERS:
        yield repr(number), number


def all_pairs(T):
    return [
        (f"{left}, {right}", x, y)
        for (left, x), (right, y) in itertools.product(operands(T), operands(T))
        if not (isinstance(x, (bool, int, float, complex)) and isinstance(y, (bool, int, float, complex)))
    ]


# There is no complex32 here: half-precision tensors with complex numbers of lower rank become complex64.
WITHOUT_TWIN = {name for name, x, y in all_pairs(torch) if torch.result_type(x, y) is torch.complex32}


def pairs(T):
    return [each for each in all_pairs(T) if each[0] not in WITHOUT_TWIN]


def test_result_type():
    def run(T):
        return {name: T.result_type(x, y) for name, x, y in pairs(T)}

    assert len(same(run)) == 28 * 28 - 16 - len(WITHOUT_TWIN)


def test_half_precision_with_complex_numbers():
    half, brain = cg.ones(2, dtype=cg.float16), cg.ones(2, dtype=cg.bfloat16)
    for complex_number in (2j, cg.tensor(2j), cg.tensor(2j, dtype=cg.complex128)):
        assert (half * complex_number).dtype is cg.complex64
    assert (brain * 2j).dtype is cg.complex64


def test_result_type_of_numbers():
    def run(T):
        return [T.result_type(x, y) for x in NUMBERS for y in NUMBERS], failure(
            lambda: T.result_type(T.ones(1), "a")
        )

    same(run)


def test_promote_types_and_can_cast():
    def run(T):
        kinds = [getattr(T, name) for name in NAMES]
        return [(T.promote_types(a, b), T.can_cast(a, b)) for a in kinds for b in kinds]

    same(run)


OPS = {
    "add": lambda T, x, y: T.add(x, y) if hasattr(x, "dtype") else x + y,
    "sub": lambda T, x, y: x - y,
    "mul": lambda T, x, y: x * y,
    "div": lambda T, x, y: x / y,
    "floor_divide": lambda T, x, y: x // y,
    "remainder": lambda T, x, y: x % y,
    "pow": lambda T, x, y: x**y,
    "eq": lambda T, x, y: x == y,
    "lt": lambda T, x, y: x < y,
    "where": lambda T, x, y: T.where(T.tensor([True, False]), x, y),
    "maximum": lambda T, x, y: T.maximum(x, y) if hasattr(x, "dtype") and hasattr(y, "dtype") else None,
    "bitwise_and": lambda T, x, y: x & y,
    "atan2": lambda T, x, y: T.atan2(x, y) if hasattr(x, "dtype") and hasattr(y, "dtype") else None,
    "logical_and": lambda T, x, y: (
        T.logical_and(x, y) if hasattr(x, "dtype") and hasattr(y, "dtype") else None
    ),
}


@pytest.mark.parametrize("op", OPS)
def test_result_dtypes(op):
    """The dtype of the result, or the type of the refusal."""

    def run(T):
        found = {}
        for name, x, y in pairs(T):
            if op == "pow" and name.endswith("bool, True"):
                continue  # PyTorch takes the exponent 1 for "unchanged" before it looks at dtypes
            result = failure(lambda x=x, y=y: OPS[op](T, x, y))
            found[name] = result.dtype if hasattr(result, "dtype") else result
        return found

    same(run)


@pytest.mark.parametrize("op", ["add_", "mul_", "div_", "copy_", "pow_"])
def test_in_place_dtypes(op):
    """Which operands a tensor takes in place; its own dtype never changes."""

    def run(T):
        found = {}
        for name, x, y in pairs(T):
            if op == "pow_" and name.endswith("bool, True"):
                continue
            if (
                hasattr(x, "dtype")
                and (op != "copy_" or hasattr(y, "dtype"))
                and x.ndim >= getattr(y, "ndim", 0)
            ):
                x = x.clone()
                outcome = failure(lambda x=x, y=y: getattr(x, op)(y))
                found[name] = outcome.dtype if hasattr(outcome, "dtype") else outcome
        return found

    same(run)


@pytest.fixture
def restored_default():
    yield
    cg.set_default_dtype(cg.float32)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_the_default_dtype(name, restored_default):
    def run(T):
        T.set_default_dtype(getattr(T, name))
        ints = T.arange(3)
        return (
            T.get_default_dtype(),
            T.tensor(1.5).dtype,
            T.tensor([1.5]).dtype,
            T.ones(1).dtype,
            (ints / 2).dtype,
            (ints * 1.5).dtype,
            T.result_type(ints, 1.5),
            ints.float().dtype,
            T.arange(0, 1, 0.5).dtype,
            T.linspace(0, 1, 2).dtype,
            T.tensor(1).dtype,
            T.sqrt(ints).dtype,
            T.full((1,), 1.5).dtype,
            T.rand(1).dtype,
            T.eye(2).dtype,
        )

    same(run)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_complex_numbers_follow_the_default_dtype(name, restored_default):
    def run(T):
        T.set_default_dtype(getattr(T, name))
        return T.tensor(1j).dtype, (T.arange(3) * 1j).dtype, T.result_type(T.ones(2), 1j)

    same(run)


def test_the_default_dtype_refuses_others(restored_default):
    def run(T):
        return [
            failure(lambda kind=kind: T.set_default_dtype(kind))
            for kind in (T.int32, T.bool, T.complex64, "x", None)
        ]

    same(run)
