"""Resampling kernels against PyTorch: interpolation along axes, sampling at points, and their adjoints."""

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cleargrad.devices.cpu.arrays import resample

FLOATS = [np.float32, np.float64]
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
TORCH_MODE = {
    "nearest": ("nearest", "nearest", "nearest"),
    "nearest-exact": ("nearest-exact", "nearest-exact", "nearest-exact"),
    "linear": ("linear", "bilinear", "trilinear"),
    "cubic": (None, "bicubic", None),
}
# input size, output size
SIZES = [
    ((7,), (16,)),
    ((9,), (4,)),
    ((1,), (5,)),
    ((7, 9), (13, 4)),
    ((33, 4), (1, 8)),
    ((2, 5), (40, 50)),
    ((3, 4, 5), (6, 2, 7)),
]
# what PyTorch offers: corners do not matter to the nearest entry, and cubic needs two dimensions
INTERPOLATIONS = [
    (mode, align_corners, in_size, out_size)
    for mode, names in TORCH_MODE.items()
    for align_corners in ((False,) if mode.startswith("nearest") else (False, True))
    for in_size, out_size in SIZES
    if names[len(in_size) - 1]
]


def sample(shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def interpolate(x, size, mode, align_corners=False, scales=None, antialias=False):
    for axis, out in enumerate(size, start=2):
        scale = scales[axis - 2] if scales else None
        taps = resample.axis_weights(x.shape[axis], out, mode, align_corners, scale, antialias, x.dtype)
        x = resample.resample_axis(x, axis, *taps)
    return x


def interpolate_adjoint(g, size, mode, align_corners=False, scales=None, antialias=False):
    for axis, n in enumerate(size, start=2):
        scale = scales[axis - 2] if scales else None
        taps = resample.axis_weights(n, g.shape[axis], mode, align_corners, scale, antialias, g.dtype)
        g = resample.resample_axis_adjoint(g, axis, *taps, n)
    return g


def check_interpolation(x, size, mode, align_corners, scales, antialias):
    tolerance = 2e-5 if x.dtype == np.float32 else 1e-12
    target = {"scale_factor": scales} if scales else {"size": size}
    corners = None if mode.startswith("nearest") else align_corners
    tx = torch.tensor(x, requires_grad=True)
    torch_mode = TORCH_MODE[mode][len(size) - 1]
    expected = F.interpolate(tx, mode=torch_mode, align_corners=corners, antialias=antialias, **target)
    settings = (mode, align_corners, scales, antialias)
    actual = interpolate(x, size, *settings)
    assert actual.dtype == x.dtype
    np.testing.assert_allclose(actual, expected.detach().numpy(), atol=tolerance)
    g = sample(actual.shape, x.dtype, seed=1)
    expected.backward(torch.tensor(g))
    gradient = interpolate_adjoint(g, x.shape[2:], *settings)
    np.testing.assert_allclose(gradient, tx.grad.numpy(), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode, align_corners, in_size, out_size", INTERPOLATIONS)
def test_interpolation_to_a_size(mode, align_corners, in_size, out_size, dtype):
    check_interpolation(sample((2, 3, *in_size), dtype), out_size, mode, align_corners, None, False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", TORCH_MODE)
@pytest.mark.parametrize("scales", [(0.6, 1.7), (2.0, 3.3), (1.0, 0.25)])
def test_interpolation_by_a_scale(scales, mode, dtype):
    in_size = (7, 9)
    size = tuple(int(n * scale) for n, scale in zip(in_size, scales))
    check_interpolation(sample((2, 3, *in_size), dtype), size, mode, False, scales, False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("in_size, out_size", [pair for pair in SIZES if len(pair[0]) == 2])
def test_antialias(in_size, out_size, mode, align_corners, dtype):
    check_interpolation(sample((2, 3, *in_size), dtype), out_size, mode, align_corners, None, True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_reads_the_same_entry_at_every_ratio(mode):
    for in_size in range(1, 40, 3):
        x = np.arange(in_size, dtype=np.float32).reshape(1, 1, -1)
        for out_size in range(1, 60):
            expected = F.interpolate(torch.tensor(x), out_size, mode=mode).numpy()
            np.testing.assert_array_equal(interpolate(x, (out_size,), mode), expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_rounds_once(dtype):
    x = sample((2, 3, 7)).astype(dtype)
    wide = x.astype(np.float32)
    result = interpolate(x, (12,), "linear")
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, interpolate(wide, (12,), "linear").astype(dtype))
    image = sample((2, 3, 5, 6)).astype(dtype)
    grid = sample((2, 4, 4, 2), seed=1).astype(dtype)
    sampled = resample.grid_sample(image, grid, (0, 0), "bilinear", "zeros", False)
    settings = (grid.astype(np.float32), (0, 0), "bilinear", "zeros", False)
    assert sampled.dtype == dtype
    np.testing.assert_array_equal(
        sampled, resample.grid_sample(image.astype(np.float32), *settings).astype(dtype)
    )


def test_non_contiguous_and_empty_arguments():
    x = sample((9, 8, 3, 2)).transpose()[:, :, ::-1]
    np.testing.assert_array_equal(interpolate(x, (5, 5), "linear"), interpolate(x.copy(), (5, 5), "linear"))
    grid = sample((2, 4, 3, 2), seed=1).transpose(3, 1, 2, 0)
    settings = (grid, (0, 0), "bilinear", "border", True)
    np.testing.assert_array_equal(
        resample.grid_sample(x, *settings), resample.grid_sample(x.copy(), *settings)
    )
    assert interpolate(np.zeros((0, 3, 4, 4)), (6, 2), "cubic").shape == (0, 3, 6, 2)
    empty = resample.grid_sample(
        np.zeros((0, 3, 4, 4)), np.zeros((0, 5, 6, 2)), (0, 0), "bilinear", "zeros", False
    )
    assert empty.shape == (0, 3, 5, 6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    "mode, size, points",
    [
        ("bilinear", (5, 7), (6, 3)),
        ("nearest", (5, 7), (6, 3)),
        ("bicubic", (5, 7), (6, 3)),
        ("bilinear", (1, 4), (5, 5)),
        ("bilinear", (5, 4, 6), (2, 3, 4)),
        ("nearest", (5, 4, 6), (2, 3, 4)),
    ],
)
def test_grid_sample(mode, size, points, padding_mode, align_corners, dtype):
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    x = sample((2, 3, *size), dtype)
    grid = np.random.default_rng(1).uniform(-2.5, 2.5, (2, *points, len(size))).astype(dtype)
    tx, tgrid = torch.tensor(x, requires_grad=True), torch.tensor(grid, requires_grad=True)
    settings = (mode, padding_mode, align_corners)
    expected = F.grid_sample(tx, tgrid, *settings)
    g = sample(expected.shape, dtype, seed=2)
    expected.backward(torch.tensor(g))
    value = (0,) * len(size)
    first_orders = [(*value[:i], 1, *value[i + 1 :]) for i in range(len(size))]
    slopes = [resample.grid_sample(x, grid, order, *settings) for order in first_orders]
    pairs = [
        (resample.grid_sample(x, grid, value, *settings), expected.detach()),
        (resample.grid_sample_adjoint(g, grid, size, value, *settings), tx.grad),
        (np.stack([(g * slope).sum(1) for slope in slopes], -1), tgrid.grad),
    ]
    for actual, reference in pairs:
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, reference.numpy(), rtol=tolerance, atol=tolerance)


def test_grid_sample_on_and_far_outside_the_edge():
    x = sample((1, 2, 4, 5), np.float32)
    places = np.array([-1, 1, 0, -1.2, 1.2, 3, -5, 1e4, np.inf, np.nan], np.float32)
    grid = np.stack(np.meshgrid(places, places), -1)[None]
    for mode in ("bilinear", "nearest"):
        for padding_mode in ("zeros", "border"):
            for align_corners in (False, True):
                settings = (mode, padding_mode, align_corners)
                expected = F.grid_sample(torch.tensor(x), torch.tensor(grid), *settings).numpy()
                np.testing.assert_allclose(
                    resample.grid_sample(x, grid, (0, 0), *settings), expected, atol=1e-5
                )


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(4, 5), (1, 3), (2, 4, 7)])
def test_affine_base_grid(size, align_corners):
    nd = len(size)
    identity = np.eye(nd, nd + 1, dtype=np.float32)[None]
    expected = F.affine_grid(torch.tensor(identity), (1, 1, *size), align_corners).numpy()
    base = resample.affine_base_grid(size, align_corners, np.float32)
    np.testing.assert_array_equal(base[..., :nd], expected[0])
    np.testing.assert_array_equal(base[..., nd], 1)
