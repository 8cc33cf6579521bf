"""Charts of training runs and benchmarks: in a terminal, as an HTML page, and as PNG where matplotlib is
installed.

A chart is plain data, `Curves` or `Bars`; each file beside this one draws it in one form. Read next:
charts/in_terminal.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Curve:
    """One line of a chart. `colour` is a number: the same one is the same colour in every form."""

    name: str
    xs: list[float]
    ys: list[float]
    colour: int


@dataclass(frozen=True)
class Curves:
    """Curves over one axis."""

    title: str
    x_name: str
    curves: list[Curve]
    is_logarithmic: bool = False
    unit: str = ""  # behind the numbers of the y axis
    limits: tuple[float, float] | None = None  # of the y axis; by default those of the values


@dataclass(frozen=True)
class Bar:
    """A value with its spread."""

    name: str
    value: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True)
class Bars:
    """Groups of bars on one logarithmic axis, on which `mark` is where both sides are equal."""

    title: str
    groups: dict[str, list[Bar]] = field(default_factory=dict)
    mark: float = 1.0


def readable(value: float) -> str:
    """A number as people write it on an axis."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def last_value(value: float, unit: str) -> str:
    """The number behind a curve's name: percents with one digit behind the point, as sentences have them."""
    return f"{value:.1f}%" if unit == "%" else f"{readable(value)}{unit}"


def nice_ticks(low: float, high: float, is_logarithmic: bool) -> list[float]:
    """A few round numbers within a range."""
    if is_logarithmic:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        tens = [10.0**power for power in range(first, last + 1)]
        return tens if len(tens) > 1 else sorted({low, *tens, high})
    step = 10 ** math.floor(math.log10((high - low) or 1))
    while (high - low) / step < 3:
        step /= 2
    start = math.ceil(low / step - 1e-9)
    return [step * number for number in range(start, math.floor(high / step + 1e-9) + 1)]
