"""What a program sees of devices: PyTorch's answers for "meta", and training that goes elsewhere and back."""

from __future__ import annotations

import copy
import pickle
import resource
import threading

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.autograd.node import moves
from cleargrad.autograd.walk import leads_elsewhere
from cleargrad.core import device as devices
from tests.bits import same_bits
from tests.devices.counting import Counting

MODULES = [cg, torch]

# Expressions that PyTorch and cleargrad must answer alike, or refuse with the same type of error.
EXPRESSIONS = """
t.ones(2, 3, device="meta")
t.ones(2, dtype=t.float64, requires_grad=True, device="meta")
t.arange(3, device="meta")
t.ones((), device="meta")
t.ones(0, device="meta")
t.ones(2, dtype=t.bool, device="meta")
t.ones(2, requires_grad=True, device="meta") * 2
t.nn.Linear(2, 3, device="meta").weight
t.nn.Linear(2, 3, device="meta").bias
t.empty(10**7, 10**7, device="meta")
t.full((2, 2), 3, device="meta")
t.tensor([1.0, 2.0], device="meta")
t.as_tensor([1.0, 2.0], device="meta")
t.randn(2, 2, device="meta")
t.randint(0, 5, (3,), device="meta")
t.eye(3, device="meta")
t.linspace(0, 1, 5, device="meta")
t.zeros_like(x), t.rand_like(x), t.full_like(x, 3), x.new_ones(3), x.new_tensor([1, 2])
t.ones(2).to("meta"), t.ones(2).to(x), t.ones(2).to(device="meta", dtype=t.float64)
x.item()
x[0].item()
x.tolist()
x.numpy()
x.cpu()
x.to("cpu")
bool(x[0])
float(x[0])
x + t.tensor(2.0)
x + t.ones(2)
x.nonzero()
x[x > 0]
t.equal(x, x)
t.allclose(x, x)
x.data_ptr()
x.storage_offset(), x[1:].storage_offset()
x.untyped_storage().device, x.untyped_storage().nbytes()
f"{x}", f"{x[0]}"
list(x)
t.ones(2).copy_(x)
x.copy_(t.ones(2))
x.__array__()
x.get_device()
copy.deepcopy(x)
pickle.loads(pickle.dumps(x))
x.is_meta, x.is_cpu, x.is_cuda, t.ones(1).is_meta
x.unique()
x.masked_select(x > 0)
t.from_numpy(np.ones(2)).to("meta")
x.device == t.device("meta", 0), t.device("meta:0"), t.ones(2, device="meta:0").device
t.nn.Linear(2, 2, device="meta").to("cpu")
t.nn.Linear(2, 2).to("meta").weight
t.nn.Linear(2, 2, device="meta").to_empty(device="cpu").weight.device
t.get_default_device()
x.add_(1), x.mul_(x), x.zero_(), x.uniform_(), x.normal_(), x.fill_(3)
x.view(2, 1), x.reshape(1, 2), x.expand(3, 2), x.T, x[None], x[..., 0], x.unbind()
x.is_contiguous(), t.ones(3, 2, device="meta").T.is_contiguous(), t.ones(3, 2, device="meta").T.stride()
(t.ones(3, 2, device="meta").T + 1).stride()
t.ones(2, 3, 4, 5, device="meta").to(memory_format=t.channels_last).stride()
t.nn.functional.cross_entropy(t.ones(2, 3, device="meta"), t.zeros(2, dtype=t.long, device="meta"))
t.cat([x, x]), t.stack([x, x]), t.where(x > 0, x, 0.0), x.max(), x.argmax(), x.sum(0), x.softmax(0)
""".strip().splitlines()  # fmt: skip


def answer(module: object, text: str) -> str:
    x = module.ones(2, device="meta")  # type: ignore[attr-defined]
    scope = {"t": module, "x": x, "copy": copy, "pickle": pickle, "np": np}
    try:
        return repr(eval(text, scope))
    except Exception as failure:
        kinds = (NotImplementedError, RuntimeError, TypeError, ValueError)
        return f"an error: {next(kind for kind in kinds if isinstance(failure, kind)).__name__}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_meta_answers_as_pytorch_does(text):
    assert answer(cg, text) == answer(torch, text)


