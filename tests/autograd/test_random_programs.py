"""Random programs of ops, views and in-place writes, run with both libraries: gradients agree.

PyTorch refuses a few programs that work here (writes that overlap their source, views of `split` after their
base was written), so a refusal of one library is only checked against the values so far.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
import torch

import cleargrad as cg

VIEWS = (
    lambda t: t[0] if t.ndim else t,
    lambda t: t.t() if t.ndim == 2 else t,
    lambda t: t[..., 1:] if t.ndim else t,
    lambda t: t[..., ::2] if t.ndim else t,
    lambda t: t.reshape(-1),
    lambda t: t.view(-1),
    lambda t: t.unsqueeze(0),
    lambda t: t.squeeze(),
    lambda t: t.diagonal() if t.ndim == 2 else t,
    lambda t: t.detach(),
    lambda t: t.narrow(0, 0, 1) if t.ndim else t,
)
OPS = (
    lambda a, b: a.sin(),
    lambda a, b: a.exp(),
    lambda a, b: a.sigmoid(),
    lambda a, b: a**2,
    lambda a, b: a.sum(),
    lambda a, b: a.clone(),
    lambda a, b: a.mean(-1, keepdim=True) if a.ndim else a * 1,
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: a.maximum(b),
)
WRITES = (
    lambda a, b: a.mul_(2),
    lambda a, b: a.add_(b),
    lambda a, b: a.mul_(b),
    lambda a, b: a.div_(b.abs() + 1),
    lambda a, b: a.pow_(2),
    lambda a, b: a.sin_(),
    lambda a, b: a.exp_(),
    lambda a, b: a.sigmoid_(),
    lambda a, b: a.clamp_(-1, 1),
    lambda a, b: a.copy_(b),
    lambda a, b: a.zero_(),
    lambda a, b: a.masked_fill_(a.detach() > 0.5, 0.1),
    lambda a, b: a.__setitem__(0, b),
    lambda a, b: a.__setitem__((Ellipsis, 0), 1.5),
)


def run(T, seed):
    """The outcome of each step, of backward, and the gradients of the leaves."""
    choose = random.Random(seed)
    leaves = [
        (T.arange(6.0, dtype=T.float64).reshape(shape) / 5 + 0.3).requires_grad_()
        for shape in ((2, 3), (2, 3), (3, 2))
    ]
    pool = [*leaves, T.ones(2, 3, dtype=T.float64)]
    outcomes = []
    for _ in range(choose.randint(4, 14)):
        kind, a, b, recording = (
            choose.random(),
            choose.choice(pool),
            choose.choice(pool),
            choose.random() > 0.1,
        )
        try:
            if kind < 0.35:
                pool.append(choose.choice(VIEWS)(a))
            elif kind < 0.65:
                pool.append(choose.choice(OPS)(a, b))
            else:
                with T.set_grad_enabled(recording):
                    choose.choice(WRITES)(a, b)
            outcomes.append(a.detach().clone().numpy())
        except (RuntimeError, IndexError):
            outcomes.append(None)
    try:
        sum((each * (k + 1)).sum() for k, each in enumerate(pool) if each.requires_grad).backward()
    except RuntimeError:
        return outcomes, None
    return outcomes, [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


@pytest.mark.parametrize("first", range(0, 400, 40))
def test_random_programs(first):
    compared = 0
    for seed in range(first, first + 40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (theirs, their_grads), (ours, our_grads) = run(torch, seed), run(cg, seed)
        for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if (a is None) != (b is None):
                break
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=f"program {seed}, step {step}")
        else:
            if our_grads is not None and their_grads is not None:
                compared += 1
                for a, b in zip(our_grads, their_grads, strict=True):
                    assert (a is None) == (b is None), f"program {seed}"
                    if a is not None:
                        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-12, err_msg=f"program {seed}")
            elif our_grads is None:
                assert their_grads is None, f"program {seed} works with PyTorch"
    assert compared > 25
