"""Module's contract: the same program under PyTorch and cleargrad, with the same outcome."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same


def net(T: Any) -> Any:
    """Two layers, a norm with buffers, a shared module, an absent one, a buffer that is not saved."""

    class Net(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = T.nn.Linear(3, 4)
            self.norm = T.nn.BatchNorm1d(4)
            self.layers = T.nn.Sequential(T.nn.ReLU(), T.nn.Linear(4, 4))
            self.again = self.first
            self.scale = T.nn.Parameter(T.ones(4))
            self.absent = None
            self.register_parameter("no_parameter", None)
            self.register_module("no_module", None)
            self.register_buffer("kept", T.arange(3.0))
            self.register_buffer("lost", T.zeros(2), persistent=False)
            self.register_buffer("no_buffer", None)

        def forward(self, x: Any) -> Any:
            return self.layers(self.norm(self.first(x))) * self.scale

    T.manual_seed(0)
    return Net()


def text(call: Any) -> Any:
    """The type of what a call raises and a part of its words that programs look for."""
    try:
        return call()
    except Exception as exception:
        return type(exception).__name__, str(exception)


# Parts and their names -------------------------------------------------------------------------------------


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


# Copies ----------------------------------------------------------------------------------------------------


class Picklable(cg.nn.Module):
    """At module level, so that pickle finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = cg.nn.Linear(2, 2)
        self.tied = self.linear
        self.register_buffer("lost", cg.ones(1), persistent=False)

    def forward(self, x: cg.Tensor) -> cg.Tensor:
        return self.linear(x) + self.lost


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), copy.copy])
def test_copies(duplicate: Any) -> None:
    m = Picklable().eval()
    m(cg.ones(1, 2)).sum().backward()
    other = duplicate(m)
    assert other.linear is other.tied
    assert list(other.state_dict()) == list(m.state_dict())
    assert not other.training and (other.linear is m.linear) == (duplicate is copy.copy)
    assert cg.equal(other(cg.ones(1, 2)), m(cg.ones(1, 2)))
    assert isinstance(other.linear.weight, cg.nn.Parameter)


def test_old_pickles_are_completed() -> None:
    m = Picklable()
    state = {name: value for name, value in m.__dict__.items() if "hook" not in name}
    other = Picklable.__new__(Picklable)
    other.__setstate__(state)
    other.register_forward_hook(lambda module, args, out: out * 0)
    assert other(cg.ones(1, 2)).sum() == 0


def test_modules_are_freed_without_the_collector() -> None:
    gc.disable()
    try:
        m = net(cg)
        handle = m.register_forward_hook(lambda module, args, out: None)
        m(cg.ones(2, 3)).sum().backward()
        reference = weakref.ref(m)
        del m
        assert reference() is None
        handle.remove()
    finally:
        gc.enable()


# State dictionaries ----------------------------------------------------------------------------------------


def test_load_reports_in_pytorchs_words() -> None:
    def report(T: Any) -> Any:
        m = net(T)
        good = m.state_dict()
        wrong = OrderedDict(good)
        del wrong["norm.weight"], wrong["scale"]
        wrong["extra"] = T.ones(1)
        wrong["layers.9.weight"] = T.ones(1)
        wrong["first.weight"] = T.ones(2, 2)
        wrong["kept"] = 3
        lenient = OrderedDict(good)
        del lenient["kept"]
        lenient["extra"] = T.ones(1)
        loose = m.load_state_dict(lenient, strict=False)
        _, words = text(lambda: m.load_state_dict(wrong))
        words = words.removeprefix("load_state_dict: ").split("\n  at ")[0]
        kinds = "<class 'int'>" in words
        return (
            repr(m.load_state_dict(good)),
            loose.missing_keys,
            loose.unexpected_keys,
            kinds,
            words.split("\n"),
            failure(lambda: m.load_state_dict(3)),
            failure(lambda: m.load_state_dict(wrong, strict=False)),
        )

    same(report)


