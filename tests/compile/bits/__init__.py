"""Fifty small training programs, each aimed at a place where the order of additions could differ."""

from tests.compile.bits import layers, products, reductions, training
from tests.compile.bits.common import PROGRAMS

__all__ = ["PROGRAMS", "layers", "products", "reductions", "training"]
