"""Convolutions as products of matrices that are nowhere written down: which kernels make one, on which tiles.

In: the layouts of a call's operands and results. Out: its kernels, or None where devices/cuda/parts.py has the
way. Images are first laid out with channels last, so that every tap of a window sees channels side by side;
weights likewise. Where there are few channels, a row of taps is walked as one, as they lie side by side
too, and so do those that fill up the row: their weights are 0, which only shows where images have entries
that are not finite. Gradients of images are sums over the taps that reach a place, so they are made by the
same kernel; gradients of weights are added up in pieces, and pieces in their order. Read next:
devices/cuda/triton_code.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, gcd, prod

from cleargrad.devices.cuda.triton_code import Kernel, Layout, Written

PROCESSORS = 132
WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4}  # bytes of an element
REACH = 1 << 31  # elements that kernels can count
FEW = 8  # channels up to which a row of taps is walked as one
SIDE = 64  # places, or channels, of a tile that is turned
CHUNK = 16  # bytes that are best read at once
FILL = 4  # steps in whose time a program begins and ends
SHARED = 2048  # bytes that all processors together write or read in a clock


@dataclass
class Calls(Written):
    """The kernels of a convolution."""

    kind: str = "float32"  # of the operands
    precision: str = "ieee"  # of products of float32

    def room(self, elements: int, itemsize: int) -> tuple[str, int]:
        """Memory for so many elements."""
        first = self.work
        self.work += -(-elements * itemsize // 256) * 256
        return "work", first


@dataclass(frozen=True)
class Channels:
    """How channels lie, and how a row of a window's taps is walked: tap by tap, or all of them as one."""

    pitch: int  # elements from place to place
    taps: int  # of a row
    length: int  # elements of a tap
    step: int  # elements of it that are multiplied at once

    @property
    def places(self) -> int:
        """Places side by side that a row of taps sees, with those that only fill up."""
        return self.taps * self.length // self.pitch


@dataclass(frozen=True)
class Tile:
    rows: int
    columns: int
    warps: int
    stages: int


# 16 bits: at most 128 sums for a thread, and as many stages as let two programs of 4 warps share a processor.
NARROW = (Tile(64, 64, 4, 4), Tile(64, 128, 4, 4), Tile(64, 256, 4, 2), Tile(128, 64, 4, 4),
          Tile(128, 128, 4, 3), Tile(128, 256, 8, 4))  # fmt: skip
# where results are stored one by one, which takes registers: at most 64 sums
SCATTERED = (
    Tile(64, 64, 4, 4),
    Tile(64, 128, 4, 4),
    Tile(64, 256, 8, 3),
    Tile(128, 64, 4, 4),
    Tile(128, 128, 8, 4),
)
WIDE = (Tile(64, 64, 4, 3), Tile(64, 128, 4, 3), Tile(128, 64, 4, 3), Tile(128, 128, 8, 3))
EXACT = (Tile(32, 32, 4, 2), Tile(64, 64, 4, 2), Tile(64, 128, 8, 2))  # without tensor cores


# The three ops ---------------------------------------------------------------------------------------------


def convolution(operands: list, results: list, attrs: dict) -> Calls | None:
    found = begun([*operands, *results], attrs)
    if found is None:
        return None
    calls, (x, w, bias, out), (stride, padding, dilation) = found
    (outputs, _, *kernel), counts = w.shape, out.shape[2:]
    x, stride = thinned(x, kernel, stride, padding, counts)
    lie = channels_of(w.shape[1], kernel[1], stride[1], dilation[1], calls.kind)
    size = reach_of(counts, kernel, stride, dilation, lie)
    images = channels_last(calls, ("operand", 0), x, lie, size, padding)
    weights = laid_weights(calls, ("operand", 1), w, lie)
    forward = {
        "CLASSES": (1, 1), "STRIDE": stride, "FIRST": (0, 0), "PAD": (0, 0), "INVERSE": (1, 1),
        "MOVE": dilation,
    }  # fmt: skip
    add_windows(calls, images, weights, bias, out, outputs, kernel[0], lie, size, forward)
    return calls if counted(calls, x, w, out) else None


