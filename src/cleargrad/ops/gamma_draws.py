"""Gamma and Dirichlet numbers as ops with gradients: what torch.distributions builds on.

Gradients go through the draw as if it were a smooth function of the concentration and of a seed. The numbers
are made in core/gamma.py, their gradients in expr/gamma_gradient.py. Read next: distributions/__init__.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core.gamma import dirichlet, standard_gamma
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor, place_of
from cleargrad.expr.gamma_gradient import dirichlet_gradient, standard_gamma_gradient
from cleargrad.ops.declare import face, opaque
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Conventional, Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor
from cleargrad.random import Generator, stream_of


def concentrations() -> Iterator[Sample]:
    # The derivative of the distribution, not of the draw: a difference of draws would not show it.
    yield Conventional(real(3, 4, low=0.2, high=2.0))
    yield Conventional(real(2, 5, low=5.0, high=30.0))
    yield Sample(real(0, 3))
    yield Fails(NotImplementedError, whole(3))


def two_of_a_kind() -> Iterator[Sample]:
    yield Sample(real(3, 4, low=0.2, high=3.0), real(3, 4, low=0.1, high=4.0))
    yield Sample(real(20, low=9.0, high=12.0), real(20, low=6.0, high=18.0))


def shares() -> Iterator[Sample]:
    yield Sample(real(6, low=0.05, high=0.95), real(6, low=0.2, high=3.0), real(6, low=4.0, high=9.0))
    yield Sample(real(40, low=0.3, high=0.7), real(40, low=9.0, high=12.0), real(40, low=20.0, high=24.0))


standard_gamma_gradient_op = opaque(
    "standard_gamma_gradient",
    spec=lambda x, number: Spec(
        broadcast("_standard_gamma_grad", x._form.shape, number._form.shape), x.dtype
    ),
    run=lambda x, number: standard_gamma_gradient(x, number),
    vjp=NO_GRAD,
    samples=two_of_a_kind,
)

dirichlet_gradient_op = opaque(
    "dirichlet_gradient",
    spec=lambda x, alpha, total: Spec(
        broadcast("_dirichlet_grad", x._form.shape, alpha._form.shape, total._form.shape), x.dtype
    ),
    run=lambda x, alpha, total: dirichlet_gradient(x, alpha, total),
    vjp=NO_GRAD,
    samples=shares,
)


def dirichlet_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The shares sum to one, so what one of them wins the others lose in proportion to their size."""
    own = dirichlet_gradient_op(out, x, x.sum(-1, keepdim=True).expand_as(x))
    return own * (g - (out * g).sum(-1, keepdim=True))


def same_shape(x: Tensor, **_: Any) -> Spec:
    return Spec(x._form.shape, x.dtype)


def run_gamma(x: np.ndarray, *, stream: Any) -> np.ndarray:
    return standard_gamma(stream, x)


def run_dirichlet(x: np.ndarray, *, stream: Any) -> np.ndarray:
    return dirichlet(stream, x)


standard_gamma_op = opaque(
    "standard_gamma",
    spec=same_shape,
    run=run_gamma,
    vjp=lambda g, x, out: g * standard_gamma_gradient_op(x, out),
    samples=concentrations,
)
dirichlet_op = opaque(
    "dirichlet",
    spec=same_shape,
    run=run_dirichlet,
    vjp=dirichlet_vjp,
    samples=concentrations,
)


def not_compared(torch: Any) -> None:
    """PyTorch's gradients are approximations; ours are compared with them, and with quantiles, in tests/core."""


@face(standard_gamma_op, reference=not_compared)
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers of rate one."""
    check_tensor("_standard_gamma", input)
    return standard_gamma_op(input, stream=stream_of(generator, place_of(input)))


@face(dirichlet_op, reference=lambda torch: torch.distributions.dirichlet._Dirichlet.apply)
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Points of the simplex of the last dimension."""
    check_tensor("_sample_dirichlet", input)
    return dirichlet_op(input, stream=stream_of(generator, place_of(input)))


@face(standard_gamma_gradient_op, reference=not_compared)
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """How the gamma number `output` moves with its concentration `input`."""
    return standard_gamma_gradient_op(input, output)


@face(dirichlet_gradient_op, reference=not_compared)
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """How the share x moves with its concentration alpha, divided by 1 − x."""
    return dirichlet_gradient_op(x, alpha, total)