def test_a_model_of_any_size_takes_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with cg.device("meta"):
        model = cg.nn.Sequential(*[cg.nn.Linear(100_000, 100_000) for _ in range(40)])
    out = model(cg.ones(7, 100_000, device="meta"))
    out.square().mean().backward()
    assert sum(p.numel() for p in model.parameters()) == 40 * (100_000**2 + 100_000)
    assert all(p.grad.shape == p.shape and p.grad.is_meta for p in model.parameters())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@pytest.mark.parametrize("t", MODULES, ids=["cleargrad", "torch"])
def test_a_model_is_shaped_first_and_filled_later(t):
    t.manual_seed(0)
    trained = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4))
    with t.device("meta"):
        model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4))
    assert all(x.is_meta for x in (*model.parameters(), *model.buffers()))
    with pytest.warns(UserWarning, match="which is a no-op"):
        model.load_state_dict(trained.state_dict())
    assert model[0].weight.is_meta
    filled = copy.deepcopy(model).to_empty(device="cpu")
    filled.load_state_dict(trained.state_dict())
    model.load_state_dict(trained.state_dict(), assign=True)
    x = t.randn(5, 3)
    expected = trained.eval()(x)
    assert t.equal(filled.eval()(x), expected) and t.equal(model.eval()(x), expected)


@pytest.mark.parametrize("t", MODULES, ids=["cleargrad", "torch"])
def test_the_default_device(t):
    seen = []
    with t.device("meta"):
        inner = [
            t.ones(1),
            t.ones(1, device="cpu"),
            t.zeros_like(t.ones(1, device="cpu")),
            t.tensor(1.0),
            t.rand(2),
        ]
        with t.device("cpu"):
            inner.append(t.ones(1))
        thread = threading.Thread(target=lambda: seen.append(t.ones(1).is_meta))
        thread.start()
        thread.join()
    assert [x.is_meta for x in inner] == [True, False, False, True, True, False]
    assert seen == [False] and not t.ones(1).is_meta
    t.set_default_device("meta")
    try:
        assert t.ones(1).is_meta and t.get_default_device() == t.device("meta")
    finally:
        t.set_default_device(None)
    assert not t.ones(1).is_meta


def network() -> cg.nn.Module:
    cg.manual_seed(0)
    return cg.nn.Sequential(
        cg.nn.Conv1d(2, 4, 3, padding=1),
        cg.nn.BatchNorm1d(4),
        cg.nn.ReLU(),
        cg.nn.Flatten(),
        cg.nn.Linear(20, 3),
    )


def losses(place: str, make_optimizer, steps: int = 5) -> tuple[list[cg.Tensor], cg.nn.Module]:
    model = network().to(place)
    optimizer = make_optimizer(model.parameters())
    found = []
    for k in range(steps):
        cg.manual_seed(k)
        x, y = cg.randn(6, 2, 5).to(place), cg.randint(0, 3, (6,)).to(place)
        optimizer.zero_grad()
        loss = cg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        cg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.detach())
    return found, model


OPTIMIZERS = {
    "sgd": lambda p: cg.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: cg.optim.Adam(p, 0.1),
    "adamw": lambda p: cg.optim.AdamW(p, 0.1, amsgrad=True),
    "rmsprop": lambda p: cg.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: cg.optim.Adagrad(p, 0.1),
    "muon": lambda p: cg.optim.Muon([x for x in p if x.ndim == 2], 0.1),
}


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_on_another_device_gives_the_same_bits(name, waits, counting):
    expected, here = losses("cpu", OPTIMIZERS[name])
    if waits:
        with cg.waiting():
            found, there = losses("counting", OPTIMIZERS[name])
    else:
        found, there = losses("counting", OPTIMIZERS[name])
    assert all(loss.device == cg.device("counting:0") for loss in found)
    for ours, cpu in zip([*found, *there.state_dict().values()], [*expected, *here.state_dict().values()]):
        same_bits(ours.cpu(), cpu)
    assert counting.ran["cross_entropy"] == 5


def test_a_compiled_step_on_another_device(counting):
    x = cg.randn(4, 3)
    weight = cg.randn(3, 3)

    @cg.compile
    def step(x, w):
        loss = (x @ w).tanh().square().mean()
        (grad,) = cg.autograd.grad(loss, w)
        return loss.detach(), grad

    for k in range(5):
        here, there = weight + k, (weight + k).to("counting")
        for cpu, ours in zip(step(x, here.requires_grad_()), step(x.to("counting"), there.requires_grad_())):
            same_bits(ours.cpu(), cpu)
    assert counting.ran["tanh"] == 5