def test_load_copies_and_assigns() -> None:
    def run(T: Any) -> Any:
        m, other = net(T), net(T).double()
        for value in other.state_dict().values():
            value.add_(1)
        weight = m.first.weight
        m.load_state_dict(other.state_dict())
        copied = m.first.weight is weight, m.first.weight
        m.first.weight.requires_grad_(False)
        m.load_state_dict(other.state_dict(), assign=True)
        assigned = m.first.weight is weight, m.first.weight, m.norm.running_mean
        zero_d = T.nn.BatchNorm1d(1)
        state = zero_d.state_dict()
        state["num_batches_tracked"] = T.tensor([7])
        zero_d.load_state_dict(state)
        return copied, assigned, m.scale, zero_d.num_batches_tracked

    same(run)


def test_old_batch_norm_states() -> None:
    def run(T: Any) -> Any:
        m = T.nn.BatchNorm1d(2)
        state = {name: value for name, value in m.state_dict().items() if name != "num_batches_tracked"}
        instance = T.nn.InstanceNorm1d(2)
        old = {"running_mean": T.ones(2), "running_var": T.ones(2)}
        return repr(m.load_state_dict(state)), failure(lambda: instance.load_state_dict(old))

    same(run)


def test_extra_state() -> None:
    def run(T: Any) -> Any:
        class Counting(T.nn.Module):
            count = 3

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        m = T.nn.Sequential(Counting())
        state = m.state_dict()
        m[0].count = 5
        result = m.load_state_dict(state)
        plain = T.nn.Sequential(T.nn.ReLU())
        return (
            list(state),
            m[0].count,
            repr(result),
            failure(lambda: m.load_state_dict({})),
            failure(lambda: plain.load_state_dict(state)),
            failure(lambda: plain.get_extra_state()),
        )

    same(run)


def test_state_hooks() -> None:
    def run(T: Any) -> Any:
        m = net(T)
        events: list = []

        def after(module: Any, state: Any, prefix: str, metadata: Any) -> None:
            events.append(("after", prefix, metadata))
            state["added"] = 1

        m.layers.register_state_dict_pre_hook(lambda module, prefix, keep: events.append(("before", prefix)))
        handle = m.layers.register_state_dict_post_hook(after)
        m.norm._register_state_dict_hook(lambda module, state, prefix, metadata: None)
        state = m.state_dict()
        names = list(state)
        handle.remove()
        again = list(m.state_dict())

        def rename(module: Any, state: Any, prefix: str, *rest: Any) -> None:
            events.append((module is m.first, prefix, len(rest)))
            state[prefix + "weight"] = state.pop(prefix + "old")

        def loaded(module: Any, keys: Any) -> None:
            events.append(list(keys.unexpected_keys))
            keys.unexpected_keys.clear()

        m.first.register_load_state_dict_pre_hook(rename)
        m.register_load_state_dict_post_hook(loaded)
        state["first.old"] = state.pop("first.weight")
        m.again = None
        state = OrderedDict((key, value) for key, value in state.items() if not key.startswith("again"))
        return names, again, repr(m.load_state_dict(state)), events

    same(run)


def test_post_hooks_must_return_nothing() -> None:
    def run(T: Any) -> Any:
        m, other = net(T), net(T)
        m.register_state_dict_post_hook(lambda *args: {})
        other.register_load_state_dict_post_hook(lambda *args: 3)
        state = other.state_dict()
        return failure(m.state_dict), failure(lambda: other.load_state_dict(state))

    same(run)


def test_positional_state_dict_warns() -> None:
    with pytest.warns(FutureWarning, match="Positional args"):
        assert list(cg.nn.Linear(1, 1).state_dict(None, "p.")) == ["p.weight", "p.bias"]


# Hooks -----------------------------------------------------------------------------------------------------