def convolution_adjoint_input(operands: list, results: list, attrs: dict) -> Calls | None:
    found = begun([*operands, *results], attrs)
    if found is None:
        return None
    calls, (g, w, bias, out), (stride, padding, dilation) = found
    if any(gcd(s, d) > 1 for s, d in zip(stride, dilation)):
        return None  # no inverse; only some of the classes have taps
    (inputs, outputs, *kernel), size = w.shape, out.shape[2:]
    lie = channels_of(inputs, kernel[1], stride[1], 0, calls.kind)
    first = tuple(max(0, -((p - (k - 1) * d) // s)) for p, k, d, s in zip(padding, kernel, dilation, stride))
    last = [-(-n // s) - 1 + (s - 1 + p) // s for n, s, p in zip(size, stride, padding)]
    area = (max(first[0] + last[0] + 1, 1), max(first[1] + last[1] + 1, 1))
    slopes = channels_last(calls, ("operand", 0), g, lie, area, first)
    turned = replace(
        w, shape=(outputs, inputs, *kernel), strides=(w.strides[1], w.strides[0], *w.strides[2:])
    )
    weights = laid_weights(calls, ("operand", 1), turned, lie)
    inverse = tuple(pow(d, -1, s) if s > 1 else 1 for d, s in zip(dilation, stride))
    back = {
        "CLASSES": stride, "STRIDE": (1, 1), "FIRST": first, "PAD": padding, "INVERSE": inverse,
        "MOVE": tuple(-d for d in dilation),
    }  # fmt: skip
    add_windows(calls, slopes, weights, bias, out, outputs, kernel[0], lie, area, back)
    return calls if counted(calls, g, w, out) else None


def convolution_adjoint_weight(operands: list, results: list, attrs: dict) -> Calls | None:
    from cleargrad.devices.cuda.convolution_kernels import add_pieces, multiply_gradients

    found = begun([*operands, None, *results], attrs)
    if found is None:
        return None
    calls, (g, x, _, out), (stride, padding, dilation) = found
    (outputs, inputs, *kernel), counts = out.shape, g.shape[2:]
    x, stride = thinned(x, kernel, stride, padding, counts)
    lie = channels_of(inputs, kernel[1], stride[1], dilation[1], calls.kind)
    size = reach_of(counts, kernel, stride, dilation, lie)
    images = channels_last(calls, ("operand", 1), x, lie, size, padding)
    spots, across = g.shape[0] * prod(counts), kernel[0] * lie.taps * lie.length
    step = 64 if WIDTHS[calls.kind] == 2 else 32
    tile, pieces, steps = best_pieces(tiles_of(calls), outputs, across, -(-spots // step))
    rows, columns = -(-outputs // tile.rows), -(-across // tile.columns)
    wide = Channels(rows * tile.rows, 1, rows * tile.rows, 1)
    slopes = channels_last(calls, ("operand", 0), g, wide, counts, (0, 0))
    line = columns * tile.columns
    parts = calls.room(pieces * wide.pitch * line, 4)
    constants = {
        "SPOTS": spots, "OUTPUTS": wide.pitch, "P": counts[0], "Q": counts[1], **two("STRIDE", stride),
        "HEIGHT": size[0], "WIDTH": size[1], "PITCH": lie.pitch, "R": kernel[0], "S": lie.taps,
        "CHANNELS": lie.length, **two("MOVE", dilation), "STEPS": steps, "PRECISION": calls.precision,
        "ROWS": tile.rows, "COLUMNS": tile.columns, "STEP": step,
    }  # fmt: skip
    pointers = {"g": (slopes, calls.kind), "x": (images, calls.kind), "out": (parts, "float32")}
    grid = (rows * columns, pieces, 1)
    calls.kernels.append(Kernel(multiply_gradients, pointers, constants, grid, tile.warps, tile.stages))
    taps, channels = sides(prod(kernel), inputs)
    constants = {
        "PIECES": pieces, "APART": wide.pitch * line, "LINE": line, "C": inputs, "R": kernel[0],
        "S": kernel[1], "ROW": lie.taps * lie.length, "PITCH": lie.pitch,
        **named("O C R S", out.strides), "TAPS": taps, "CHANNELS": channels,
    }  # fmt: skip
    grid = (outputs, -(-inputs // channels), -(-prod(kernel) // taps))
    pointers = {"parts": (parts, "float32"), "out": (("result", 0), calls.kind)}
    calls.kernels.append(Kernel(add_pieces, pointers, constants, grid))
    return calls if counted(calls, g, x, out) else None


def add_windows(
    calls: Calls, images: tuple, weights: tuple, bias: Layout | None, out: Layout, outputs: int, rows: int,
    lie: Channels, size: tuple, walk: dict[str, tuple],
) -> None:  # fmt: skip
    """The kernel that both ways share."""
    from cleargrad.devices.cuda.convolution_kernels import multiply_windows

    classes = walk["CLASSES"]
    spots = out.shape[0] * prod(-(-n // s) for n, s in zip(out.shape[2:], classes))
    together = prod(classes) == 1 and prod(out.shape[2:]) % 4 == 0 and out.strides[3] == 1
    tile = best_tile(tiles_of(calls, not together), outputs, spots, prod(classes))
    constants = {
        "IMAGES": out.shape[0], "OUTPUTS": outputs, "HEIGHT": size[0], "WIDTH": size[1], "PITCH": lie.pitch,
        "R": rows, "S": lie.taps, "CHANNELS": lie.length, "H": out.shape[2], "W": out.shape[3],
        **named("N O H W", out.strides),
        **{word: value for name, pair in walk.items() for word, value in two(name, pair).items()},
        "BIAS": bias is not None, "PRECISION": calls.precision, "ROWS": tile.rows, "SPOTS": tile.columns,
        "STEP": lie.step,
    }  # fmt: skip
    pointers = {
        "x": (images, calls.kind), "w": (weights, calls.kind),
        "bias": (("operand", 2), bias.dtype) if bias is not None else (weights, calls.kind),
        "out": (("result", 0), calls.kind),
    }  # fmt: skip
    grid = (-(-outputs // tile.rows) * prod(classes) * -(-spots // tile.columns), 1, 1)
    calls.kernels.append(Kernel(multiply_windows, pointers, constants, grid, tile.warps, tile.stages))


def begun(layouts: list, attrs: dict) -> tuple | None:
    """Layouts over two dimensions, and strides and the like for both; None for what has no kernels here."""
    kinds = {each.dtype for each in layouts if each is not None}
    rank = len(layouts[0].shape) - 2
    if len(kinds) != 1 or not kinds <= WIDTHS.keys() or attrs["groups"] != 1 or rank not in (1, 2):
        return None
    if any(0 in each.shape for each in layouts if each is not None):
        return None
    if layouts[2] is not None and layouts[2].strides != (1,):
        return None
    settings = [tuple(attrs[name]) for name in ("stride", "padding", "dilation")]
    if rank == 1:  # an image of one row
        layouts = [x if x is None or len(x.shape) == 1 else as_image(x) for x in layouts]
        settings = [(value, *pair) for value, pair in zip((1, 0, 1), settings)]
    return Calls([], 0, kinds.pop(), "tf32" if attrs["tf32"] else "ieee"), layouts, settings


def as_image(line: Layout) -> Layout:
    (n, c, w), (sn, sc, sw) = line.shape, line.strides
    return replace(line, shape=(n, c, 1, w), strides=(sn, sc, w * sw, sw))


def counted(calls: Calls, *layouts: Layout) -> bool:
    """Whether kernels can count all elements, and grids are not too large."""
    spans = [sum((n - 1) * abs(s) for n, s in zip(each.shape, each.strides)) for each in layouts]
    grids = all(call.grid[1] < 1 << 16 and call.grid[2] < 1 << 16 for call in calls.kernels)
    return max(spans) < REACH and calls.work < REACH * WIDTHS[calls.kind] and grids


# Layouts ---------------------------------------------------------------------------------------------------


def thinned(x: Layout, kernel: list, stride: tuple, padding: tuple, counts: tuple) -> tuple[Layout, tuple]:
    """Windows of a single place see only some of them: the rest is not looked at."""
    if prod(kernel) > 1 or any(padding):
        return x, stride
    steps = (*x.strides[:2], *(step * s for step, s in zip(x.strides[2:], stride)))
    return replace(x, shape=(*x.shape[:2], *counts), strides=steps), (1, 1)


def channels_of(channels: int, taps: int, stride: int, dilation: int, kind: str) -> Channels:
    """How images with so many channels are laid out for windows with so many taps in a row."""
    chunk = CHUNK // WIDTHS[kind]
    if channels <= FEW and taps > 1 and dilation == 1:
        pitch = 1
        while pitch < channels or pitch * stride % chunk:
            pitch *= 2
        length = max(-(-taps * pitch // 32) * 32, pitch)
        return Channels(pitch, 1, length, 32)
    # as many at once as do not add too many zeros
    for step in (64, 32) if WIDTHS[kind] == 2 else (32,):
        length = -(-channels // step) * step
        if 8 * length <= 9 * channels:
            return Channels(length, taps, length, step)
    length = -(-channels // 16) * 16
    return Channels(length, taps, length, 16)


def reach_of(counts: tuple, kernel: list, stride: tuple, dilation: tuple, lie: Channels) -> tuple[int, int]:
    """The extent of images, with what lies around them, that windows see."""
    taps = (kernel[0], lie.places if lie.taps == 1 else kernel[1])
    height, width = ((t - 1) * s + (k - 1) * d + 1 for t, s, k, d in zip(counts, stride, taps, dilation))
    return height, -(-width // stride[1]) * stride[1]  # rows begin where chunks do


def channels_last(
    calls: Calls, source: tuple, x: Layout, lie: Channels, size: tuple, before: tuple
) -> tuple[str, int]:
    """Images (N, C, H, W) laid out as (N, *size, pitch)."""
    from cleargrad.devices.cuda.convolution_kernels import lay_channels_last

    _, channels, height, width = x.shape
    target = calls.room(x.shape[0] * prod(size) * lie.pitch, WIDTHS[calls.kind])
    side = min(SIDE, 1 << (lie.pitch - 1).bit_length())
    spots = SIDE * SIDE // side if side < SIDE else SIDE
    spots = min(spots, 512)
    constants = {
        "C": channels, "H": height, "W": width, **named("N C H W", x.strides), "HEIGHT": size[0],
        "WIDTH": size[1], "TOP": before[0], "LEFT": before[1], "PITCH": lie.pitch, "SPOTS": spots,
        "CHANNELS": side,
    }  # fmt: skip
    grid = (x.shape[0] * -(-prod(size) // spots), -(-lie.pitch // side), 1)
    pointers = {"x": (source, calls.kind), "out": (target, calls.kind)}
    calls.kernels.append(Kernel(lay_channels_last, pointers, constants, grid))
    return target


def laid_weights(calls: Calls, source: tuple, w: Layout, lie: Channels) -> tuple[str, int]:
    """Weights (O, C, R, S) laid out as (O, R, taps with those that only fill up, pitch)."""
    from cleargrad.devices.cuda.convolution_kernels import lay_weights

    outputs, inputs, r, s = w.shape
    target = calls.room(outputs * r * lie.taps * lie.length, WIDTHS[calls.kind])
    taps, channels = sides(r * lie.places, lie.pitch)
    constants = {
        "C": inputs, "R": r, "S": s, **named("O C R S", w.strides), "PLACES": lie.places, "PITCH": lie.pitch,
        "TAPS": taps, "CHANNELS": channels,
    }  # fmt: skip
    grid = (outputs, -(-lie.pitch // channels), -(-r * lie.places // taps))
    pointers = {"w": (source, calls.kind), "out": (target, calls.kind)}
    calls.kernels.append(Kernel(lay_weights, pointers, constants, grid))
    return target


def sides(taps: int, channels: int) -> tuple[int, int]:
    """The sides of a tile of taps and channels that is turned."""
    side = min(64, 1 << (taps - 1).bit_length())
    return side, min(64, 1 << (channels - 1).bit_length())


def named(letters: str, values: tuple) -> dict[str, int]:
    return {f"S{letter}": value for letter, value in zip(letters.split(), values, strict=True)}


def two(name: str, pair: tuple) -> dict[str, int]:
    return {f"{name}_H": pair[0], f"{name}_W": pair[1]}


# Tiles -----------------------------------------------------------------------------------------------------


def tiles_of(calls: Calls, scattered: bool = False) -> tuple[Tile, ...]:
    if WIDTHS[calls.kind] == 2:
        return SCATTERED if scattered else NARROW
    return WIDE if calls.precision == "tf32" else EXACT


def rounds(tile: Tile, programs: int) -> int:
    """The clocks of a step, for the processor that has most to do: it multiplies tiles, or reads their sides.

    It multiplies 2048 pairs of 16 bits in a clock, and reads 16 of them, so a step of 64 is decided by
    reading unless tiles are very large. Four warps alone leave it waiting for a quarter of the time or so.
    Other dtypes take longer, in about the same proportion.
    """
    each = -(-programs // PROCESSORS)
    clocks = each * max(tile.rows * tile.columns // 32, 4 * (tile.rows + tile.columns))
    return clocks * 5 // 4 if each == 1 and tile.warps == 4 else clocks


def best_tile(tiles: tuple[Tile, ...], rows: int, columns: int, times: int) -> Tile:
    """The tile with which the processor that has most to do is done first; of equal ones the largest."""

    def cost(tile: Tile) -> tuple[int, int]:
        programs = -(-rows // tile.rows) * -(-columns // tile.columns) * times
        return rounds(tile, programs), -tile.rows * tile.columns

    return min(tiles, key=cost)


def best_pieces(tiles: tuple[Tile, ...], rows: int, columns: int, steps: int) -> tuple[Tile, int, int]:
    """A tile, how many pieces sums are cut into, and how many steps each of them has."""
    choices = []
    for tile in tiles:
        programs = -(-rows // tile.rows) * -(-columns // tile.columns)
        for pieces in range(1, min(steps, 4 * PROCESSORS) + 1):
            if pieces > 1 and programs * pieces > 8 * PROCESSORS:
                break
            each = ceil(steps / pieces)
            apart = 8 * pieces * programs * tile.rows * tile.columns // SHARED
            cost = rounds(tile, programs * pieces) * (each + FILL) + apart
            choices.append((cost, pieces, -tile.rows * tile.columns, tile, each))
    _, _, _, tile, each = min(choices, key=lambda choice: choice[:3])
    return tile, ceil(steps / each), each
