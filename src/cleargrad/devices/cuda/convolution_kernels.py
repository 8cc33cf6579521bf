"""Triton kernels of convolutions: images with channels last, products of windows, and gradients of weights.

In: operands where they lie, and memory between the kernels. Out: what plans of devices/cuda/convolution.py
promise. Sizes, strides and tiles are constants, in elements; every sum has one order. This file is imported
only where a plan is made, since it needs Triton. Read next: devices/cuda/convolution.py.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def lay_channels_last(
    x, out,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    SN: tl.constexpr, SC: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr, PITCH: tl.constexpr,
    SPOTS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """x (N, C, H, W) as (N, HEIGHT, WIDTH, PITCH), from (TOP, LEFT) on, with zeros around and behind."""
    blocks: tl.constexpr = (HEIGHT * WIDTH + SPOTS - 1) // SPOTS
    image = tl.program_id(0) // blocks
    spot = tl.program_id(0) % blocks * SPOTS + tl.arange(0, SPOTS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    row, column = spot // WIDTH - TOP, spot % WIDTH - LEFT
    inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
    # Threads stand side by side along the image's rows when they read, and along channels when they write.
    place = image * SN + channel[:, None] * SC + (row * SH + column * SW)[None, :]
    value = tl.load(x + place, mask=(channel < C)[:, None] & inside[None, :], other=0.0)
    target = (image * (HEIGHT * WIDTH) + spot)[:, None] * PITCH + channel[None, :]
    tl.store(
        out + target, tl.trans(value), mask=(spot < HEIGHT * WIDTH)[:, None] & (channel < PITCH)[None, :]
    )


@triton.jit
def lay_weights(
    w, out,
    C: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
    SO: tl.constexpr, SC: tl.constexpr, SR: tl.constexpr, SS: tl.constexpr,
    PLACES: tl.constexpr, PITCH: tl.constexpr, TAPS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """w, an output's (C, R, S), as (R, PLACES, PITCH), with zeros behind taps and behind channels."""
    output = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    tap = tl.program_id(2) * TAPS + tl.arange(0, TAPS)
    r, s = tap // PLACES, tap % PLACES
    place = output * SO + channel[:, None] * SC + (r * SR + s * SS)[None, :]
    value = tl.load(w + place, mask=(channel < C)[:, None] & ((r < R) & (s < S))[None, :], other=0.0)
    target = (output * (R * PLACES) + tap)[:, None] * PITCH + channel[None, :]
    tl.store(out + target, tl.trans(value), mask=(tap < R * PLACES)[:, None] & (channel < PITCH)[None, :])