def test_a_graph_that_leads_from_one_device_to_another(counting):
    x = cg.randn(4, requires_grad=True)
    y = (x.exp().to("counting").sin() * 2).cpu() + x
    y.sum().backward()
    expected = 2 * x.exp().cos() * x.exp() + 1
    assert cg.allclose(x.grad, expected) and x.grad.device == devices.CPU
    assert counting.ran["sin"] == 1 and counting.ran["exp"] == 0


def test_only_passes_through_several_devices_go_by_tensors(counting):
    before = {*moves}
    x = cg.randn(4, requires_grad=True)
    there = x.to("counting").sin().cpu()
    assert leads_elsewhere(there) and not leads_elsewhere(x) and not leads_elsewhere(x.exp().detach())
    plain = x.exp().sum()
    both = plain + there.sum()
    assert not leads_elsewhere(plain) and leads_elsewhere(both)
    both.item()  # calls that wait keep what they are about
    del there, both
    assert moves <= before


def test_views_share_memory_on_another_device():
    x = cg.zeros(3, 4, device="counting")
    x[1] = 5
    x[:, 2].add_(1)
    x.view(12)[-1] = 7
    x.t()[0].mul_(2)
    assert x.tolist() == [[0, 0, 1, 0], [10, 5, 6, 5], [0, 0, 1, 7]]
    y = x.detach()
    y.zero_()
    assert not x.any() and x._version == y._version


def test_devices_are_not_mixed(counting):
    here, there, nowhere = cg.ones(2), cg.ones(2, device="counting"), cg.ones(2, device="meta")
    for call in (
        lambda: here + there,
        lambda: there @ here,
        lambda: there + nowhere,
        lambda: there.add_(here),
    ):
        with pytest.raises(
            RuntimeError, match=r"(?s)Expected all tensors to be on the same device.*at .*test_devices"
        ):
            call()
    assert (there + cg.tensor(2.0)).tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"can't convert counting:0 device type tensor to numpy"):
        there.numpy()
    assert there.cpu().numpy().tolist() == [1, 1] and repr(there) == "tensor([1., 1.], device='counting:0')"


def test_errors_do_not_speak_of_how_the_device_was_found(counting):
    with pytest.raises(RuntimeError, match=r"matmul|mm") as caught:
        cg.ones(2, 3, device="counting") @ cg.ones(2, 3, device="counting")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_is_saved_comes_back_on_its_device(tmp_path):
    model = cg.nn.Linear(2, 2).to("counting")
    twin = pickle.loads(pickle.dumps(model))
    same_bits(twin.weight.cpu(), model.weight.cpu())
    assert twin.weight.device == cg.device("counting:0")
    state = {**model.state_dict(), "row": model.weight.detach()[1], "leaf": model.weight}
    cg.save(state, tmp_path / "state.pt")
    for where, place in (("cpu", "cpu"), (None, "counting:0"), ({"counting:0": "cpu"}, "cpu")):
        loaded = cg.load(tmp_path / "state.pt", map_location=where)
        assert {str(x.device) for x in loaded.values()} == {place}
        for name, value in state.items():
            same_bits(loaded[name].cpu(), value.cpu())
        assert isinstance(loaded["leaf"], cg.nn.Parameter) and loaded["leaf"].requires_grad


def test_tensors_without_values_are_saved(tmp_path):
    model = torch.nn.Linear(3, 2, device="meta")
    torch.save(model.state_dict(), tmp_path / "theirs.pt")
    cg.save(cg.nn.Linear(3, 2, device="meta").state_dict(), tmp_path / "ours.pt")
    for module in MODULES:
        for name in ("ours.pt", "theirs.pt"):
            state = module.load(tmp_path / name)
            assert state["weight"].is_meta and state["weight"].stride() == (3, 1)
            assert tuple(state["bias"].shape) == (2,)


def test_a_device_that_is_not_there():
    for place in ("cuda", "mps", "xpu"):
        with pytest.raises((RuntimeError, AssertionError)):
            cg.ones(2, device=place)
    assert isinstance(cg.device("meta").type, str) and Counting.type not in ("cpu", "meta")
