"""Convolution, pooling, padding and resampling: what the op matrix cannot see."""

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.nn import functional as F


def ones(*shape):
    return cg.ones(shape)


@pytest.mark.parametrize(
    "image, weight, advice",
    [
        ((8, 28, 28, 1), (4, 1, 3, 3), "input.permute(0, 3, 1, 2)"),
        ((8, 28, 28), (4, 1, 3, 3), "input.unsqueeze(1)"),
        ((8, 28, 28), (4, 3, 3, 3), "(batch, channels, height, width)"),
        ((8, 5, 28, 28), (4, 3, 3, 3), "in_channels=5"),
        ((8, 784), (4, 1, 3, 3), "reshape the input to (batch, channels, height, width)"),
        ((8, 3, 4, 28, 28), (4, 3, 3, 3), "conv3d"),
    ],
)
def test_a_wrong_shape_says_what_to_do(image, weight, advice):
    with pytest.raises(RuntimeError) as failure:
        F.conv2d(ones(*image), ones(*weight))
    message = str(failure.value)
    assert message.startswith("conv2d: expected ")
    assert advice in message and str(image) in message


def test_a_wrong_dtype_says_how_to_convert():
    with pytest.raises(RuntimeError, match=r"input.to\(torch.float32\)"):
        F.conv2d(ones(1, 1, 4, 4).to(cg.uint8), ones(1, 1, 2, 2))


@pytest.mark.parametrize(
    "function, name",
    [
        (lambda x: F.conv2d(x, ones(2, 2, 3, 3), ones(2)), "ConvolutionBackward0"),
        (lambda x: F.conv_transpose2d(x, ones(2, 2, 3, 3)), "ConvolutionBackward0"),
        (lambda x: F.max_pool2d(x, 2), "MaxPool2DWithIndicesBackward0"),
        (lambda x: F.avg_pool2d(x, 2), "AvgPool2DBackward0"),
        (lambda x: F.adaptive_avg_pool2d(x, 3), "AdaptiveAvgPool2DBackward0"),
        (lambda x: F.adaptive_max_pool2d(x, 3), "AdaptiveMaxPool2DBackward0"),
        (lambda x: F.pad(x, (1, 1)), "ConstantPadNdBackward0"),
        (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), "ReflectionPad2DBackward0"),
        (lambda x: F.interpolate(x, 9), "UpsampleNearest2DBackward0"),
        (lambda x: F.interpolate(x, 9, mode="bilinear", antialias=True), "UpsampleBilinear2DAaBackward0"),
        (lambda x: F.grid_sample(x, cg.zeros(1, 2, 2, 2), align_corners=True), "GridSampler2DBackward0"),
        (lambda x: F.unfold(x, 2), "Im2ColBackward0"),
    ],
)
def test_nodes_have_the_names_of_pytorch(function, name):
    assert function(ones(1, 2, 8, 8).requires_grad_()).grad_fn.name() == name


def test_max_pooling_and_unpooling_are_partial_inverses():
    x = cg.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 6, 6)))
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    restored = F.max_unpool2d(values, indices, 2)
    again, _ = F.max_pool2d(cg.maximum(restored, cg.full_like(restored, -9)), 2, return_indices=True)
    assert restored.shape == x.shape
    assert (again >= values).all().item()
    assert ((restored == 0) | (restored == x)).all().item()


def test_maxima_are_the_same_with_and_without_a_gradient():
    x = cg.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 7, 7)))
    with cg.no_grad():
        quick = F.max_pool2d(x, 3, 2, 1)
    tracked = F.max_pool2d(x.requires_grad_(), 3, 2, 1)
    np.testing.assert_array_equal(quick.numpy(), tracked.detach().numpy())


def test_deprecated_names_and_unset_corners_warn():
    image = ones(1, 1, 2, 2)
    with pytest.warns(UserWarning, match="deprecated"):
        F.upsample(image, 4)
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.grid_sample(image, cg.zeros(1, 2, 2, 2))
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.affine_grid(ones(1, 2, 3), (1, 1, 2, 2))


def test_complex_convolution_and_its_gradients():
    generator = np.random.default_rng(0)

    def draw(*shape):
        return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)

    arrays = draw(2, 2, 5), draw(3, 2, 2), draw(3)
    ours = [cg.from_numpy(array).requires_grad_() for array in arrays]
    theirs = [torch.from_numpy(array).requires_grad_() for array in arrays]
    results = F.conv1d(*ours), torch.nn.functional.conv1d(*theirs)
    np.testing.assert_allclose(results[0].detach().numpy(), results[1].detach().numpy())
    weight = draw(*results[0].shape)
    results[0].backward(cg.from_numpy(weight))
    results[1].backward(torch.from_numpy(weight))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy())


def test_images_of_bytes_stay_bytes():
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 9, 7)).astype(np.uint8)
    ours = F.interpolate(cg.from_numpy(image), (5, 11), mode="bilinear", antialias=True)
    theirs = torch.nn.functional.interpolate(
        torch.from_numpy(image), (5, 11), mode="bilinear", antialias=True
    )
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
