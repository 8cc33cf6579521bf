"""Attention and its gradient: sizes and strides go in, one or two kernels with their arguments come out.

`forward` computes out = softmax(q kᵀ · scale + mask) v with each row's highest score and sum of exponentials;
`gradient` the gradients of q, k and v from those. Scores never lie in memory all at once. Words name the
operands as the kernels do. Read next: devices/cpu/programs/attention.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cleargrad.devices.cpu.kernels import attention_forward, attention_gradient
from cleargrad.devices.cpu.kernels.attention_tiles import AttentionConfig
from cleargrad.devices.cpu.kernels.gemm import ELEMENTS, LINE
from cleargrad.devices.cpu.launch import Launch, Launches
from cleargrad.devices.cpu.llvm.jit import Kernel, lanes, named, registers
from cleargrad.devices.cpu.llvm.text import SIZES
from cleargrad.devices.cpu.team import SCRATCH

NEAR = 16 << 10  # bytes of scores that stay in the first cache
FAR = 96 << 10  # bytes that the gradient works on for one block of keys: they stay in the second cache
MOST = 256  # keys in a block of the gradient
COPIED = 1 << 20  # bytes of keys and values that are copied at a time, at most
AHEAD = 128 << 10  # bytes of a head that may be asked for while another one is worked on
SHARED = 1 << 20  # multiply-adds of a head from which its keys are shared among threads
MANY = 16  # units that occupy the threads of most machines


@dataclass(frozen=True)
class AttentionSizes:
    """An attention: extents, and strides in elements (batch ..., row, column) of each operand by its name.

    Columns must be neighbours, but for those of a mask, whose last stride is from key to key.
    """

    batch: tuple[int, ...]
    rows: int
    keys: int
    width: int  # of queries and keys
    depth: int  # of values
    kind: str
    mask: str  # "none", "bool" or "float"
    causal: bool
    scale: float
    strides: Mapping[str, tuple[int, ...]]

    @property
    def heads(self) -> int:
        return prod(self.batch)

    def simplified(self) -> AttentionSizes:
        """With as few dimensions of the batch as possible, but for two that kernels always have."""
        batch: list[int] = []
        kept: list[int] = []
        for axis, extent in enumerate(self.batch):
            if extent == 1:
                continue
            if kept and all(s[kept[-1]] == s[axis] * extent for s in self.strides.values()):
                batch[-1] *= extent
                kept[-1] = axis
            else:
                batch.append(extent)
                kept.append(axis)
        less = max(2 - len(batch), 0)
        strides = {
            name: ((0,) * less + tuple(s[axis] for axis in kept) + s[-2:]) for name, s in self.strides.items()
        }
        return replace(self, batch=(1,) * less + tuple(batch), strides=strides)

    def config(self) -> AttentionConfig:
        element = ELEMENTS[self.kind]
        width = max(lanes() * 4 // SIZES[element], 1)
        order = "any"
        if self.mask != "none":
            row, key = self.strides["mask"][-2:]
            order = "keys" if row == 0 else "rows" if key == 1 else "any"
        # A factor that meets one vector is no instruction of its own with AVX-512, and a small panel looks at less.
        narrow = self.rows <= width or lanes() == 16
        return AttentionConfig(
            element=element, lanes=width, vectors=1 if narrow else 2,
            height=6 if registers() == 16 else 12, batches=len(self.batch), causal=self.causal,
            mask=self.mask, mask_order=order,
        )  # fmt: skip

    def copies(self) -> dict[str, int]:
        """Whether blocks of keys and values are copied, and how far apart rows of the copies are."""
        found: dict[str, int] = {}
        for name, columns in (("k", self.width), ("v", self.depth)):
            large = self.keys * columns * SIZES[ELEMENTS[self.kind]] > NEAR
            apart = large and self.strides[name][-2] != columns
            found |= {f"{name}_copied": int(apart), f"{name}_pitch": columns}
        return found

    def words(self) -> dict[str, Any]:
        """The arguments that all kernels have."""
        values: dict[str, Any] = {
            "rows": self.rows, "keys": self.keys, "width": self.width, "depth": self.depth,
            "scale": struct.unpack("<q", struct.pack("<d", self.scale))[0],
            "mask": 0, "mask_row": 0, "mask_key": 0,
        }  # fmt: skip
        for axis, extent in enumerate(self.batch):
            values |= {f"batch_{axis}": extent, f"mask_{axis}": 0}
        for name, strides in self.strides.items():
            values |= {name: (name, 0), f"{name}_row": strides[-2]}
            values |= {f"{name}_{axis}": step for axis, step in enumerate(strides[:-2])}
        if self.mask != "none":
            values["mask_key"] = self.strides["mask"][-1]
        size = (2 * self.rows + 2 * self.keys) * (self.width + self.depth) * SIZES[ELEMENTS[self.kind]]
        return values | {"peaks": ("peaks", 0), "totals": ("totals", 0), "ahead": int(size <= AHEAD)}


def upward(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def rooms(element: str, sizes: dict[str, int]) -> dict[str, int]:
    """Where parts of a thread's memory begin, in bytes, one behind the other; sizes are in elements."""
    places, end = {}, 0
    for name, size in sizes.items():
        places[name] = end
        end += upward(size * SIZES[element], LINE)
    assert end <= SCRATCH, end
    return places


