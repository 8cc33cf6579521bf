"""Parts that are computed where the whole will lie, and products that become one.

The steps of a recurrent network are joined by cat, and their weight's gradient is a sum of one product a step. A
value that is only stored to be copied into a cat is stored at its place there; then the operands of such products
lie one after the other, and their sum is one product with a longer inner dimension. Read next: compile/fuse.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from cleargrad.compile.lazy import Formulas, Load
from cleargrad.ops.record import Graph, Value


@dataclass(frozen=True)
class Home:
    """Where a value lies in the one it is joined into, in elements from its begin."""

    whole: Value
    offset: int


def homes(graph: Graph, asked: set[int]) -> dict[int, Home]:
    """The values, by index, that can be computed where a cat wants them: each a piece without gaps."""
    made = {result.index for call in graph.calls for result in call.results}
    found: dict[int, Home] = {}
    for call in graph.calls:
        if call.op.name != "cat":
            continue
        (whole,) = call.results
        shape, dtype = whole.spec.shape, whole.spec.dtype
        dim = call.attrs["dim"] % max(len(shape), 1)
        if prod(shape[:dim]) != 1:
            continue
        offset = 0
        for part in call.operands:
            fits = part.spec.dtype == dtype and len(part.spec.shape) == len(shape)
            if fits and part.index in made and part.index not in asked and part.index not in found:
                found[part.index] = Home(whole, offset)
            offset += prod(part.spec.shape)
    return found


def join_sums(statements: list[Any], formulas: Formulas) -> list[Any]:
    """The statements, with products that are added to one place joined where their operands are neighbours."""
    chains: dict[Any, list[Any]] = {}
    for statement in statements:
        if is_product(statement):
            chains.setdefault(statement.place.buffer, []).append(statement)
    gone: set[int] = set()
    instead: dict[int, list[Any]] = {}
    for chain in chains.values():
        joined = joined_chain(chain, formulas)
        if len(joined) < len(chain):
            gone.update(map(id, chain))
            instead[id(chain[-1])] = joined
    found = []
    for statement in statements:
        found += instead.get(id(statement), [] if id(statement) in gone else [statement])
    return found


def is_product(statement: Any) -> bool:
    from cleargrad.compile.statements import Product

    return isinstance(statement, Product) and len(statement.place.shape) == 2


def joined_chain(chain: list[Any], formulas: Formulas) -> list[Any]:
    """Products that are added to the same place, as few as possible."""
    first, *others = chain
    place = described(first.place)
    if first.adds or not all(each.adds and described(each.place) == place for each in others):
        return chain
    found: list[Any] = []
    for product in sorted(chain, key=lambda each: (each.left.buffer.number, each.left.offset)):
        last = found[-1] if found else None
        if last is not None and follow(last, product):
            inner = last.left.shape[1] + product.left.shape[1]
            left = grown(formulas, last.left, (last.left.shape[0], inner))
            right = grown(formulas, last.right, (inner, last.right.shape[1]))
            found[-1] = type(product)(product.place, left, right, adds=True)
        else:
            found.append(type(product)(product.place, product.left, product.right, adds=True))
    found[0].adds = False
    return found


def described(load: Load) -> tuple:
    return load.buffer, load.shape, load.strides, load.offset, load.index


def grown(formulas: Formulas, load: Load, shape: tuple[int, int]) -> Load:
    return formulas.load(load.buffer, shape, load.strides, load.offset)


def follow(one: Any, other: Any) -> bool:
    """Whether the operands of a product lie in memory right behind those of another."""
    alike = all(
        a.buffer is b.buffer and a.strides == b.strides and not a.index and not b.index
        for a, b in ((one.left, other.left), (one.right, other.right))
    )
    inner = one.left.shape[1]
    return (
        alike
        and one.left.shape[0] == other.left.shape[0]
        and one.right.shape[1] == other.right.shape[1]
        and other.left.offset == one.left.offset + inner * one.left.strides[1]
        and other.right.offset == one.right.offset + inner * one.right.strides[0]
    )
