"""Data types that are stored but not computed with, the limits of types, and the old tensor types."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import cleargrad as cg
from tests.oracle import failure, same

STORED = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
OTHERS = ["bool", "uint8", "int64", "float16", "float32", "complex64"]
FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("name", STORED)
def test_stored_types(name: str) -> None:
    def run(T: Any) -> Any:
        kind = getattr(T, name)
        x = T.tensor([0.0, 1.0, 2.5, 200.0]).to(kind)
        facts = [
            str(kind),
            kind.is_signed,
            kind.is_floating_point,
            kind.itemsize,
            x.type(),
            repr(x),
            x.tolist(),
        ]
        moved = [
            T.cat([x, x])[1:],
            x.reshape(2, 2).t().contiguous(),
            x.clone().fill_(1),
            T.zeros(2, dtype=kind),
        ]
        same_values = [x == x, x.view(T.uint8).int()]
        refused = [
            failure(call)
            for call in (lambda: x + x, lambda: x + 1, lambda: -x, lambda: x.max(), lambda: x @ x[:2])
        ]
        return facts, [part.float() for part in moved], same_values, refused

    same(run)


@pytest.mark.parametrize("name", STORED)
def test_promotion_of_stored_types(name: str) -> None:
    def run(T: Any) -> Any:
        kinds = [getattr(T, other) for other in (*OTHERS, *STORED)]
        return [failure(lambda kind=kind: str(T.promote_types(getattr(T, name), kind))) for kind in kinds]

    same(run)


def test_float8_refuses_functions_and_sums() -> None:
    x = cg.ones(2).to(cg.float8_e4m3fn)
    for call in (x.exp, x.sum, x.neg):
        with pytest.raises(NotImplementedError, match=r"not implemented for torch\.float8_e4m3fn"):
            call()


def test_limits() -> None:
    def run(T: Any) -> Any:
        fields = ("bits", "max", "min", "eps", "tiny", "smallest_normal", "resolution", "dtype")
        floats = [T.finfo(getattr(T, name)) for name in FLOATS]
        integers = [T.iinfo(getattr(T, name)) for name in INTEGERS]
        numbers = [[getattr(info, field) for field in fields] for info in floats]
        numbers += [[info.bits, info.max, info.min, info.dtype] for info in integers]
        return numbers, [repr(info) for info in (*floats, *integers)]

    same(run, rtol=0, atol=0)


def test_old_tensor_types_are_classes() -> None:
    def run(T: Any) -> Any:
        kind, x = T.FloatTensor, T.ones(2)
        named = [str(kind | None), repr(kind), kind.__name__, kind.__module__]
        checks = [
            isinstance(kind, type),
            isinstance(x, kind),
            isinstance(x, T.LongTensor),
            isinstance(x, (kind, int)),
        ]
        return named, checks, kind([1, 2]), x.type(T.LongTensor), copy.deepcopy(kind) is kind

    same(run)