def test_forward_hooks() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Linear(2, 2)
        with T.no_grad():
            m.weight.fill_(1)
            m.bias.fill_(0)
        order: list = []
        handles = [
            m.register_forward_pre_hook(lambda module, args: order.append("pre 1")),
            m.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
            m.register_forward_pre_hook(lambda module, args: args[0] + 1),
            m.register_forward_pre_hook(lambda module, args: order.append("pre 0"), prepend=True),
            m.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True),
            m.register_forward_hook(lambda module, args, out: order.append("post 1")),
            m.register_forward_hook(lambda module, args, out: out * 10),
            m.register_forward_hook(
                lambda module, args, kwargs, out: order.append(kwargs), with_kwargs=True, prepend=True
            ),
        ]
        hooked = m(T.ones(1, 2))
        for handle in handles:
            handle.remove()
        with m.register_forward_hook(lambda module, args, out: out * 0):
            inside = m(T.ones(1, 2))
        m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
        return hooked, inside, order, failure(lambda: m(T.ones(1, 2)))

    same(run)


def test_hooks_with_kwargs() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Linear(2, 2)
        seen: list = []
        m.register_forward_pre_hook(
            lambda module, args, kwargs: ((), {"input": kwargs["input"] * 0}), with_kwargs=True
        )
        m.register_forward_hook(lambda module, args, kwargs, out: seen.append(list(kwargs)), with_kwargs=True)
        T.nn.init.zeros_(m.bias)
        return m(input=T.ones(1, 2)), seen

    same(run)


