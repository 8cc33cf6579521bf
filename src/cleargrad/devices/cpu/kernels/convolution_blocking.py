"""How convolutions are computed: sizes of tiles and blocks, units of work, and the words of each kernel.

A `Problem` is a sum of taps, of which convolutions and their gradients are made. `launches` chooses Winograd's way
where that pays, and `WeightBlocking` is the choice for the gradient in the weight. Read next:
devices/cpu/kernels/convolution.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cleargrad.devices.cpu.kernels import convolution_weight as weight
from cleargrad.devices.cpu.kernels import winograd
from cleargrad.devices.cpu.kernels.convolution_tiles import (
    NAMES,
    PACK_NAMES,
    TapConfig,
    TapSum,
    weight_packer,
)
from cleargrad.devices.cpu.kernels.windows import Axis, CopyLayout, TooLarge, known_step, with_tables
from cleargrad.devices.cpu.launch import Launch, Launches
from cleargrad.devices.cpu.llvm.jit import Kernel, lanes, named, registers
from cleargrad.devices.cpu.llvm.text import SIZES
from cleargrad.devices.cpu.team import SCRATCH

NEAR = 24 << 10  # bytes of the source that a tile reads: they should stay in the first cache
NEAR_ROWS = 160 << 10  # bytes of the source that a panel of the gradient meets: in the second cache
SUMS = 160 << 10  # bytes of sums of a block: in the second
LINE = 64


@dataclass(frozen=True)
class Problem:
    """Sums of taps: every group's `results` channels of the place come of its `channels` channels of the source."""

    samples: int
    groups: int
    channels: int
    results: int
    axes: tuple[Axis, Axis, Axis]
    place_size: tuple[int, int, int]
    weight: tuple[int, int, int]  # strides: group, result, channel
    taps: tuple[int, ...]  # where the weight of each tap lies
    element: str


@dataclass(frozen=True)
class Epilogue:
    """What is done to results: a bias added, relu, zeros where the operand "gate" is not above zero."""

    bias: bool = False
    relu: bool = False
    gate: bool = False


