"""Attention on a GPU that never holds all scores: which of Triton's kernels run, on which tiles, and in what order.

Layouts of operands and results come in, kernels as they are written down go out, or None where other parts have to
do. Every sum has one order: a tile of queries looks at all keys for its own gradient, a tile of keys at all queries
for theirs.
Read next: devices/cuda/parts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

from cleargrad.devices.cuda.triton_code import Kernel, Layout, Written

HALVES = ("float16", "bfloat16")
KINDS = (*HALVES, "float32")
WIDEST = 128  # columns of queries and of values
NEAR = 1 << 24  # bytes of operands that programs side by side may go through, so that the cache keeps them
PREPARED = 64  # rows of a program that prepares the way back


@dataclass(frozen=True)
class Tiles:
    """How many queries and keys a program holds at a time, its warps, and how many tiles are on their way."""

    rows: int
    cols: int
    warps: int
    stages: int


# By the padded width, 32 at least. Nothing may be spilled, as tests see to. Where 8 warps ask for 128 registers or
# fewer, two programs share a processor: one's products run beside the other's exponentials.
FORWARD = {32: Tiles(128, 64, 8, 3), 64: Tiles(64, 64, 4, 3), 128: Tiles(128, 64, 8, 3)}
KEYS = {32: Tiles(64, 128, 8, 2), 64: Tiles(32, 64, 4, 3), 128: Tiles(32, 128, 8, 2)}
QUERIES = {32: Tiles(128, 64, 8, 2), 64: Tiles(128, 64, 8, 3), 128: Tiles(128, 64, 8, 2)}

# Threads make products of float32 number by number, which asks for many registers.
WHOLE_FORWARD = {32: Tiles(64, 32, 4, 2), 64: Tiles(64, 32, 8, 2), 128: Tiles(32, 64, 8, 2)}
WHOLE_KEYS = {32: Tiles(32, 32, 4, 2), 64: Tiles(32, 32, 8, 2), 128: Tiles(32, 32, 8, 2)}
WHOLE_QUERIES = {32: Tiles(32, 32, 4, 2), 64: Tiles(32, 32, 4, 2), 128: Tiles(32, 32, 4, 2)}


@dataclass
class Problem:
    """Attention with two dimensions in the lead: its extents, and what its kernels take as constants."""

    batches: int
    heads: int
    queries: int
    keys: int
    width: int  # of queries and keys
    depth: int  # of values
    dtype: str
    scale: float
    causal: bool
    mask: Layout | None
    mask_strides: tuple[int, ...] = (0, 0, 0, 0)

    @property
    def all_heads(self) -> int:
        return self.batches * self.heads

    @property
    def kind(self) -> str:
        if self.mask is None:
            return "none"
        return "bool" if self.mask.dtype == "bool" else "added"

    @property
    def exact(self) -> bool:
        """Whether the highest score is subtracted before scores are scaled for exp2."""
        return self.kind == "added" or self.scale <= 0

    @property
    def padded(self) -> tuple[int, int]:
        return padded(self.width), padded(self.depth)

    def tiles(self, halves: dict[int, Tiles], whole: dict[int, Tiles]) -> Tiles:
        table = halves if self.dtype in HALVES else whole
        return table[max(32, *self.padded)]

    def constants(self, tiles: Tiles, several: int) -> dict[str, Any]:
        """What all kernels but the one that prepares ask for; `several` tiles make up a head."""
        size = 2 if self.dtype in HALVES else 4
        of_a_head = size * (self.width + self.depth) * max(self.keys, self.queries)
        wide, deep = self.padded
        return {
            "HEADS": self.heads, "ALL_HEADS": self.all_heads, "TILES": several,
            "TOGETHER": min(self.all_heads, max(1, NEAR // of_a_head)),
            "QUERIES": self.queries, "KEYS": self.keys, "WIDTH": self.width, "DEPTH": self.depth,
            "ROWS": tiles.rows, "COLS": tiles.cols, "PADDED_WIDTH": wide, "PADDED_DEPTH": deep,
            "SCALE": self.scale, "CAUSAL": self.causal, "KIND": self.kind, "EXACT": self.exact,
        }  # fmt: skip


# Kernels -----------------------------------------------------------------------------------------------------


def attention(
    operands: Sequence[Layout | None], results: Sequence[Layout], attrs: dict[str, Any]
) -> Written | None:
    """out, peaks and totals from q, k, v and a mask or None."""
    q, k, v, mask = operands
    problem = problem_of(q, k, v, mask, attrs)
    if problem is None or not all(supported(x) for x in results):
        return None
    from cleargrad.devices.cuda import flash_kernels

    tiles = problem.tiles(FORWARD, WHOLE_FORWARD)
    named = {"q": q, "k": k, "v": v, "mask": mask}
    return Written([
        kernel_of(flash_kernels.attend, problem, tiles, -(-problem.queries // tiles.rows), {
            **{name: (("operand", place), x) for place, (name, x) in enumerate(named.items())},
            **{name: (("result", place), results[place]) for place, name in enumerate(("out", "peaks", "totals"))},
        })
    ])  # fmt: skip


def attention_gradient(
    operands: Sequence[Layout | None], results: Sequence[Layout], attrs: dict[str, Any]
) -> Written | None:
    """dq, dk and dv from g, q, k, v, a mask or None, and the results of attention."""
    g, q, k, v, mask, out, peaks, totals = operands
    problem = problem_of(q, k, v, mask, attrs)
    if problem is None or not all(supported(x) for x in (g, out, peaks, totals, *results)):
        return None
    from cleargrad.devices.cuda import flash_kernels

    by_keys = problem.tiles(KEYS, WHOLE_KEYS)
    by_queries = problem.tiles(QUERIES, WHOLE_QUERIES)
    unit = max(by_keys.rows, by_queries.rows, PREPARED)
    length = -(-problem.queries // unit) * unit
    row_bytes = 4 * problem.all_heads * length
    names = ("deltas", "shifts", "levels")[: 3 if problem.exact else 2]
    work = {name: (("work", place * row_bytes), "float32") for place, name in enumerate(names)}
    facts = {"LENGTH": length}
    names_in = ("g", "q", "k", "v", "mask", "out", "peaks", "totals")
    taken = {name: (("operand", place), x) for place, (name, x) in enumerate(zip(names_in, operands))}
    given = {name: (("result", place), results[place]) for place, name in enumerate(("dq", "dk", "dv"))}

    def some(*names: str) -> dict[str, tuple[tuple[str, int], Layout | None]]:
        return {name: (taken | given)[name] for name in names}

    kernels = [
        prepared(flash_kernels.prepare, problem, length, some("g", "out", "peaks", "totals"), work),
        kernel_of(
            flash_kernels.gradient_of_keys, problem, by_keys, -(-problem.keys // by_keys.cols),
            some("g", "q", "k", "v", "mask", "dk", "dv"), work, facts, turned=True,
        ),
        kernel_of(
            flash_kernels.gradient_of_queries, problem, by_queries, -(-problem.queries // by_queries.rows),
            some("g", "q", "k", "v", "mask", "dq"), work, facts,
        ),
    ]  # fmt: skip
    return Written(kernels, len(names) * row_bytes)


def kernel_of(
    function: Any,
    problem: Problem,
    tiles: Tiles,
    several: int,
    tensors: dict[str, tuple[tuple[str, int], Layout | None]],
    work: dict[str, tuple[tuple[str, int], str]] | None = None,
    facts: dict[str, Any] | None = None,
    turned: bool = False,
) -> Kernel:
    """A kernel over `several` tiles of every head; the mask's rows are keys where it is `turned`."""
    constants = problem.constants(tiles, several) | (facts or {})
    pointers = dict(work or {})
    for name, (word, layout) in tensors.items():
        if name == "mask":
            batch, head, row, col = problem.mask_strides
            constants["MASK"] = (batch, head, col, row) if turned else (batch, head, row, col)
        else:
            assert layout is not None
            constants[name.upper()] = strides_of(layout)
        if layout is not None:
            pointers[name] = (word, layout.dtype)
    return finished(function, pointers, constants, tiles.warps, tiles.stages, several * problem.all_heads)


