"""Small training programs on a GPU, whatever people do in them: calls that wait give the bits of single calls, and
both the numbers of the CPU, but for rounding."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad import nn
from cleargrad.compile import beside
from cleargrad.compile.script import eager, waiting
from cleargrad.devices.cuda.driver import Cuda

F = nn.functional
PROGRAMS: dict[str, Callable[[str], Iterator]] = {}  # generators of what is compared, a step at a time
RANDOM = {"dropout", "noise"}  # whose numbers are other ones on the CPU
ROUNDED = {"autocast", "scaler"}  # half precision, which devices round at other places

pytestmark = pytest.mark.filterwarnings("ignore")


def program(function: Callable[[str], Iterator]) -> Callable[[str], Iterator]:
    PROGRAMS[function.__name__] = function
    return function


def mlp(place: str, *between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *between, nn.Tanh(), nn.Linear(8, 3)).to(place)


def batches(place: str, steps: int = 6, size: int = 5) -> Iterator[tuple[cg.Tensor, cg.Tensor]]:
    random = np.random.default_rng(1)
    for _ in range(steps):
        x = cg.tensor(random.standard_normal((size, 6)).astype(np.float32), device=place)
        yield x, cg.tensor(random.integers(3, size=size), device=place)


@program
def looks(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(batches(place)):
        out = model(x)
        loss = F.cross_entropy(out, y)
        if step % 2:
            yield loss.item()
        if out.argmax(1)[0] == y[0]:
            loss = loss * 0.5
        optimizer.zero_grad()
        loss.backward()
        yield float(model[0].weight.grad.norm())
        optimizer.step()
        assert "cuda" in repr(loss) or place == "cpu"
        yield loss


@program
def writes(place: str) -> Iterator:
    weight = cg.linspace(-1, 1, 18).reshape(6, 3).to(place).requires_grad_()
    total = cg.zeros(3, device=place)
    for x, _ in batches(place):
        hidden = x @ weight
        hidden[0] = 0
        hidden[:, 1].mul_(2)
        loss = hidden.square().mean()
        loss.backward()
        with cg.no_grad():
            total += hidden.sum(0)
            total[0].clamp_(-1, 1)
            weight -= 0.1 * weight.grad
            weight.grad.zero_()
        yield loss, total.clone()
    yield weight


@program
def views(place: str) -> Iterator:
    model = mlp(place)
    memory = cg.zeros(4, 6, device=place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (x, y) in enumerate(batches(place)):
        row = memory[step % 4]
        row.copy_(x[0])
        tail = memory.t()[:3].reshape(-1)
        mixed = cg.cat([x[:, :3], x[:, 3:].flip(0)], 1)
        loss = F.cross_entropy(model(mixed), y) + model(memory).square().mean() + tail.sum() * 0
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, memory.view(24), model[2].weight.t()


@program
def hooks(place: str) -> Iterator:
    model, seen = mlp(place), []
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    model[0].register_forward_hook(lambda module, given, out: out * 1.5)
    model[1].register_full_backward_hook(lambda module, grads, outs: seen.append(outs[0].abs().sum()))
    model[2].weight.register_hook(lambda grad: grad * 0.5)
    model[2].bias.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.sum()))
    for x, y in batches(place):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield seen[-1], seen[-2]
    yield list(model.parameters())


@program
def accumulation(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(batches(place, 12)):
        (F.cross_entropy(model(x), y) / 3).backward()
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
            yield list(model.parameters())


@program
def varying_parts(place: str) -> Iterator:
    model, number = mlp(place), 0
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.01)
    data = list(batches(place, 20))
    for count in (1, 3, 2, 2, 1, 3, 2, 3):
        for x, y in data[number : number + count]:
            (F.cross_entropy(model(x), y) / count).backward()
        number += count
        optimizer.step()
        optimizer.zero_grad()
        yield list(model.parameters())


@program
def clipping(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.Adam(model.parameters(), lr=0.05)
    for x, y in batches(place, 8):
        optimizer.zero_grad()
        (F.cross_entropy(model(x), y) * 7).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        yield norm
    yield list(model.parameters())


@program
def schedulers(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    first = cg.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    second = cg.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    schedule = cg.optim.lr_scheduler.SequentialLR(optimizer, [first, second], [3])
    for x, y in batches(place, 8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        yield loss, schedule.get_last_lr()[0]


@program
def plateau(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.RMSprop(model.parameters(), lr=0.05)
    schedule = cg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for x, y in batches(place):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step(loss)
        yield loss, optimizer.param_groups[0]["lr"]


@program
def zeroed(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.Adagrad(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(batches(place, 8)):
        optimizer.zero_grad(set_to_none=step % 3 == 0)
        if step % 4 == 3:
            assert (model[0].weight.grad is None) == (step % 3 == 0)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield model[0].weight.grad, model[0].weight


@program
def states(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.02)
    kept: Any = None
    for step, (x, y) in enumerate(batches(place, 8)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step == 2:
            file = io.BytesIO()
            cg.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        if step == 4:
            file.seek(0)
            found = cg.load(file, map_location=place)
            model.load_state_dict(found["model"])
            optimizer.load_state_dict(found["optimizer"])
            yield [value - kept[name] for name, value in model.state_dict().items()]
        yield list(model.parameters())


@program
def moving(place: str) -> Iterator:
    model, table = mlp(place), nn.Embedding(7, 6)  # the table stays on the CPU
    optimizer = cg.optim.SGD([*model.parameters(), *table.parameters()], lr=0.1)
    random = np.random.default_rng(3)
    mean = cg.zeros(3)
    for step in range(6):
        rows = table(cg.tensor(random.integers(7, size=4)))
        out = model(rows.to(place, non_blocking=True))
        there = out.cpu()
        mean = 0.5 * mean + 0.5 * there.detach().mean(0)
        loss = there.square().sum() + (out - mean.to(place)).abs().mean().to("cpu")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, mean, table.weight, model[0].weight.cpu()
        if step == 3:
            model.to("cpu").to(place)


@program
def autocast(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.01)
    for x, y in batches(place):
        with cg.autocast(place, dtype=cg.bfloat16):
            out = model(x)
            assert out.dtype is cg.bfloat16
            loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, model[0].weight


@program
def scaler(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    grads = cg.amp.GradScaler(place, init_scale=2.0**10, growth_interval=2)
    for step, (x, y) in enumerate(batches(place, 8)):
        with cg.autocast(place, dtype=cg.float16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        if step in (2, 5):
            loss = loss * 3e38 * 10  # too large for any gradient
        grads.scale(loss).backward()
        grads.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grads.step(optimizer)
        grads.update()
        yield grads.get_scale(), model[0].weight


@program
def dropout(place: str) -> Iterator:
    model = mlp(place, nn.Dropout(0.4))
    optimizer = cg.optim.Adam(model.parameters(), lr=0.02)
    for step, (x, y) in enumerate(batches(place)):
        model.train(step % 3 != 2)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, model[0].weight


@program
def noise(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.02)
    for x, y in batches(place):
        x = x + 0.1 * cg.randn_like(x)
        x[cg.rand(5, device=place) > 0.7] = 0
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with cg.no_grad():
            model[0].weight.add_(cg.randn(8, 6, device=place), alpha=0.01)
        yield loss, model[0].weight


@program
def batch_norm(place: str) -> Iterator:
    model = mlp(place, nn.BatchNorm1d(8))
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(batches(place, 8)):
        if step % 3 == 2:
            model.eval()
            with cg.no_grad():
                yield F.cross_entropy(model(x), y)
            model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield list(model.buffers()), model[0].weight


@program
def averages(place: str) -> Iterator:
    model, slow = mlp(place), mlp(place)
    slow.load_state_dict(model.state_dict())
    slow.requires_grad_(False)
    other = cg.optim.swa_utils.AveragedModel(model)
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.02)
    for x, y in batches(place):
        loss = F.cross_entropy(model(x), y) + (model(x) - slow(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with cg.no_grad():
            for mean, now in zip(slow.parameters(), model.parameters()):
                mean.lerp_(now, 0.1)
        other.update_parameters(model)
        yield loss, list(slow.parameters()), list(other.parameters())


@program
def closures(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=4)
    x, y = next(batches(place))

    def closure() -> cg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        yield optimizer.step(closure), model[0].weight


@program
def compiled(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @cg.compile
    def loss_of(x: cg.Tensor, y: cg.Tensor) -> cg.Tensor:
        return F.cross_entropy(model(x), y)

    for x, y in batches(place, 8):
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, loss_of(x, y).detach(), model[2].weight


@program
def compiled_steps(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.02)

    @cg.compile
    def step(x: cg.Tensor, y: cg.Tensor) -> cg.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for x, y in batches(place, 8):
        yield step(x * 2, y), model[2].weight


@program
def last_batches(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(5):
        for size in (5, 5, 2):
            x, y = next(batches(place, 1, size))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
        yield loss, model[0].weight


@program
def recurrent(place: str) -> Iterator:
    net, head = nn.LSTM(6, 4, batch_first=True).to(place), nn.Linear(4, 3).to(place)
    optimizer = cg.optim.Adam([*net.parameters(), *head.parameters()], lr=0.02)
    state: Any = None
    for x, y in batches(place):
        out, state = net(x.unsqueeze(0), state)
        state = tuple([part.detach() for part in state])
        loss = F.cross_entropy(head(out[0]), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        yield loss, state, head.weight


@program
def two_networks(place: str) -> Iterator:
    maker, critic = nn.Linear(4, 6).to(place), nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(), nn.Linear(5, 1))
    critic.to(place)
    slow, quick = cg.optim.Adam(maker.parameters(), 0.01), cg.optim.Adam(critic.parameters(), 0.02)
    for x, _ in batches(place):
        made = maker(x[:, :4])
        quick.zero_grad()
        right, wrong = critic(x), critic(made.detach())
        loss = F.binary_cross_entropy_with_logits(right, cg.ones_like(right))
        loss = loss + F.binary_cross_entropy_with_logits(wrong, cg.zeros_like(wrong))
        loss.backward()
        quick.step()
        slow.zero_grad()
        other = F.softplus(-critic(made)).mean()
        other.backward()
        slow.step()
        yield loss, other, maker.weight


@program
def penalty(place: str) -> Iterator:
    model = mlp(place)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(place):
        x.requires_grad_()
        out = F.cross_entropy(model(x), y)
        (grad,) = cg.autograd.grad(out, x, create_graph=True)
        loss = out + (grad.norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, grad, model[0].weight


@program
def tokens(place: str) -> Iterator:
    table, layer = nn.Embedding(9, 8).to(place), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    layer.to(place)
    weights = [*table.parameters(), *layer.parameters()]
    groups = [{"params": weights[:1], "weight_decay": 0.0}, {"params": weights[1:], "lr": 0.005}]
    optimizer = cg.optim.AdamW(groups, lr=0.01)
    random = np.random.default_rng(5)
    for _ in range(6):
        text = cg.tensor(random.integers(9, size=(2, 5)), device=place)
        hidden = layer(table(text), src_mask=nn.Transformer.generate_square_subsequent_mask(5).to(place))
        loss = F.cross_entropy((hidden @ table.weight.t())[:, :-1].flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss, table.weight


@program
def layouts(place: str) -> Iterator:
    for _ in range(5):
        x, y = (cg.arange(12.0, device=place).reshape(3, 4).requires_grad_() for _ in range(2))
        leaf = cg.arange(12.0, device=place).reshape(4, 3).t().requires_grad_()
        found = [*cg.autograd.grad(x.sum(), x), *cg.autograd.grad((x.sum(1) * 2).sum(), x)]
        found += cg.autograd.grad((cg.cat([x, y], 1) * cg.arange(8.0, device=place)).sum(), [x, y])
        found += cg.autograd.grad((leaf * x).sum(), [leaf, x])
        ((leaf @ leaf.t()).sum() + (x.t() @ y).square().sum()).backward()
        found += [x.grad, y.grad]
        yield found, [part for each in found for part in (each[1:], each.t()[-1])]
        yield [each.stride() for each in found], leaf.grad


# Running them ----------------------------------------------------------------------------------------------


def arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from arrays(each)
    elif isinstance(value, cg.Tensor):
        yield value.detach().cpu().float().numpy().copy()
    else:
        yield np.asarray(value)


def found(name: str, place: str, wait: bool) -> list[np.ndarray]:
    """All that a program gives; what it gave at a step is looked at after the next one."""
    cg.manual_seed(4)
    results: list[np.ndarray] = []
    with waiting() if wait else eager():
        late: Any = ()
        for value in PROGRAMS[name](place):
            results += arrays(late)
            late = copied(value)
            beside.wait()  # programs take over as soon as they can
        results += arrays(late)
    return results


def copied(value: Any) -> Any:
    """What is written by later steps, as it is now."""
    if isinstance(value, (list, tuple)):
        return [copied(each) for each in value]
    return value.detach().clone() if isinstance(value, cg.Tensor) else value


@pytest.mark.eager
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(cuda: Cuda, name: str) -> None:
    alone = found(name, "cuda", wait=False)
    together = found(name, "cuda", wait=True)
    assert [x.tobytes() for x in together] == [x.tobytes() for x in alone]
    if name not in RANDOM:
        cpu = found(name, "cpu", wait=False)
        bound = 0.05 if name in ROUNDED else 2e-4
        for ours, theirs in zip(alone, cpu, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound)
