"""Constraints, transforms and the registry between them, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad
from tests.distributions.families import COLUMNS, LIBRARIES, LOWER, MATRIX, POSITIVE, REALS, SHARES, outcome
from tests.distributions.test_families import agree

SQUARE = [[0.3, -0.4, 0.2], [1.0, 0.1, 0.5], [-0.2, 0.7, -0.6]]

TRANSFORMS: dict[str, tuple[Callable, Any]] = {
    "identity": (lambda t: t.distributions.identity_transform, REALS),
    "abs": (lambda t: t.distributions.AbsTransform(), REALS),
    "affine": (lambda t: t.distributions.AffineTransform(t.tensor([1.0, 2.0, 3.0]), -0.5), REALS),
    "affine event": (lambda t: t.distributions.AffineTransform(0.5, t.tensor([1.0, 2.0, 3.0]), 1), REALS),
    "exp": (lambda t: t.distributions.ExpTransform(), REALS),
    "exp inverse": (lambda t: t.distributions.ExpTransform().inv, POSITIVE),
    "power": (lambda t: t.distributions.PowerTransform(t.tensor(-1.5)), POSITIVE),
    "sigmoid": (lambda t: t.distributions.SigmoidTransform(), REALS),
    "softplus": (lambda t: t.distributions.SoftplusTransform(), REALS),
    "tanh": (lambda t: t.distributions.TanhTransform(), REALS),
    "softmax": (lambda t: t.distributions.SoftmaxTransform(), REALS),
    "stick breaking": (lambda t: t.distributions.StickBreakingTransform(), REALS),
    "lower cholesky": (lambda t: t.distributions.LowerCholeskyTransform(), SQUARE),
    "positive definite": (lambda t: t.distributions.PositiveDefiniteTransform(), SQUARE),
    "corr cholesky": (lambda t: t.distributions.CorrCholeskyTransform(), REALS),
    "reshape": (lambda t: t.distributions.ReshapeTransform((2, 3), (6,)), REALS),
    "cumulative": (
        lambda t: t.distributions.CumulativeDistributionTransform(t.distributions.Normal(0.2, 1.5)),
        REALS,
    ),
    "independent": (
        lambda t: t.distributions.IndependentTransform(t.distributions.ExpTransform(), 1),
        REALS,
    ),
    "compose": (
        lambda t: t.distributions.ComposeTransform(
            [t.distributions.AffineTransform(0.0, 2.0), t.distributions.StickBreakingTransform()]
        ),
        REALS,
    ),
    "cat": (
        lambda t: t.distributions.CatTransform(
            [t.distributions.ExpTransform(), t.distributions.SigmoidTransform()], dim=-1, lengths=[1, 2]
        ),
        REALS,
    ),
    "stack": (
        lambda t: t.distributions.StackTransform(
            [t.distributions.ExpTransform(), t.distributions.TanhTransform()], dim=0
        ),
        REALS,
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("cached", [False, True])
def test_transform(name: str, cached: bool) -> None:
    make, numbers = TRANSFORMS[name]
    found = []
    for library in LIBRARIES:
        transform = make(library)
        if cached:
            transform = transform.with_cache()
        x = library.tensor(numbers, requires_grad=True)
        y = transform(x)
        back = transform.inv(y)
        jacobian = outcome(lambda f=transform, x=x, y=y: f.log_abs_det_jacobian(x, y))
        y.mul(library.arange(1, y.numel() + 1).reshape(y.shape)).sum().backward()
        facts = {
            fact: outcome(lambda f=transform, fact=fact: getattr(f, fact))
            for fact in ("bijective", "sign", "event_dim", "domain", "codomain")
        }
        shapes = [outcome(lambda f=transform, s=s: f.forward_shape(s)) for s in (x.shape, library.Size())]
        shapes += [outcome(lambda f=transform, s=s: f.inverse_shape(s)) for s in (y.shape, library.Size())]
        assert transform == transform and transform.inv.inv == transform
        equal = make(library) == make(library)
        found.append((y, back, jacobian, x.grad, repr(transform), repr(facts), repr(shapes), equal))
    for mine, other in zip(*found, strict=True):
        agree(mine, other, name, rtol=1e-4, atol=1e-5)
    if cached and not isinstance(transform, torch.distributions.ComposeTransform):
        assert cleargrad.allclose(found[0][1], cleargrad.tensor(numbers)) or name in ("abs", "softmax")


CONSTRAINTS = {
    "boolean": lambda t, c: c.boolean,
    "one_hot": lambda t, c: c.one_hot,
    "nonnegative_integer": lambda t, c: c.nonnegative_integer,
    "positive_integer": lambda t, c: c.positive_integer,
    "integer_interval": lambda t, c: c.integer_interval(0, 2),
    "real": lambda t, c: c.real,
    "real_vector": lambda t, c: c.real_vector,
    "positive": lambda t, c: c.positive,
    "nonnegative": lambda t, c: c.nonnegative,
    "greater_than": lambda t, c: c.greater_than(0.5),
    "greater_than_eq": lambda t, c: c.greater_than_eq(0.5),
    "less_than": lambda t, c: c.less_than(0.5),
    "unit_interval": lambda t, c: c.unit_interval,
    "interval": lambda t, c: c.interval(-1.0, t.tensor(0.5)),
    "half_open_interval": lambda t, c: c.half_open_interval(-1.0, 0.5),
    "simplex": lambda t, c: c.simplex,
    "multinomial": lambda t, c: c.multinomial(3),
    "lower_triangular": lambda t, c: c.lower_triangular,
    "lower_cholesky": lambda t, c: c.lower_cholesky,
    "corr_cholesky": lambda t, c: c.corr_cholesky,
    "square": lambda t, c: c.square,
    "symmetric": lambda t, c: c.symmetric,
    "positive_semidefinite": lambda t, c: c.positive_semidefinite,
    "positive_definite": lambda t, c: c.positive_definite,
    "independent": lambda t, c: c.independent(c.positive, 2),
    "cat": lambda t, c: c.cat([c.positive, c.real], 0, [1, 1]),
    "stack": lambda t, c: c.stack([c.positive, c.real], 0),
    "mixture": lambda t, c: c.MixtureSameFamilyConstraint(c.positive),
    "dependent": lambda t, c: c.dependent(event_dim=1),
}
VALUES: list[Any] = [REALS, POSITIVE, SHARES, LOWER, [MATRIX] * 2, np.eye(3), COLUMNS, [[1, 0, 0], [2, 1, 1]]]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraint(name: str) -> None:
    ours, theirs = (CONSTRAINTS[name](t, t.distributions.constraints) for t in LIBRARIES)
    assert repr(ours) == repr(theirs)
    for fact in ("is_discrete", "event_dim"):
        mine, other = (outcome(lambda c=c, fact=fact: getattr(c, fact)) for c in (ours, theirs))
        assert mine == other, fact
    for numbers in VALUES:
        mine = outcome(lambda numbers=numbers: ours.check(cleargrad.tensor(numbers)))
        other = outcome(lambda numbers=numbers: theirs.check(torch.tensor(numbers)))
        agree(mine, other, f"{name} of {numbers}")


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_registry(registry: str, name: str) -> None:
    found = []
    for t in LIBRARIES:
        constraint = CONSTRAINTS[name](t, t.distributions.constraints)
        transform = outcome(lambda t=t, c=constraint: getattr(t.distributions, registry)(c))
        x = t.tensor(SQUARE)[:2] if name in ("cat", "stack") else t.tensor(SQUARE)
        y = transform if isinstance(transform, type) else transform(x)
        if not isinstance(transform, type):
            assert constraint.check(y).all()
        found.append((repr(transform) if not isinstance(transform, type) else transform, y))
    for mine, other in zip(*found, strict=True):
        agree(mine, other, f"{registry}({name})")


def test_a_constraint_of_ones_own() -> None:
    d = cleargrad.distributions

    class Even(d.constraints.Constraint):
        def check(self, value: Any) -> Any:
            return value % 2 == 0

    @d.transform_to.register(Even)
    def double(constraint: Even) -> Any:
        return d.AffineTransform(0, 2)

    assert d.transform_to(Even())(cleargrad.tensor(3)).item() == 6
    with pytest.raises(TypeError):
        d.transform_to.register(3, double)


def test_triangles_as_vectors() -> None:
    for diag in (-1, 0, 1):
        ours = cleargrad.distributions.utils.tril_matrix_to_vec(cleargrad.tensor(MATRIX), diag)
        theirs = torch.distributions.utils.tril_matrix_to_vec(torch.tensor(MATRIX), diag)
        agree(ours, theirs, "tril_matrix_to_vec")
        back = cleargrad.distributions.utils.vec_to_tril_matrix(ours, diag)
        agree(back, torch.distributions.utils.vec_to_tril_matrix(theirs, diag), "vec_to_tril_matrix")
    for t in LIBRARIES:
        with pytest.raises(ValueError):
            t.distributions.utils.tril_matrix_to_vec(t.ones(2, 2), 5)
        with pytest.raises(ValueError):
            t.distributions.utils.vec_to_tril_matrix(t.ones(5))