def test_hooks_that_are_always_called() -> None:
    def run(T: Any) -> Any:
        class Failing(T.nn.Module):
            def forward(self, x: Any) -> Any:
                raise ValueError("forward")

        seen: list = []
        m = Failing()
        m.register_forward_hook(lambda module, args, out: seen.append("never"))
        m.register_forward_hook(lambda module, args, out: seen.append(("always", out)), always_call=True)
        first = failure(lambda: m(1))

        def also_fails(module: Any, args: Any, out: Any) -> None:
            raise RuntimeError("hook")

        m.register_forward_hook(also_fails, always_call=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            second = failure(lambda: m(1))
        return first, second, seen, len(caught)

    same(run)


def hooked_backward(T: Any, module: Any, args: tuple, **hooks: Any) -> Any:
    seen: list = []

    def record(name: str, change: Any) -> Any:
        def hook(module: Any, *grads: Any) -> Any:
            seen.append((name, grads))
            return None if change is None else change(*grads)

        return hook

    for name, change in hooks.items():
        register = (
            module.register_full_backward_pre_hook if "pre" in name else module.register_full_backward_hook
        )
        register(record(name, change))
    out = module(*args)
    total = sum(part.sum() for part in out) if isinstance(out, tuple) else out.sum()
    total.backward()
    return seen, [parameter.grad for parameter in module.parameters()]


def test_full_backward_hooks() -> None:
    def run(T: Any) -> Any:
        results = []
        for change in (None, lambda grad_in, grad_out: (grad_in[0] * 3,)):
            T.manual_seed(0)
            x = T.ones(2, 3, requires_grad=True)
            m = T.nn.Linear(3, 2)
            results.append((hooked_backward(T, m, (x * 1,), hook=change), x.grad))
            T.manual_seed(0)
            results.append(hooked_backward(T, T.nn.Linear(3, 2), (T.ones(2, 3),), hook=None))
        T.manual_seed(0)
        x = T.ones(2, 3, requires_grad=True)
        results.append(
            (
                hooked_backward(T, T.nn.Linear(3, 2), (x,), pre=lambda grads: (grads[0] * 2,), hook=None),
                x.grad,
            )
        )
        return results

    same(run)


def test_backward_hooks_of_several_inputs() -> None:
    def run(T: Any) -> Any:
        class Two(T.nn.Module):
            def forward(self, a: Any, flag: bool, b: Any, c: Any) -> Any:
                return a * b, (a + c if flag else a), c.detach()

        a, b = T.ones(2, requires_grad=True), T.full((2,), 3.0, requires_grad=True)
        c = T.full((2,), 5.0)
        seen, _ = hooked_backward(T, Two(), (a, True, b, c), pre=None, hook=None)
        return seen, a.grad, b.grad

    same(run)


def test_backward_hook_errors() -> None:
    def run(T: Any) -> Any:
        def attempt(**hooks: Any) -> Any:
            x = T.ones(2, 3, requires_grad=True)
            return failure(lambda: hooked_backward(T, T.nn.Linear(3, 2), (x,), **hooks))

        def no_input() -> Any:
            return hooked_backward(T, T.nn.Linear(3, 2), (T.ones(2, 3),), hook=lambda i, o: (o[0],))

        mixed = T.nn.Linear(1, 1)
        mixed.register_full_backward_hook(lambda *args: None)
        old = T.nn.Linear(1, 1)
        old.register_backward_hook(lambda *args: None)
        return (
            attempt(hook=lambda i, o: (o[0], o[0])),
            attempt(pre=lambda o: (o[0], o[0])),
            failure(no_input),
            failure(lambda: mixed.register_backward_hook(print)),
            failure(lambda: old.register_full_backward_hook(print)),
        )

    same(run)


def test_backward_hook_on_other_outputs_warns() -> None:
    class Listing(cg.nn.Module):
        def forward(self, x: cg.Tensor) -> list:
            return [x * 2]

    m = Listing()
    m.register_full_backward_hook(lambda *args: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        m(cg.ones(2, requires_grad=True))


def test_old_backward_hooks() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Tanh()
        seen: list = []
        m.register_backward_hook(lambda module, grad_in, grad_out: seen.append((grad_in, grad_out)))
        x = T.ones(2, requires_grad=True)
        m(x).sum().backward()
        return seen, x.grad

    same(run)


def test_nested_backward_hooks_run_in_order() -> None:
    def run(T: Any) -> Any:
        m, order = net(T), []
        for name, module in m.named_modules():
            module.register_full_backward_hook(lambda module, i, o, name=name: order.append(name))
        m(T.ones(2, 3)).sum().backward()
        return order

    same(run)


def test_hooks_on_all_modules() -> None:
    def run(T: Any) -> Any:
        everywhere, order = T.nn.modules.module, []
        handles = [
            everywhere.register_module_forward_pre_hook(
                lambda m, args: order.append(("pre", type(m).__name__))
            ),
            everywhere.register_module_forward_hook(lambda m, args, out: order.append("post")),
            everywhere.register_module_full_backward_pre_hook(lambda m, grads: order.append("back pre")),
            everywhere.register_module_full_backward_hook(lambda m, i, o: order.append("back")),
            everywhere.register_module_parameter_registration_hook(lambda m, n, p: order.append(n)),
            everywhere.register_module_module_registration_hook(lambda m, n, s: order.append(n)),
            everywhere.register_module_buffer_registration_hook(lambda m, n, b: order.append(n)),
        ]
        m = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.BatchNorm1d(2))
        m(T.ones(3, 2)).sum().backward()
        for handle in handles:
            handle.remove()
        count = len(order)
        m(T.ones(3, 2)).sum().backward()
        T.nn.Linear(1, 1)
        return order, count == len(order)

    same(run)


def test_calls_without_hooks_take_the_short_way() -> None:
    m = cg.nn.Linear(2, 2)
    m.register_forward_hook(lambda module, args, out: None).remove()
    m(cg.ones(1, 2))
    assert not m._hooked


def test_deepcopied_hooks_belong_to_the_copy() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Linear(2, 2)
        seen: list = []
        m.handle = m.register_forward_hook(lambda module, args, out: seen.append(1))
        other = copy.deepcopy(m)
        other.handle.remove()
        other(T.ones(1, 2))
        m(T.ones(1, 2))
        return len(seen)

    same(run)


# Parameters ------------------------------------------------------------------------------------------------


def test_parameters() -> None:
    def run(T: Any) -> Any:
        P = T.nn.Parameter
        values = T.arange(3.0)
        p = P(values)
        values.add_(1)  # shares memory
        (p * 2).sum().backward()
        p.tag = 3
        again = copy.deepcopy(p)
        loaded = pickle.loads(pickle.dumps(p))
        return (
            p,
            repr(p),
            repr(P(T.ones(2), requires_grad=False)),
            repr(P()),
            str(P(T.tensor(1.5))),
            [type(x).__name__ for x in (p, p.data, p.detach(), p + 1, again, loaded)],
            again.grad,
            loaded.tag,
            p.is_leaf,
            P(p * 2).is_leaf,
            P(T.tensor([1, 2]), requires_grad=False),
            [failure(lambda: P([1.0])), failure(lambda: P(T.tensor([1]))), failure(lambda: P(3))],
            isinstance(p, T.Tensor),
            isinstance(p.data, P),
        )

    same(run)


def test_buffers() -> None:
    def run(T: Any) -> Any:
        b = T.nn.Buffer(T.ones(2), persistent=False)
        return b, repr(b), b.persistent, isinstance(b, T.nn.Buffer), isinstance(T.ones(1), T.nn.Buffer)

    same(run)


def test_uninitialized() -> None:
    def run(T: Any) -> Any:
        u, b = T.nn.UninitializedParameter(), T.nn.UninitializedBuffer()
        before = [
            repr(u),
            repr(b),
            u.requires_grad,
            b.requires_grad,
            str(u.dtype),
            failure(lambda: u + 1),
            failure(lambda: u.shape),
            failure(lambda: T.relu(u)),
            failure(lambda: u.detach()),
            repr(copy.deepcopy(u)),
            repr(pickle.loads(pickle.dumps(b))),
        ]
        u.materialize((2, 3))
        b.materialize((4,), dtype=T.float64)
        return before, type(u) is T.nn.Parameter, type(b) is T.Tensor, u.shape, b.shape, str(b.dtype)

    same(run)


# Lazy modules ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules() -> None:
    def run(T: Any) -> Any:
        def lazy() -> Any:
            return T.nn.Sequential(
                T.nn.LazyConv1d(4, 3), T.nn.LazyBatchNorm1d(), T.nn.Flatten(), T.nn.LazyLinear(2)
            )

        x = T.arange(30.0).reshape(2, 3, 5)
        T.manual_seed(0)
        m = lazy().double().float()
        before = repr(m), m[0].has_uninitialized_params(), list(m.state_dict())
        copied = copy.deepcopy(m[3])
        T.manual_seed(0)
        out = m(x)
        T.manual_seed(0)
        same_copy = copied(x[0])
        loaded = lazy()
        result = repr(loaded.load_state_dict(m.state_dict()))
        after = loaded.eval()(x), type(loaded[0]).__name__, repr(m), loaded[3].in_features
        unfinished = T.nn.Linear(2, 2)
        return (
            before,
            out,
            same_copy,
            result,
            after,
            failure(lambda: unfinished.load_state_dict(T.nn.LazyLinear(2).state_dict())),
        )

    same(run)


def test_lazy_modules_warn() -> None:
    with pytest.warns(UserWarning, match="Lazy modules are a new feature"):
        cg.nn.LazyLinear(2)


def test_inheritance() -> None:
    def run(T: Any) -> Any:
        class Mixin:
            def __init__(self, size: int) -> None:
                self.size = size

        class Cooperative(T.nn.Module, Mixin):
            call_super_init = True

            def __init__(self) -> None:
                super().__init__(7)

        class Property(T.nn.Module):
            @property
            def broken(self) -> Any:
                return self.missing

        return Cooperative().size, failure(lambda: Property().broken), hasattr(Property(), "broken")

    same(run)


def test_every_public_name_exists() -> None:
    missing = [name for name in torch.nn.modules.__all__ if name not in cg.nn.__all__]
    assert missing == []
    assert set(cg.nn.__all__) <= set(dir(cg.nn))
    with pytest.raises(AttributeError, match="Nonexistent"):
        _ = cg.nn.Nonexistent
