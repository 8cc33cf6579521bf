"""torch.func against PyTorch: derivatives of functions, and modules called with other parameters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import failure, same


def test_grad() -> None:
    def run(T: Any) -> Any:
        x, y = T.tensor([1.0, 2.0, 3.0]), T.tensor([0.5, 0.0, -1.0])

        def f(x: Any, y: Any) -> Any:
            return (x.sin() * y).sum()

        def of_dict(params: Any, x: Any) -> Any:
            return (params["a"] * x + params["b"]).square().sum(), x * 2

        params = {"a": T.tensor(2.0), "b": T.tensor(1.0)}
        F = T.func
        return [
            F.grad(f)(x, y),
            F.grad(f, argnums=(0, 1))(x, y),
            F.grad(lambda x: F.grad(lambda z: (z**3).sum())(x).sum())(x),
            F.grad(of_dict, has_aux=True)(params, x),
            F.grad_and_value(f)(x, y),
            failure(lambda: F.grad(lambda x: x)(x)),
        ]

    same(run)


def test_jacobians() -> None:
    def run(T: Any) -> Any:
        F = T.func
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]])
        v = T.tensor([[1.0, 0.0], [0.0, 1.0]])
        out, pull = F.vjp(lambda x: x @ x, x)
        return [
            out,
            pull(v),
            F.jvp(lambda x: x @ x, (x,), (v,)),
            F.jacrev(lambda x: x.exp().sum(0))(x),
            F.jacfwd(lambda x: x.exp().sum(0))(x),
            F.hessian(lambda x: (x**3).sum())(x[0]),
            F.jacrev(lambda x, y: {"a": x * y, "b": x.sum()}, argnums=(0, 1))(x[0], x[1]),
        ]

    same(run)


def test_vmap() -> None:
    def run(T: Any) -> Any:
        x = T.arange(12.0).reshape(3, 4)
        model = T.nn.Linear(4, 2)
        T.manual_seed(0)
        with T.no_grad():
            model.weight.copy_(T.arange(8.0).reshape(2, 4) / 8)
            model.bias.zero_()
        params = {name: p.detach() for name, p in model.named_parameters()}

        def loss(params: Any, sample: Any) -> Any:
            return T.func.functional_call(model, params, (sample,)).square().sum()

        each = T.func.vmap(T.func.grad(loss), in_dims=(None, 0))(params, x)
        return [
            T.vmap(lambda a: a.sum())(x),
            T.func.vmap(lambda a, b: (a + b, a * b), in_dims=(0, None), out_dims=(1, 0))(x, x[0]),
            T.vmap(T.dot, in_dims=1)(x, x),
            each,
            failure(lambda: T.vmap(lambda a, b: a)(x, x[:2])),
        ]

    same(run)


def tied(T: Any) -> Any:
    class Tied(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = T.nn.Linear(2, 2, bias=False)
            self.b = T.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("offset", T.ones(2))

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return self.b(self.a(x)) * scale + self.offset

    return Tied()


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.stateless")
def test_functional_call() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        module, x = tied(T), T.tensor([1.0, 2.0])
        own = module(x)
        weight = T.eye(2, requires_grad=True)
        call = T.func.functional_call
        out = call(module, {"a.weight": weight}, (x,), {"scale": 2.0})
        out.sum().backward()
        return [
            own,
            out,
            weight.grad,
            module(x),
            call(module, {"a.weight": weight}, x, tie_weights=False),
            call(module, [{"a.weight": weight}, {"offset": T.zeros(2)}], x),
            T.nn.utils.stateless.functional_call(module, {"offset": T.zeros(2)}, x),
            failure(lambda: call(module, {"offset": T.zeros(2)}, x, strict=True)),
            failure(lambda: call(module, {"a.weight": weight, "b.weight": T.ones(2, 2)}, x)),
            failure(lambda: call(module, [{"offset": x}, {"offset": x}], x)),
            failure(lambda: call(module, 3, x)),
        ]

    same(run)


def test_stack_module_state() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        models = [T.nn.BatchNorm1d(2) for _ in range(3)]
        return T.func.stack_module_state(models), failure(lambda: T.func.stack_module_state([]))

    same(run)