def contiguous(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def launches(problem: Problem, threads: int, epilogue: Epilogue, work: int = 0) -> Launches:
    """The kernels of a sum of taps, whose packed weights lie `work` bytes behind the begin of the work memory."""
    if problem.samples == 0 or problem.results == 0 or any(axis.count <= 0 for axis in problem.axes):
        return Launches([], 0)
    if suits_winograd(problem):
        return WinogradBlocking(problem, threads).launches(epilogue, work)
    return TapBlocking(problem, threads).launches(epilogue, work)


def tile_size(results: int, element: str) -> tuple[int, int]:
    """Channels and vectors of a tile: as many as registers hold, with few channels too much."""
    if registers() == 16:
        options = [(4, 3), (6, 2), (3, 3), (2, 5), (1, 6)]
    else:
        options = [(8, 3), (6, 4), (4, 6), (3, 6), (2, 6), (1, 6)]
    return min(options, key=lambda option: (-(-results // option[0]) * option[0], -option[0] * option[1]))


class TapBlocking:
    """A problem with everything decided."""

    def __init__(self, problem: Problem, threads: int) -> None:
        self.problem = problem
        size = SIZES[problem.element]
        self.size = size
        width = max(lanes() * 4 // size, 1)
        self.height, self.vectors = tile_size(problem.results, problem.element)
        self.width, self.across = width, width * self.vectors
        self.strips = -(-problem.results // self.height)
        self.taps = len(problem.taps)
        self.strips_each = self.strips
        self.layout = self.block(SUMS // size // (self.strips * self.height))
        self.spread_units(threads)
        near = max(1, sum(1 for _ in problem.axes[0].shifts) * len(problem.axes[1].shifts))
        line = -(-(self.across + problem.axes[2].reach) * size // LINE) + 1
        fitting = NEAR // (near * line * LINE)
        most = (SCRATCH - self.sums_bytes - 4096) // (self.layout.channel * size)
        if most < 1:
            raise TooLarge
        limit = max(1, min(fitting, most))
        blocks = -(-max(problem.channels, 1) // limit)
        self.channels_each = -(-max(problem.channels, 1) // blocks)
        self.channel_blocks = -(-problem.channels // self.channels_each)

    def block(self, cells: int) -> CopyLayout:
        """Blocks of at most so many cells, whole rows if possible, all of about the same size."""
        _, height, width = self.problem.axes
        cells = max(cells, self.across)
        pitch = width.count + width.reach
        if pitch > cells:
            columns = max(cells - width.reach, self.across)
            columns = -(-width.count // -(-width.count // columns))
            return CopyLayout(self.problem.axes, 1, columns)
        rows = min(cells // pitch, height.count)
        rows = -(-height.count // -(-height.count // rows))
        return CopyLayout(self.problem.axes, rows, width.count)

    def spread_units(self, threads: int) -> None:
        """Cuts strips, too, where samples and blocks are fewer than threads can share."""
        units = self.problem.samples * self.problem.groups * self.layout.blocks
        parts = 1
        while units * parts < 4 * threads and units * parts % threads and parts < self.strips:
            parts += 1
        self.strips_each = -(-self.strips // parts)

    @property
    def sums_pitch(self) -> int:
        cells = self.layout.cells(self.layout.rows)
        return (-(-cells // self.across) * self.across + 15) // 16 * 16

    @property
    def sums_bytes(self) -> int:
        return self.sums_pitch * self.strips_each * self.height * self.size

    @property
    def strip_blocks(self) -> int:
        return -(-self.strips // self.strips_each)

    @property
    def packed(self) -> int:
        """Elements of the packed weights."""
        p = self.problem
        return p.groups * self.strips * self.height * p.channels * self.taps

    def launches(self, epilogue: Epilogue, work: int) -> Launches:
        p = self.problem
        width = p.axes[2]
        config = TapConfig(
            element=p.element, lanes=self.width, height=self.height, vectors=self.vectors, single=self.taps == 1,
            step=known_step(width), together=width.spread == 1, bias=epilogue.bias, relu=epilogue.relu,
            gate=epilogue.gate,
        )  # fmt: skip
        found = []
        if self.packed:
            found.append(self.packing(work))
        units = p.samples * p.groups * self.strip_blocks * self.layout.blocks
        found.append(Launch(tap_sum(config), self.words(epilogue, work), units))
        return Launches(found, -(-self.packed * self.size // LINE) * LINE)

    def packing(self, work: int) -> Launch:
        p = self.problem
        values: dict[str, Any] = {
            "weight": ("weight", 0), "target": ("work", work), "strips": self.strips, "channels": p.channels,
            "results": p.results, "taps": self.taps, "weight_group": p.weight[0],
            "weight_result": p.weight[1], "weight_channel": p.weight[2],
        }  # fmt: skip
        words = with_tables(PACK_NAMES, values, {"tap_places": list(p.taps)})
        return Launch(packer(p.element, self.height), words, p.groups * self.strips)

    def words(self, epilogue: Epilogue, work: int) -> list[Any]:
        p, layout = self.problem, self.layout
        depth, height, width = p.axes
        source = contiguous([p.groups * p.channels, depth.size, height.size, width.size])
        place = contiguous([p.groups * p.results, *p.place_size])
        image = self.channels_each * layout.channel + self.across
        values: dict[str, Any] = {
            "source": ("source", 0), "weight": ("work", work), "bias": ("bias", 0) if epilogue.bias else 0,
            "gate": ("gate", 0) if epilogue.gate else 0,
            "place": ("place", 0), "groups": p.groups, "strips": self.strips, "strips_each": self.strips_each,
            "strip_blocks": self.strip_blocks, "channels": p.channels, "results": p.results,
            "channels_each": self.channels_each, "channel_blocks": self.channel_blocks, "taps": self.taps,
            "sums_room": -(-image * self.size // LINE) * LINE, "sums_pitch": self.sums_pitch,
            "source_batch": p.groups * p.channels * source[0], "source_channel": source[0],
            "source_z": source[1], "source_y": source[2],
            "place_batch": p.groups * p.results * place[0], "place_channel": place[0],
            "place_z": place[1] * depth.spread, "place_y": place[2] * height.spread, "place_x": width.spread,
            "place_first": sum(axis.first * step for axis, step in zip(p.axes, place[1:])),
            **layout.words(),
        }  # fmt: skip
        return with_tables(NAMES, values, layout.tables())


CELLS = 48  # tiles of a block, at most
MANY_CELLS = 144  # with vectors of 16 lanes, which come with large second caches
TURNED = 2 << 20  # bytes of turned tiles of a block, at most
PRODUCTS = 128 << 10  # bytes of sums of their products at a time
ENOUGH = 12  # channels and results: with fewer, turning costs more than it saves


def suits_winograd(problem: Problem) -> bool:
    """Whether a problem is 3 by 3 taps side by side, with channels enough."""
    depth, *plane = problem.axes
    flat = (depth.size, depth.count, depth.shifts, depth.before) == (1, 1, (0,), 0)
    close = all(sorted(a.shifts) == [0, 1, 2] and a.step == a.spread == 1 and a.first == 0 for a in plane)
    enough = min(problem.channels, problem.results) >= ENOUGH and plane[0].count * plane[1].count >= 9
    return problem.element == "float" and flat and close and enough


class WinogradBlocking:
    """A convolution by Winograd's way with everything decided."""

    def __init__(self, problem: Problem, threads: int) -> None:
        self.problem, self.size = problem, SIZES[problem.element]
        self.width = lanes()
        self.height, self.vectors = (4, 3) if registers() == 16 else (8, 3)
        self.strips = -(-problem.results // self.height)
        depth, *plane = problem.axes
        # A tile is two by two outputs, of which the last may be missing, and reads four by four entries.
        height, width = (replace(axis, shifts=(0, 1, 2, 3)) for axis in plane)
        tall, wide = (-(-axis.count // 2) for axis in plane)
        room = TURNED // (winograd.POINTS * problem.channels * self.size)
        most = max(min(MANY_CELLS if self.width == 16 else CELLS, room), self.width)
        rows, columns = 1, wide
        if wide > most:
            columns = -(-wide // -(-wide // most))
        else:
            rows = self.rows_of_a_block(tall, wide, most)
        self.layout = CopyLayout((depth, height, width), 2 * rows, 2 * columns)
        self.samples_each = 1
        if (rows, columns) == (tall, wide):
            fitting = max(1, most // (rows * columns))
            self.samples_each = max(1, min(fitting, problem.samples // threads))
        cells = rows * columns * self.samples_each
        self.pitch = (-(-cells // self.width) | 1) * self.width
        self.copied_each = max(1, min(problem.channels, NEAR // (self.layout.channel * self.size)))
        self.channels_each = min(problem.channels, 192)
        self.sample_blocks = -(-problem.samples // self.samples_each)
        units = self.sample_blocks * problem.groups * self.layout.blocks
        self.strip_parts = 1
        while units * self.strip_parts < 2 * threads and self.strip_parts < self.strips:
            self.strip_parts += 1
        self.strips_part = -(-self.strips // self.strip_parts)
        self.strip_parts = -(-self.strips // self.strips_part)
        strips = max(1, PRODUCTS // (winograd.POINTS * self.pitch * self.height * self.size))
        self.strips_each = -(-self.strips_part // -(-self.strips_part // strips))

    def rows_of_a_block(self, tall: int, wide: int, most: int) -> int:
        """As many rows of tiles as fill vectors best."""

        def vectors(rows: int) -> int:
            whole, rest = divmod(tall, rows)
            return whole * -(-rows * wide // self.width) + -(-rest * wide // self.width)

        return min(range(min(most // wide, tall), 0, -1), key=vectors)

    def launches(self, epilogue: Epilogue, work: int) -> Launches:
        p = self.problem
        config = TapConfig(
            element=p.element, lanes=self.width, height=self.height, vectors=self.vectors, single=True, step=1,
            together=True, bias=epilogue.bias, relu=epilogue.relu, gate=epilogue.gate,
        )  # fmt: skip
        step = (-(-p.groups * self.strips * p.channels * self.height // 16) | 1) * 16
        y, x = p.axes[1:]
        order = [p.taps[y.shifts.index(i) * 3 + x.shifts.index(j)] for i in range(3) for j in range(3)]
        values: dict[str, Any] = {
            "weight": ("weight", 0), "target": ("work", work), "strips": self.strips, "channels": p.channels,
            "results": p.results, "weight_group": p.weight[0], "weight_result": p.weight[1],
            "weight_channel": p.weight[2], "weight_step": step,
        }  # fmt: skip
        words = with_tables(winograd.PACK_NAMES, values, {"tap_places": order})
        packing = Launch(turned_packer(p.element, self.height), words, p.groups * self.strips)
        units = self.sample_blocks * p.groups * self.strip_parts * self.layout.blocks
        adding = Launch(winograd_sum(config), self.words(epilogue, work, step), units)
        return Launches([packing, adding], winograd.POINTS * step * self.size)

    def words(self, epilogue: Epilogue, work: int, weight_step: int) -> list[Any]:
        p, layout = self.problem, self.layout
        _, height, width = p.axes
        plane, place = height.size * width.size, height.count * width.count
        turned = (-(-p.channels * self.pitch // 16) | 1) * 16
        image = -(-(self.copied_each * layout.channel + 64) * self.size // LINE) * LINE
        sums = image + winograd.POINTS * turned * self.size
        sums_step = (-(-self.strips_each * self.height * self.pitch // 16) | 1) * 16
        if sums + winograd.POINTS * sums_step * self.size > SCRATCH:
            raise TooLarge
        values: dict[str, Any] = {
            "source": ("source", 0), "weight": ("work", work), "bias": ("bias", 0) if epilogue.bias else 0,
            "gate": ("gate", 0) if epilogue.gate else 0, "place": ("place", 0), "groups": p.groups,
            "strips": self.strips, "strips_each": self.strips_each, "strips_part": self.strips_part,
            "strip_parts": self.strip_parts, "samples": p.samples, "samples_each": self.samples_each,
            "channels": p.channels, "results": p.results, "channels_each": self.channels_each,
            "copied_each": self.copied_each, "taps": 1,
            "turned_room": image, "cells_pitch": self.pitch, "turned_step": turned,
            "sums_room": sums, "sums_pitch": self.pitch, "sums_step": sums_step,
            "weight_step": weight_step, "source_batch": p.groups * p.channels * plane,
            "source_channel": plane, "source_z": 0, "source_y": width.size,
            "place_batch": p.groups * p.results * place, "place_channel": place, "place_y": width.count,
            **layout.words(),
        }  # fmt: skip
        return with_tables(winograd.NAMES, values, layout.tables())


@named
def winograd_sum(config: TapConfig) -> Kernel:
    return winograd.Winograd(config).kernel()


@named
def turned_packer(element: str, height: int) -> Kernel:
    return winograd.weight_packer(element, height)


FEW = 4  # results of a group: with fewer of them, vectors of results would be mostly empty
OUTPUTS = 16 << 10  # bytes of a turned panel of the gradient: they should stay in the first cache
SHARES = 16 << 20  # bytes of sums that may be kept in several copies
MANY = 16  # units that occupy the threads of most machines
EACH = 1 << 22  # multiply-adds of a unit that are worth sums of their own


class WeightBlocking:
    """A gradient in the weight with everything decided."""

    def __init__(self, problem: Problem, threads: int) -> None:
        self.problem, self.size = problem, SIZES[problem.element]
        self.width = max(lanes() * 4 // self.size, 1)
        self.rows = problem.channels * len(problem.taps)
        self.turned = problem.results >= FEW
        self.height, self.vectors = self.tile_size() if self.turned else (8, 1)
        self.panel = self.width * self.vectors
        self.panels = -(-problem.results // self.panel)
        self.layout = self.block()
        self.jobs = problem.samples * self.layout.blocks
        self.share = problem.groups * self.rows * self.size
        self.share *= self.panels * self.panel if self.turned else problem.results * self.width
        outputs = problem.samples * prod(axis.count for axis in problem.axes)
        self.products = outputs * self.rows * problem.groups * problem.results
        self.spread_units(threads)
        room = SCRATCH - 4096 - (self.panels * self.panel_size * self.size if self.turned else 0)
        if room < self.layout.channel * self.size:
            raise TooLarge
        near = max(1, min(NEAR_ROWS, room) // (self.layout.channel * self.size))
        self.channels_each = max(1, min(problem.channels, near))

    def tile_size(self) -> tuple[int, int]:
        """Rows and vectors of a tile, with little too much of either."""
        options = [(6, 2), (5, 2), (4, 3), (8, 1)] if registers() == 16 else [(8, 3), (8, 2), (8, 1)]

        def cost(option: tuple[int, int]) -> float:
            height, vectors = option
            panel = vectors * self.width
            whole = -(-self.rows // height) * height * -(-self.problem.results // panel) * panel
            loads = (height + vectors) / (height * vectors)
            return whole * max(1.0, 1.1 * loads, 10 / (height * vectors))

        return min(options, key=cost)

    def block(self) -> CopyLayout:
        """Blocks whose turned gradient stays near: some whole rows, or a part of one."""
        _, height, width = self.problem.axes
        outputs = max(OUTPUTS // (self.size * self.panel), 32)
        if width.count > outputs:
            pieces = -(-width.count // outputs)
            return CopyLayout(self.problem.axes, 1, -(-width.count // pieces))
        rows = max(1, min(height.count, outputs // max(width.count, 1)))
        rows = -(-height.count // -(-height.count // rows)) if height.count else 1
        return CopyLayout(self.problem.axes, rows, max(width.count, 1))

    def spread_units(self, threads: int) -> None:
        """Cuts by groups, by outputs while copies of the sums are small, and by channels where units are few.

        Sums over parts of the outputs are added up at the end, so how many there are must not depend on the
        number of threads.
        """
        self.parts, most = 1, min(MANY // self.problem.groups, self.jobs, SHARES // max(self.share, 1))
        while 2 * self.parts <= most and self.products >= 2 * self.parts * EACH:
            self.parts *= 2
        self.channel_parts = 1
        if self.problem.groups * self.parts < threads:
            self.channel_parts = min(threads, self.problem.channels)
        self.channels_part = -(-self.problem.channels // self.channel_parts)
        self.channel_parts = -(-self.problem.channels // self.channels_part)

    @property
    def panel_size(self) -> int:
        outputs = self.layout.rows * self.layout.columns
        return -(-outputs // self.width) * self.width * self.panel

    def launches(self) -> Launches:
        p = self.problem
        config = weight.WeightConfig(
            element=p.element, lanes=self.width, height=self.height, vectors=self.vectors,
            step=known_step(p.axes[2]),
        )  # fmt: skip
        units = self.parts * p.groups * self.channel_parts
        add = Launch(weight_sum(config, self.turned), self.words(), units)
        values = {
            "sums": ("work", 0), "place": ("place", 0), "parts": self.parts if self.jobs else 0,
            "groups": p.groups, "results": p.results, "rows": self.rows, "panels": self.panels,
        }  # fmt: skip
        units = p.groups * (self.panels * self.vectors if self.turned else p.results * self.rows)
        join = Launch(weight_join(config, self.turned), [values[name] for name in weight.JOIN_NAMES], units)
        return Launches([add, join] if self.jobs else [join], self.parts * self.share)

    def words(self) -> list[Any]:
        p, layout = self.problem, self.layout
        depth, height, width = p.axes
        source = contiguous([p.groups * p.channels, depth.size, height.size, width.size])
        gradient = contiguous([p.groups * p.results, depth.count, height.count, width.count])
        room = (self.channels_each * layout.channel + self.width) * self.size
        values: dict[str, Any] = {
            "source": ("source", 0), "gradient": ("gradient", 0), "sums": ("work", 0), "groups": p.groups,
            "parts": self.parts, "jobs": self.jobs, "channel_parts": self.channel_parts,
            "channels": p.channels, "results": p.results, "channels_each": self.channels_each,
            "channels_part": self.channels_part, "taps": len(p.taps), "panels": self.panels,
            "panel_size": self.panel_size, "gradient_room": -(-room // LINE) * LINE,
            "source_batch": p.groups * p.channels * source[0], "source_channel": source[0],
            "source_z": source[1], "source_y": source[2],
            "gradient_batch": p.groups * p.results * gradient[0], "gradient_channel": gradient[0],
            "gradient_z": gradient[1], "gradient_y": gradient[2],
            **layout.words(),
        }  # fmt: skip
        return with_tables(weight.NAMES, values, layout.tables())


@named
def weight_sum(config: weight.WeightConfig, turned: bool) -> Kernel:
    return (weight.ByResults if turned else weight.ByOutputs)(config).kernel()


@named
def weight_join(config: weight.WeightConfig, turned: bool) -> Kernel:
    return (weight.join_results if turned else weight.join_outputs)(config)


@named
def tap_sum(config: TapConfig) -> Kernel:
    return TapSum(config).kernel()


@named
def packer(element: str, height: int) -> Kernel:
    return weight_packer(element, height)
