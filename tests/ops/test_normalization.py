"""What the matrix cannot see of norms, dropout and attention: running statistics, blocks, in-place forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import cleargrad as cg
import cleargrad.nn.functional as F


def pair(*shape: int, seed: int = 0, grad: bool = False, dtype: str = "float32") -> tuple:
    """The same random tensor in both libraries."""
    data = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    ours, theirs = cg.from_numpy(data.copy()), torch.from_numpy(data.copy())
    return ours.requires_grad_(grad), theirs.requires_grad_(grad)


def agree(ours, theirs, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_running_statistics(norm: str, training: bool) -> None:
    x, tx = pair(4, 3, 5, grad=True)
    weight, tweight = pair(3, seed=1, grad=True)
    bias, tbias = pair(3, seed=2, grad=True)
    running = (cg.zeros(3), cg.ones(3))
    trunning = (torch.zeros(3), torch.ones(3))
    for _ in range(2):
        out = getattr(F, norm)(x, *running, weight, bias, training, 0.3)
        tout = getattr(TF, norm)(tx, *trunning, tweight, tbias, training, 0.3)
    agree(out, tout)
    for a, b in zip(running, trunning, strict=True):
        agree(a, b)
        assert not a.requires_grad
    (out * out).sum().backward()
    (tout * tout).sum().backward()
    for a, b in ((x, tx), (weight, tweight), (bias, tbias)):
        agree(a.grad, b.grad)


def test_batch_norm_with_running_statistics_twice_differentiable() -> None:
    x, tx = pair(4, 3, grad=True, dtype="float64")
    weight, tweight = pair(3, seed=1, grad=True, dtype="float64")
    grads = []
    for library, functional, a, w in ((cg, F, x, weight), (torch, TF, tx, tweight)):
        mean, variance = library.zeros(3, dtype=library.float64), library.ones(3, dtype=library.float64)
        out = functional.batch_norm(a, mean, variance, w)
        (first,) = library.autograd.grad((out**3).sum(), a, create_graph=True)
        grads.append(library.autograd.grad((first**2).sum(), (a, w)))
    for a, b in zip(*grads, strict=True):
        agree(a, b, 1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x, w, b: f.layer_norm(x, (600,), w, b),
        lambda f, x, w, b: f.rms_norm(x, (600,), w),
        lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True),
        lambda f, x, w, b: f.group_norm(x, 6, w, b),
        lambda f, x, w, b: f.layer_norm(x.reshape(75, 10, 400), (10, 400)),
    ],
)
def test_many_blocks(call) -> None:
    """Inputs larger than a block, far from zero."""
    x, tx = pair(500, 600)
    x, tx = (x + 3).requires_grad_(), (tx + 3).requires_grad_()
    weight, tweight = pair(600, seed=1, grad=True)
    bias, tbias = pair(600, seed=2, grad=True)
    out, tout = call(F, x, weight, bias), call(TF, tx, tweight, tbias)
    agree(out, tout, 1e-4)
    (out * out * out).sum().backward()
    (tout * tout * tout).sum().backward()
    for a, b in ((x, tx), (weight, tweight), (bias, tbias)):
        if b.grad is not None:
            scale = float(b.grad.abs().max())
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=2e-4 * scale)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_inputs_beside_float_weights(kind: str) -> None:
    _, tx = pair(3, 4)
    weight, tweight = pair(4, seed=1, grad=True)
    half = tx.to(getattr(torch, kind))
    x = cg.tensor(half.float().numpy()).to(getattr(cg, kind)).requires_grad_()
    half.requires_grad_()
    out, tout = F.layer_norm(x, (4,), weight), TF.layer_norm(half, (4,), tweight)
    assert str(out.dtype) == str(tout.dtype) == f"torch.{kind}"
    agree(out.float(), tout.float(), 1e-2)
    out.sum().backward()
    tout.sum().backward()
    assert weight.grad.dtype is cg.float32 and x.grad.dtype is out.dtype
    agree(weight.grad, tweight.grad, 1e-2)


def test_names_of_nodes() -> None:
    x = cg.randn(2, 4, 3, requires_grad=True)
    outs = [
        F.layer_norm(x, (3,)),
        F.group_norm(x, 2),
        F.batch_norm(x, None, None, training=True),
        F.dropout(x),
    ]
    names = [type(out.grad_fn).__name__ for out in outs]
    expected = [
        "NativeLayerNormBackward0",
        "NativeGroupNormBackward0",
        "NativeBatchNormBackward0",
        "MulBackward0",
    ]
    assert names == expected
    attention = F.scaled_dot_product_attention(x, x, x)
    assert type(attention.grad_fn).__name__ == "ScaledDotProductFlashAttentionForCpuBackward0"


# Dropout ---------------------------------------------------------------------------------------------------


def test_dropout_in_place_and_out_of_training() -> None:
    x = cg.ones(100)
    assert F.dropout(x, training=False) is x and F.dropout(x, 0.0) is x
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    y = cg.ones(2, 3, 4)
    assert F.dropout1d(y, 0.5, inplace=True) is y
    leaf = cg.ones(50, requires_grad=True)
    z = leaf * 1
    F.dropout(z, 0.5, inplace=True)
    z.sum().backward()
    assert leaf.grad.tolist() == z.tolist()


def test_dropout_warnings() -> None:
    with pytest.warns(UserWarning, match="dropout1d"):
        F.dropout2d(cg.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="deprecated"):
        F.dropout3d(cg.ones(2, 3, 4))


# Attention -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 500, 8), (40, 70, 4), (1, 1, 600, 8)])
def test_attention_in_blocks(shape: tuple, causal: bool) -> None:
    tensors = [pair(*shape, seed=k, grad=True) for k in range(3)]
    out = F.scaled_dot_product_attention(*(a for a, _ in tensors), is_causal=causal)
    tout = TF.scaled_dot_product_attention(*(b for _, b in tensors), is_causal=causal)
    agree(out, tout)
    (out * out).sum().backward()
    (tout * tout).sum().backward()
    for a, b in tensors:
        agree(a.grad, b.grad, 1e-4)


def test_attention_mask_of_each_head() -> None:
    q, tq = pair(2, 3, 40, 8, grad=True)
    mask = np.random.default_rng(1).random((2, 1, 40, 40)) < 0.5
    mask[0, 0, 3] = False
    out = F.scaled_dot_product_attention(q, q, q, cg.from_numpy(mask), is_causal=True)
    tout = TF.scaled_dot_product_attention(tq, tq, tq, torch.from_numpy(mask & np.tri(40, dtype=bool)))
    agree(out, tout)
    assert not out[0, :, 3].any()
    out.sum().backward()
    tout.sum().backward()
    agree(q.grad, tq.grad)


def test_attention_mask_with_gradient() -> None:
    q, tq = pair(2, 4, 3)
    mask, tmask = pair(4, 4, seed=1, grad=True)
    F.scaled_dot_product_attention(q, q, q, mask).pow(2).sum().backward()
    TF.scaled_dot_product_attention(tq, tq, tq, tmask).pow(2).sum().backward()
    agree(mask.grad, tmask.grad)


def test_self_attention_without_batch() -> None:
    x, tx = pair(5, 8, grad=True)
    tensors = [pair(24, 8, seed=1), pair(24, seed=2), pair(8, 8, seed=3), pair(8, seed=4)]
    ours, theirs = zip(*tensors, strict=True)
    plain = (8, 2)
    out, weights = F.multi_head_attention_forward(
        x, x, x, *plain, ours[0], ours[1], None, None, False, 0.0, ours[2], ours[3]
    )
    tout, tweights = TF.multi_head_attention_forward(
        tx, tx, tx, *plain, theirs[0], theirs[1], None, None, False, 0.0, theirs[2], theirs[3]
    )
    agree(out, tout)
    agree(weights, tweights)
    out.sum().backward()
    tout.sum().backward()
    agree(x.grad, tx.grad, 1e-4)
