"""torch.nn.utils.parametrize, parametrizations, older weight_norm and spectral_norm, against PyTorch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from tests.oracle import failure, same

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def grads(module: Any) -> list:
    return [parameter.grad for parameter in module.parameters()]


def symmetric(T: Any) -> Any:
    class Symmetric(T.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    return Symmetric()


def scaled(T: Any) -> Any:
    class Scaled(T.nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

    return Scaled()


def test_register_and_remove() -> None:
    def run(T: Any) -> Any:
        P = T.nn.utils.parametrize
        T.manual_seed(0)
        module = T.nn.Linear(4, 4)
        P.register_parametrization(module, "weight", symmetric(T))
        found = [module.weight, module(T.tensor(X)), dict(module.state_dict()), repr(module)]
        P.register_parametrization(module, "weight", scaled(T))
        module.weight.sum().backward()
        found += [module.weight, grads(module), P.is_parametrized(module), P.is_parametrized(module, "bias")]
        found += [P.type_before_parametrizations(module) is T.nn.Linear, isinstance(module, T.nn.Linear)]
        P.remove_parametrizations(module, "weight")
        found += [module.weight, type(module) is T.nn.Linear, list(module.state_dict()), repr(module)]
        P.register_parametrization(module, "weight", symmetric(T))
        P.remove_parametrizations(module, "weight", leave_parametrized=False)
        found += [module.weight, isinstance(module.weight, T.nn.Parameter)]
        return found

    same(run)


def test_copies_are_independent() -> None:
    module = cg.nn.Linear(4, 4)
    cg.nn.utils.parametrize.register_parametrization(module, "weight", scaled(cg))
    twin = copy.deepcopy(module)
    cg.nn.utils.parametrize.remove_parametrizations(module, "weight")
    assert cg.equal(twin.weight, module.weight)
    cg.nn.utils.parametrize.remove_parametrizations(twin, "weight", leave_parametrized=False)
    assert type(twin) is cg.nn.Linear and cg.equal(2 * twin.weight, module.weight)


def test_assignment_and_cache() -> None:
    def run(T: Any) -> Any:
        P = T.nn.utils.parametrize
        T.manual_seed(0)
        module = T.nn.Linear(4, 4)
        P.register_parametrization(module, "weight", symmetric(T))
        module.weight = T.arange(16.0).reshape(4, 4)
        outside = module.weight is module.weight
        with P.cached(), P.cached():
            inside = module.weight is module.weight
        return module.weight, module.parametrizations.weight.original, outside, inside

    same(run)


def test_errors() -> None:
    def run(T: Any) -> Any:
        P, Q = T.nn.utils.parametrize, T.nn.utils.parametrizations

        class Shorter(T.nn.Module):
            def forward(self, x: Any) -> Any:
                return x[1:]

        def assign_without_inverse() -> None:
            module = P.register_parametrization(T.nn.Linear(4, 4), "weight", scaled(T))
            module.weight = T.zeros(4, 4)

        return [
            failure(call)
            for call in (
                lambda: P.register_parametrization(T.nn.Linear(4, 4), "nothing", scaled(T)),
                lambda: P.register_parametrization(T.nn.Linear(4, 4), "weight", Shorter()),
                lambda: P.remove_parametrizations(T.nn.Linear(4, 4), "weight"),
                assign_without_inverse,
                lambda: Q.spectral_norm(T.nn.Linear(4, 4), n_power_iterations=0),
                lambda: Q.spectral_norm(T.nn.Linear(4, 4), dim=3),
                lambda: Q.spectral_norm(T.nn.Linear(4, 4), "nothing"),
                lambda: Q.orthogonal(T.nn.Linear(4, 4), "bias"),
                lambda: Q.orthogonal(T.nn.Linear(4, 4), orthogonal_map="x"),
                lambda: Q.orthogonal(
                    T.nn.Linear(4, 4), "weight", "cayley", use_trivialization=False
                ).__setattr__("weight", T.eye(4)),
                lambda: copy.copy(Q.weight_norm(T.nn.Linear(4, 4))).__reduce_ex__(2),
            )
        ]

    same(run)


@pytest.mark.parametrize("dim", [0, 1, None, -1])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.filterwarnings("ignore:.torch.nn.utils.weight_norm")
def test_weight_norm(dim: Any, legacy: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        utils = T.nn.utils
        module = T.nn.Linear(4, 5)
        (utils if legacy else utils.parametrizations).weight_norm(module, dim=dim)
        out = module(T.tensor(X))
        out.square().sum().backward()
        found = [out, grads(module), dict(module.state_dict())]
        if legacy:
            utils.remove_weight_norm(module)
        else:
            utils.parametrize.remove_parametrizations(module, "weight")
        return found, dict(module.state_dict()), module(T.tensor(X))

    same(run, atol=1e-6)


def test_weight_norm_reads_old_checkpoints() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        old = cg.nn.utils.weight_norm(cg.nn.Linear(4, 5))
    module = cg.nn.utils.parametrizations.weight_norm(cg.nn.Linear(4, 5))
    module.load_state_dict(old.state_dict())
    assert cg.allclose(module.weight, old.weight)
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        cg.nn.utils.weight_norm(cg.nn.Linear(2, 2))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("kind", ["Linear", "ConvTranspose2d"])
def test_spectral_norm(legacy: bool, kind: str) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        utils = T.nn.utils
        module = T.nn.Linear(4, 5) if kind == "Linear" else T.nn.ConvTranspose2d(3, 5, 2)
        (utils if legacy else utils.parametrizations).spectral_norm(module)
        x = T.tensor(X) if kind == "Linear" else T.ones(1, 3, 2, 2)
        outs = [module(x), module(x)]
        outs[-1].square().sum().backward()
        module.eval()
        outs += [module(x), module(x)]
        found = [outs, grads(module), dict(module.state_dict()), repr(module)]
        if legacy:
            utils.remove_spectral_norm(module)
        return found, list(module.state_dict()), module(x)

    same(run, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(map: str, shape: tuple, trivial: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        module = T.nn.Linear(*shape)
        Q = T.nn.utils.parametrizations
        Q.orthogonal(module, orthogonal_map=map, use_trivialization=trivial)
        weight = module.weight
        (weight * T.arange(weight.numel()).reshape(weight.shape)).sum().backward()
        return weight, grads(module), list(module.state_dict()), repr(module)

    same(run, rtol=1e-3, atol=1e-4)


def test_skip_init() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        module = T.nn.utils.skip_init(T.nn.Linear, 3, 2, bias=False)
        return module.weight.shape == (2, 3), T.rand(2), failure(lambda: T.nn.utils.skip_init(T.nn.ReLU))

    same(run)


def test_parametrized_lstm() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        module = T.nn.LSTM(4, 3)
        T.nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
        out, _ = module(T.tensor(X).unsqueeze(1))
        out.sum().backward()
        return out, grads(module)

    same(run, rtol=1e-4, atol=1e-6)