@triton.jit
def multiply_windows(
    x, w, bias, out,
    IMAGES: tl.constexpr, OUTPUTS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PITCH: tl.constexpr,
    R: tl.constexpr, S: tl.constexpr, CHANNELS: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr,
    SN: tl.constexpr, SO: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    CLASSES_H: tl.constexpr, CLASSES_W: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    FIRST_H: tl.constexpr, FIRST_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
    INVERSE_H: tl.constexpr, INVERSE_W: tl.constexpr, MOVE_H: tl.constexpr, MOVE_W: tl.constexpr,
    BIAS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, SPOTS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """A tile of results: outputs by places of images, summed over taps that reach the places, and channels.

    Places are h = CLASSES_H * a + class. Going forward there is one class; going back there are as many as
    the stride, and of a class only the taps r with (class + PAD_H - r * dilation) a multiple of the stride
    are walked: they are CLASSES_H apart, and begin with one that INVERSE_H (of the dilation) tells. What a
    tap sees lies MOVE_H further in the padded images, tap by tap.
    """
    A: tl.constexpr = (H + CLASSES_H - 1) // CLASSES_H
    B: tl.constexpr = (W + CLASSES_W - 1) // CLASSES_W
    PIECES: tl.constexpr = CHANNELS // STEP
    tiles: tl.constexpr = (OUTPUTS + ROWS - 1) // ROWS
    # Programs that run at one time share images, and what they write lies side by side.
    program = tl.program_id(0)
    output = program % tiles * ROWS + tl.arange(0, ROWS)
    kind = program // tiles % (CLASSES_H * CLASSES_W)
    class_h, class_w = kind // CLASSES_W, kind % CLASSES_W
    spot = program // (tiles * CLASSES_H * CLASSES_W) * SPOTS + tl.arange(0, SPOTS)
    known = tl.minimum(spot, IMAGES * A * B - 1)
    image, a, b = known // (A * B), known % (A * B) // B, known % B
    r0 = (class_h + PAD_H) * INVERSE_H % CLASSES_H
    s0 = (class_w + PAD_W) * INVERSE_W % CLASSES_W
    down, across = (R - r0 + CLASSES_H - 1) // CLASSES_H, (S - s0 + CLASSES_W - 1) // CLASSES_W
    # exact divisions; MOVE is minus the dilation where there are classes, and r0 is 0 where there are none
    row = a * STRIDE_H + FIRST_H + (class_h + PAD_H + r0 * MOVE_H) // CLASSES_H
    column = b * STRIDE_W + FIRST_W + (class_w + PAD_W + s0 * MOVE_W) // CLASSES_W
    part = tl.arange(0, STEP)
    # Places are kept as differences of 32 bits from an address that all threads share, to need few registers.
    seen = (((image * HEIGHT + row) * WIDTH + column) * PITCH)[:, None] + part[None, :]
    weights = (tl.minimum(output, OUTPUTS - 1) * (R * S * CHANNELS))[:, None] + part[None, :]

    total = tl.zeros((ROWS, SPOTS), dtype=tl.float32)
    for step in range(down * across * PIECES):
        tap, channel = step // PIECES, step % PIECES * STEP
        r, s = tap // across, tap % across
        values = tl.load((x + ((r * (MOVE_H * WIDTH) + s * MOVE_W) * PITCH + channel)) + seen)
        factors = tl.load(
            (w + (((r0 + r * CLASSES_H) * S + s0 + s * CLASSES_W) * CHANNELS + channel)) + weights
        )
        total = tl.dot(factors, tl.trans(values), total, input_precision=PRECISION)

    if BIAS:
        total += tl.load(bias + tl.minimum(output, OUTPUTS - 1)).to(tl.float32)[:, None]
    # All is computed anew, since nothing that is known across the loop is free.
    image = spot // (A * B)
    good = spot < IMAGES * A * B
    if CLASSES_H == 1 and CLASSES_W == 1 and SH == W * SW:
        there = spot % (A * B) * SW  # says more plainly that places lie side by side
    else:
        h, v = spot % (A * B) // B * CLASSES_H + class_h, spot % B * CLASSES_W + class_w
        there = h * SH + v * SW
        good = good & (h < H) & (v < W)
    target = output[:, None] * SO + (image * SN + there)[None, :]
    tl.store(out + target, total.to(out.dtype.element_ty), mask=(output < OUTPUTS)[:, None] & good[None, :])


@triton.jit
def multiply_gradients(
    g, x, out,
    SPOTS: tl.constexpr, OUTPUTS: tl.constexpr,
    P: tl.constexpr, Q: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, PITCH: tl.constexpr,
    R: tl.constexpr, S: tl.constexpr, CHANNELS: tl.constexpr, MOVE_H: tl.constexpr, MOVE_W: tl.constexpr,
    STEPS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """A piece of the sum over places of what outputs' gradients and images' taps and channels multiply to.

    g is (SPOTS, OUTPUTS), x (images, HEIGHT, WIDTH, PITCH), and a piece is STEPS tiles of STEP places.
    """
    ACROSS: tl.constexpr = R * S * CHANNELS
    tiles: tl.constexpr = (ACROSS + COLUMNS - 1) // COLUMNS
    piece = tl.program_id(1)
    output = tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)
    entry = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    r, s, channel = entry // (S * CHANNELS), entry // CHANNELS % S, entry % CHANNELS
    move = (r * (MOVE_H * WIDTH) + s * MOVE_W) * PITCH + channel
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for step in range(STEPS):
        spot = (piece * STEPS + step) * STEP + tl.arange(0, STEP)
        image, row, column = spot // (P * Q), spot % (P * Q) // Q * STRIDE_H, spot % Q * STRIDE_W
        place = ((image * HEIGHT + row) * WIDTH + column) * PITCH
        inside = spot < SPOTS
        slopes = tl.load(g + spot[:, None] * OUTPUTS + output[None, :], mask=inside[:, None], other=0.0)
        seen = (entry < ACROSS)[None, :] & inside[:, None]
        values = tl.load(x + place[:, None] + move[None, :], mask=seen, other=0.0)
        total = tl.dot(tl.trans(slopes), values, total, input_precision=PRECISION)
    target = (piece * OUTPUTS + output)[:, None] * (tiles * COLUMNS) + entry[None, :]
    tl.store(out + target, total)


@triton.jit
def add_pieces(
    parts, out,
    PIECES: tl.constexpr, APART: tl.constexpr, LINE: tl.constexpr,
    C: tl.constexpr, R: tl.constexpr, S: tl.constexpr, ROW: tl.constexpr, PITCH: tl.constexpr,
    SO: tl.constexpr, SC: tl.constexpr, SR: tl.constexpr, SS: tl.constexpr,
    TAPS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradient of weights (O, C, R, S): pieces (PIECES, O, LINE) added one after the other."""
    output = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    tap = tl.program_id(2) * TAPS + tl.arange(0, TAPS)
    r, s = tap // S, tap % S
    good = (tap < R * S)[:, None] & (channel < C)[None, :]
    place = parts + output * LINE + (r * ROW + s * PITCH)[:, None] + channel[None, :]
    total = tl.load(place, mask=good, other=0.0)
    for piece in tl.range(1, PIECES, loop_unroll_factor=8):  # so that several are read at one time
        total += tl.load(place + piece * APART, mask=good, other=0.0)
    target = out + output * SO + channel[:, None] * SC + (r * SR + s * SS)[None, :]
    tl.store(target, tl.trans(total).to(out.dtype.element_ty), mask=tl.trans(good))