def prepared(
    function: Any,
    problem: Problem,
    length: int,
    tensors: dict[str, tuple[tuple[str, int], Layout | None]],
    work: dict[str, tuple[tuple[str, int], str]],
) -> Kernel:
    """The kernel that computes what the way back needs of every row."""
    pointers = dict(work)
    constants: dict[str, Any] = {
        "HEADS": problem.heads, "QUERIES": problem.queries, "LENGTH": length, "DEPTH": problem.depth,
        "ROWS": PREPARED, "PADDED_DEPTH": problem.padded[1], "EXACT": problem.exact,
    }  # fmt: skip
    for name, (word, layout) in tensors.items():
        assert layout is not None
        constants[name.upper()] = strides_of(layout)
        pointers[name] = (word, layout.dtype)
    return finished(function, pointers, constants, 4, 1, length // PREPARED * problem.all_heads)


def finished(
    function: Any,
    pointers: dict[str, tuple[tuple[str, int], str]],
    constants: dict[str, Any],
    warps: int,
    stages: int,
    programs: int,
) -> Kernel:
    """What a kernel takes and there is none of is None, as a constant."""
    absent = {
        name: None for name in ("mask", "levels") if name in function.arg_names and name not in pointers
    }
    return Kernel(function, pointers, constants | absent, (programs, 1, 1), warps, stages)


# Layouts ---------------------------------------------------------------------------------------------------


def problem_of(
    q: Layout | None, k: Layout | None, v: Layout | None, mask: Layout | None, attrs: dict[str, Any]
) -> Problem | None:
    """What is computed, or None where there are no kernels for it."""
    if q is None or k is None or v is None or not q.dtype == k.dtype == v.dtype:
        return None
    *lead, queries, width = q.shape
    keys, depth = v.shape[-2:]
    scale = float(attrs["scale"])
    if not all(supported(x) for x in (q, k, v)) or max(width, depth) > WIDEST or not isfinite(scale):
        return None
    if k.shape != (*lead, keys, width) or v.shape != (*lead, keys, depth):
        return None
    batches, heads = (1, 1, *lead)[-2:]
    problem = Problem(
        batches, heads, queries, keys, width, depth, q.dtype, scale, bool(attrs["causal"]), mask
    )
    if mask is not None:
        strides = broadcast_strides(mask, (batches, heads, queries, keys))
        if strides is None or mask.dtype not in ("bool", *KINDS):
            return None
        problem.mask_strides = strides
    return problem


def supported(x: Layout | None) -> bool:
    return x is not None and x.dtype in KINDS and 2 <= len(x.shape) <= 4 and prod(x.shape) > 0


def strides_of(x: Layout) -> tuple[int, ...]:
    """The strides of four dimensions; one that holds a single element is never walked along."""
    strides = tuple(stride if extent > 1 else 0 for extent, stride in zip(x.shape[:-1], x.strides))
    return (0,) * (4 - len(x.shape)) + strides + x.strides[-1:]


def broadcast_strides(mask: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """A mask's strides over scores of a shape, zero where it repeats; None where it has another shape."""
    missing = len(shape) - len(mask.shape)
    if missing < 0:
        return None
    pairs = list(zip(mask.shape, mask.strides))
    if any(extent not in (1, whole) for (extent, _), whole in zip(pairs, shape[missing:])):
        return None
    return (0,) * missing + tuple(0 if extent == 1 else stride for extent, stride in pairs)


def padded(width: int) -> int:
    """The next power of two, 16 at least: what products of tiles are made for."""
    return max(16, 1 << (width - 1).bit_length())