def forward(sizes: AttentionSizes, threads: int = 1) -> Launches:
    """How to compute "out", "peaks" and "totals" from "q", "k", "v" and "mask"."""
    sizes = sizes.simplified()
    s = sizes.config()
    panels, pitch = -(-sizes.rows // s.panel), upward(sizes.depth, s.lanes)
    size = SIZES[s.element]
    block = min(NEAR // (s.panel * size), COPIED // ((sizes.width + sizes.depth) * size), sizes.keys)
    block = max(block, 1)
    group = next((n for n in (8, 4, 2) if sizes.heads * -(-panels // n) >= 4 * threads), 1)
    queries, sums = upward(sizes.width, s.lanes) * s.panel, pitch * s.panel
    values = sizes.words() | {
        "panels": panels, "block": block, "rows_pitch": pitch, "group": group, "groups": -(-panels // group),
        "queries_size": queries, "sums_size": sums, **sizes.copies(),
    }  # fmt: skip
    values |= rooms(s.element, {
        "queries_room": group * queries, "scores_room": block * s.panel, "sums_room": group * sums,
        "state_room": 2 * group * s.panel, "rows_room": pitch * s.panel,
        "k_room": block * sizes.width, "v_room": block * sizes.depth,
    })  # fmt: skip
    words = [values[name] for name in attention_forward.names(s.batches)]
    return Launches([Launch(forward_kernel(s), words, sizes.heads * values["groups"])], 0)


def gradient(sizes: AttentionSizes, threads: int = 1) -> Launches:
    """How to compute "dq", "dk" and "dv" from "g", "q", "k", "v", "mask", "out", "peaks" and "totals"."""
    del threads  # units are cut by what there is to do alone
    sizes = sizes.simplified()
    s = sizes.config()
    panels = -(-sizes.rows // s.panel)
    width_pitch, depth_pitch = upward(sizes.width, s.panel), upward(sizes.depth, s.panel)
    block, chunk = blocks(sizes, s, width_pitch + depth_pitch)
    chunks = -(-sizes.keys // chunk)
    s = replace(s, single=sizes.keys <= block)
    values = sizes.words() | {
        "heads": sizes.heads, "panels": panels, "block": block, "chunk": chunk, "chunks": chunks,
        "width_pitch": width_pitch, "depth_pitch": depth_pitch, "rows_pitch": width_pitch,
        "work": 0 if s.single else ("work", 0), **sizes.copies(),
    }  # fmt: skip
    values |= rooms(s.element, {
        "queries_room": width_pitch * s.panel, "grads_room": depth_pitch * s.panel,
        "q_rows_room": s.panel * width_pitch, "g_rows_room": s.panel * depth_pitch,
        "k_room": block * sizes.width, "v_room": block * sizes.depth,
        "scores_room": block * s.panel, "slopes_room": block * s.panel,
        "keys_room": block * width_pitch, "values_room": block * depth_pitch,
        "sums_room": width_pitch * s.panel, "rows_room": s.panel * width_pitch, "inner_room": s.panel,
    })  # fmt: skip
    words = [values[name] for name in attention_gradient.names(s.batches)]
    launches = [Launch(gradient_kernel(s), words, sizes.heads * chunks)]
    if s.single:
        return Launches(launches, 0)
    launches.append(Launch(collecting_kernel(s), words, sizes.heads * panels))
    return Launches(launches, chunks * sizes.heads * panels * sizes.width * s.panel * SIZES[s.element])


def blocks(sizes: AttentionSizes, s: AttentionConfig, pitches: int) -> tuple[int, int]:
    """Keys of a block and of a chunk, the blocks that one unit visits; both hold whole panels.

    Sums over chunks are added up at the end, so how many there are must not depend on the number of threads.
    """
    fits = FAR // ((pitches + 2 * s.panel) * SIZES[s.element])
    block = max(min(fits, MOST) // s.panel * s.panel, s.panel)
    chunks = 1
    if sizes.heads < MANY and sizes.rows * sizes.keys * sizes.width > SHARED:
        chunks = -(-MANY // sizes.heads)
    chunk = upward(-(-sizes.keys // chunks), s.panel)
    return min(block, chunk), upward(chunk, min(block, chunk))


@named
def forward_kernel(config: AttentionConfig) -> Kernel:
    return attention_forward.Forward(config).kernel()


@named
def gradient_kernel(config: AttentionConfig) -> Kernel:
    return attention_gradient.Gradient(config).kernel()


@named
def collecting_kernel(config: AttentionConfig) -> Kernel:
    return attention_gradient.collect(config)
