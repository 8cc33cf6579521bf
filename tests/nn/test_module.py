"""Module's contract: names, parts, modes and conversions, with the same outcome in both libraries."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import cleargrad as cg
from tests.nn.sample import net
from tests.oracle import failure, same


def test_names() -> None:
    def names(T: Any) -> Any:
        m = net(T)
        return {
            "parameters": [name for name, _ in m.named_parameters()],
            "all": [name for name, _ in m.named_parameters(prefix="p", remove_duplicate=False)],
            "own": [name for name, _ in m.named_parameters(recurse=False)],
            "buffers": [name for name, _ in m.named_buffers(prefix="p")],
            "own_buffers": [name for name, _ in m.named_buffers(recurse=False)],
            "modules": [name for name, _ in m.named_modules()],
            "all_modules": [name for name, _ in m.named_modules(prefix="p", remove_duplicate=False)],
            "children": [name for name, _ in m.named_children()],
            "counts": [len(list(part())) for part in (m.parameters, m.buffers, m.modules, m.children)],
            "state": list(m.state_dict()),
            "prefixed": list(m.state_dict(prefix="p.")),
            "metadata": {key: dict(value) for key, value in m.state_dict()._metadata.items()},
            "text": repr(m),
        }

    same(names)


def test_state_is_bit_equal() -> None:
    same(lambda T: dict(net(T).state_dict()), rtol=0, atol=0)
    same(lambda T: net(T).state_dict(keep_vars=True)["scale"])


def test_get_and_set() -> None:
    def get(T: Any) -> Any:
        m = net(T)
        found = [
            m.get_submodule("") is m,
            m.get_submodule("layers.1") is m.layers[1],
            m.get_parameter("layers.1.bias") is m.layers[1].bias,
            m.get_buffer("norm.running_mean") is m.norm.running_mean,
        ]
        wrong = [
            lambda: m.get_submodule("layers.7"),
            lambda: m.get_submodule("scale"),
            lambda: m.get_parameter("layers.1.nothing"),
            lambda: m.get_parameter("first"),
            lambda: m.get_buffer("scale"),
            lambda: m.set_submodule("", T.nn.ReLU()),
            lambda: m.set_submodule("scale", T.nn.ReLU()),
            lambda: m.set_submodule("a.b", T.nn.ReLU()),
            lambda: m.set_submodule("new", T.nn.ReLU(), strict=True),
        ]
        m.set_submodule("layers.1", T.nn.Tanh())
        m.set_submodule("new", T.nn.ReLU())
        return found, [failure(call) for call in wrong], repr(m)

    same(get)


def test_registration_errors() -> None:
    def errors(T: Any) -> Any:
        def early(value: Any) -> Any:
            class M(T.nn.Module):
                def __init__(self) -> None:
                    self.x = value

            return M()

        m = net(T)
        linear, parameter = T.nn.Linear(1, 1), T.nn.Parameter(T.ones(1))
        calls = [
            lambda: early(linear),
            lambda: early(parameter),
            lambda: early(3).x,
            lambda: m.register_parameter("a.b", parameter),
            lambda: m.register_parameter("", parameter),
            lambda: m.register_parameter(3, parameter),
            lambda: m.register_parameter("first", parameter),
            lambda: m.register_parameter("new", T.ones(1)),
            lambda: m.register_parameter("new", parameter * 2),
            lambda: m.register_buffer("a.b", T.ones(1)),
            lambda: m.register_buffer("", T.ones(1)),
            lambda: m.register_buffer(3, T.ones(1)),
            lambda: m.register_buffer("first", T.ones(1)),
            lambda: m.register_buffer("new", 3),
            lambda: m.add_module("a.b", linear),
            lambda: m.add_module("", linear),
            lambda: m.add_module(3, linear),
            lambda: m.add_module("scale", linear),
            lambda: m.add_module("new", 3),
            lambda: setattr(m, "scale", T.ones(4)),
            lambda: setattr(m, "first", 3),
            lambda: setattr(m, "kept", 3),
            lambda: m.nothing,
            lambda: delattr(m, "nothing"),
            lambda: m.train(3),
            lambda: T.nn.Module(3),
            lambda: T.nn.Module(a=3),
            lambda: T.nn.Module()(3),
            lambda: m.to(T.int64),
            lambda: m.to([1]),
            lambda: m.register_parameter("training", parameter),
        ]
        return [failure(call) for call in calls]

    same(errors)


def test_replacing_and_deleting() -> None:
    def change(T: Any) -> Any:
        m = net(T)
        m.scale = None
        m.first = None
        m.kept = T.ones(2)
        m.lost = None
        one = list(m.state_dict()), m.scale, m.first, m.kept
        m.first = T.nn.Parameter(T.ones(1))  # a module's name becomes a parameter's
        m.kept = T.nn.ReLU()
        m.norm = T.nn.Parameter(T.zeros(1))
        m.plain = T.ones(1)
        m.plain = T.nn.Parameter(T.ones(1))
        two = list(m.state_dict()), repr(m)
        del m.first, m.kept, m.layers, m.plain
        m.buffer = T.nn.Buffer(T.ones(2))
        m.passing = T.nn.Buffer(T.ones(3), persistent=False)
        three = list(m.state_dict()), [name for name, _ in m.named_buffers()], m.passing
        del m.buffer
        return one, two, three, [name for name, _ in m.named_buffers()], hasattr(m, "first")

    same(change)


def test_directory_and_suggestion() -> None:
    m = net(cg)
    assert {"scale", "first", "kept", "forward", "training"} <= set(dir(m))
    assert "0" not in dir(cg.nn.Sequential(cg.nn.ReLU()))
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scales'"):
        _ = m.scales


# Modes and conversions -------------------------------------------------------------------------------------


def test_train_eval_apply() -> None:
    def run(T: Any) -> Any:
        m = net(T)
        seen: list[str] = []
        m.apply(lambda module: seen.append(type(module).__name__))
        m.norm.eval()
        before = [module.training for module in m.modules()]
        same_object = m.eval() is m and m.train() is m
        return seen, before, same_object, [module.training for module in m.eval().modules()]

    same(run)


def test_conversions() -> None:
    def run(T: Any) -> Any:
        results = []
        for convert in (
            lambda m: m.double(),
            lambda m: m.half(),
            lambda m: m.bfloat16(),
            lambda m: m.to(T.float64),
            lambda m: m.to("cpu", T.float16),
            lambda m: m.to(dtype=T.float64),
            lambda m: m.to(T.ones(1, dtype=T.float64)),
            lambda m: m.to(T.device("cpu")),
            lambda m: m.type(T.float64),
            lambda m: m.double().float(),
            lambda m: m.cpu(),
        ):
            m = net(T)
            m(T.ones(2, 3)).sum().backward()
            parameter, grad = m.scale, m.scale.grad
            kept = convert(m) is m and m.scale is parameter and m.scale.grad is grad
            kinds = [str(value.dtype) for value in m.state_dict().values()]
            results.append((kept, kinds, str(m.scale.grad.dtype), m.scale.requires_grad, str(m.lost.dtype)))
        return results

    same(run)


def test_channels_last() -> None:
    same(lambda T: T.nn.Conv2d(2, 3, 3).to(memory_format=T.channels_last).weight.stride())


def test_training_after_conversion() -> None:
    def run(T: Any) -> Any:
        m = net(T).double()
        m(T.arange(6.0, dtype=T.float64).reshape(2, 3)).sum().backward()
        return [parameter.grad for parameter in m.parameters()]

    same(run)


def test_cuda_is_not_available() -> None:
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        net(cg).cuda()
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        net(cg).to("cuda")


def test_requires_grad_and_zero_grad() -> None:
    def run(T: Any) -> Any:
        m = net(T)
        m(T.ones(2, 3)).sum().backward()
        grad = m.scale.grad
        m.zero_grad(set_to_none=False)
        kept = m.scale.grad is grad, m.scale.grad
        m.zero_grad()
        frozen = m.requires_grad_(False) is m, [parameter.requires_grad for parameter in m.parameters()]
        m.requires_grad_()
        (m(T.ones(2, 3)) ** 2).sum().backward(create_graph=True)
        m.zero_grad(set_to_none=False)
        return kept, frozen, m.scale.grad

    same(run)


def test_share_memory_and_compile() -> None:
    m = net(cg)
    assert m.share_memory() is m
    m.compile()
    assert m(cg.ones(2, 3)).shape == (2, 4)


def test_models_go_with_their_last_name() -> None:
    """Without waiting for the garbage collector: the doctor tells a model that was dropped from one in use."""
    model = cg.nn.Sequential(cg.nn.Linear(2, 3), cg.nn.Linear(3, 1))
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    model(cg.ones(1, 2)).sum().backward()
    optimizer.step()
    first = weakref.ref(model[0])
    gc.disable()
    try:
        del model
        assert first() is None
    finally:
        gc.enable()
