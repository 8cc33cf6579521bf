"""accumulate: small batches give the gradient, and the training run, of large ones."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch as oracle

import cleargrad as cg
from cleargrad import nn
from cleargrad.nn import functional as F
from cleargrad.nn.utils import clip_grad_norm_
from cleargrad.utils.data import DataLoader, IterableDataset, TensorDataset

IGNORED = -100


def model_of(seed=0, library=cg):
    library.manual_seed(seed)
    layers = library.nn
    return layers.Sequential(layers.Linear(6, 8), layers.Tanh(), layers.Linear(8, 5))


def gradients(model):
    return np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])


def weights(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


def far(result, reference):
    """The relative distance of two vectors."""
    return np.linalg.norm(result - reference) / np.linalg.norm(reference)


def sentences(lengths, seed=1):
    """Batches of two sentences each, padded to their own longest; the padding's targets are IGNORED."""
    cg.manual_seed(seed)
    batches = []
    for first, second in lengths:
        longest = max(first, second)
        x, y = cg.randn(2, longest, 6), cg.randint(0, 5, (2, longest))
        for row, length in enumerate((first, second)):
            y[row, length:] = IGNORED
        batches.append((x, y))
    return batches


LENGTHS = [(3, 9), (1, 1), (12, 2), (5, 7), (2, 1), (17, 4), (1, 3)]


def joined(batches):
    """The same tokens as one batch."""
    xs = [x.reshape(-1, 6) for x, _ in batches]
    ys = [y.reshape(-1) for _, y in batches]
    return cg.cat(xs), cg.cat(ys)


def token_mean(model, x, y, **options):
    return F.cross_entropy(model(x).reshape(-1, 5), y.reshape(-1), **options)


def by_mean(window, model, x, y):
    window.backward(token_mean(model, x, y), count=(y != IGNORED).sum())


def by_sum(window, model, x, y):
    window.backward(token_mean(model, x, y, reduction="sum"), (y != IGNORED).sum(), "sum")


def by_mask(window, model, x, y):
    mask = y != IGNORED
    losses = token_mean(model, x, y.clamp(min=0), reduction="none") * mask.reshape(-1)
    window.backward(losses.sum() / mask.sum(), count=mask.sum())


@pytest.mark.parametrize("add", [by_mean, by_sum, by_mask])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 50])
def test_gradient_is_that_of_the_large_batch(add, steps):
    batches, model = sentences(LENGTHS), model_of()
    optimizer = cg.optim.SGD(model.parameters(), lr=0.0)
    windows = cg.accumulate(batches, steps, optimizer)
    done = 0
    for window in windows:
        for x, y in window:
            add(window, model, x, y)
        found, loss, count = gradients(model), window.loss, window.count
        assert window.step()
        optimizer.zero_grad()
        x, y = joined(batches[done : done + steps])
        large = token_mean(model, x, y)
        large.backward()
        assert far(found, gradients(model)) < 1e-6
        assert loss == pytest.approx(large.item(), rel=1e-6)
        assert count == (y != IGNORED).sum().item()
        done += steps
    assert len(windows) == math.ceil(len(batches) / steps)


def test_mean_of_means_is_something_else():
    """If this were not so, the test above would show nothing."""
    batches, model = sentences(LENGTHS), model_of()
    for x, y in batches:
        (token_mean(model, x, y) / len(batches)).backward()
    found = gradients(model)
    model.zero_grad()
    token_mean(model, *joined(batches)).backward()
    assert far(found, gradients(model)) > 0.1


def test_count_may_be_a_sum_of_weights():
    batches, model = sentences(LENGTHS), model_of()
    weight = cg.tensor([0.1, 3.0, 1.0, 0.5, 2.0])
    optimizer = cg.optim.SGD(model.parameters(), lr=0.0)
    for window in cg.accumulate(batches, 7, optimizer):
        for x, y in window:
            window.backward(token_mean(model, x, y, weight=weight), count=weight[y[y != IGNORED]].sum())
        found = gradients(model)
        window.step()
    token_mean(model, *joined(batches), weight=weight).backward()
    assert far(found, gradients(model)) < 1e-6


def run_large(batches, steps, epochs, make):
    """The plain loop over large batches."""
    model, optimizer, scheduler = make()
    losses = []
    for _ in range(epochs):
        for start in range(0, len(batches), steps):
            x, y = joined(batches[start : start + steps])
            optimizer.zero_grad()
            loss = token_mean(model, x, y)
            loss.backward()
            clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses, weights(model)


def run_small(batches, steps, epochs, make, scaler=None):
    """The same with windows."""
    model, optimizer, scheduler = make()
    losses = []
    windows = cg.accumulate(batches, steps, optimizer, scaler=scaler)
    for _ in range(epochs):
        for window in windows:
            for x, y in window:
                window.backward(token_mean(model, x, y), count=(y != IGNORED).sum())
            clip_grad_norm_(model.parameters(), 0.5)
            assert window.step()
            scheduler.step()
            losses.append(window.loss)
    return losses, weights(model)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("scaled", [False, True])
def test_whole_run_is_that_of_large_batches(kind, scaled):
    """Clipping, a schedule, momentum, a short last window, twelve epochs; the scale is no power of two."""

    def make():
        model = model_of()
        options = {"momentum": 0.9, "lr": 0.05} if kind == "SGD" else {"lr": 0.01}
        optimizer = getattr(cg.optim, kind)(model.parameters(), weight_decay=0.01, **options)
        return model, optimizer, cg.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)

    batches = sentences(LENGTHS)
    scaler = cg.amp.GradScaler("cpu", init_scale=1000.0) if scaled else None
    large, small = run_large(batches, 3, 12, make), run_small(batches, 3, 12, make, scaler)
    assert len(large[0]) == 36 and large[0][-1] < large[0][0]
    np.testing.assert_allclose(small[0], large[0], rtol=1e-5)
    assert far(small[1], large[1]) < 1e-5


def test_batches_of_equal_size_give_the_bits_of_the_plain_pattern():
    batches = [(cg.randn(4, 6), cg.randint(0, 5, (4,))) for _ in range(3)]
    model = model_of()
    for x, y in batches:
        (token_mean(model, x, y) / 3).backward()
    plain = gradients(model)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.0)
    for window in cg.accumulate(batches, 3, optimizer):
        for x, y in window:
            window.backward(token_mean(model, x, y), len(x))
        assert (gradients(model) == plain).all()
        window.step()


@pytest.mark.parametrize("set_to_none", [True, False])
def test_plain_pattern_agrees_with_torch(set_to_none):
    """loss / k, backward, a step at every k-th batch and at the end of an epoch: as ported scripts do it."""

    def program(torch):
        model = model_of(3, torch)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        data = torch.utils.data.TensorDataset(torch.randn(22, 6), torch.randint(0, 5, (22,)))
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
        losses = []
        for _ in range(3):
            for number, (x, y) in enumerate(loader, 1):
                loss = torch.nn.functional.cross_entropy(model(x), y)
                (loss / 4).backward()
                losses.append(loss.item())
                if number % 4 == 0 or number == len(loader):
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=set_to_none)
        return losses, weights(model)

    (losses, ours), (expected, theirs) = program(cg), program(oracle)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


# What comes in ----------------------------------------------------------------------------------------------


class Stream(IterableDataset):
    def __iter__(self):
        return iter(cg.arange(11.0).unbind())


@pytest.mark.parametrize("kind", ["generator", "stream", "loader"])
def test_batches_of_unknown_length(kind):
    weight = cg.zeros((), requires_grad=True)
    optimizer = cg.optim.SGD([weight], lr=1.0)
    if kind == "generator":
        batches = (cg.arange(float(a), float(min(a + 2, 11))) for a in range(0, 11, 2))
    elif kind == "stream":
        batches = DataLoader(Stream(), batch_size=2)
    else:
        batches = DataLoader(cg.arange(11.0), batch_size=2)
    means = []
    for window in cg.accumulate(batches, 4, optimizer):
        for x in window:
            window.backward(weight * x.sum(), len(x), "sum")
        means.append(weight.grad.item())
        window.step()
    assert means == [3.5, 9.0]  # the means of 0 to 7, and of 8 to 10
    assert weight.grad is None


def test_batches_are_not_read_ahead():
    """What is drawn for a batch must come behind what the batch before has drawn, as in the plain loop."""
    events = []

    def batches():
        for number in range(5):
            events.append(f"read {number}")
            yield number

    weight = cg.zeros((), requires_grad=True)
    for window in cg.accumulate(batches(), 2, cg.optim.SGD([weight], lr=1.0)):
        for number in window:
            window.backward(weight * number, 1)
            events.append(f"used {number}")
        window.step()
        events.append("step")
    assert events == [
        *("read 0", "used 0", "read 1", "used 1", "step"),
        *("read 2", "used 2", "read 3", "used 3", "step"),
        *("read 4", "used 4", "step"),
    ]


def test_length_is_the_number_of_steps():
    optimizer = cg.optim.SGD([cg.zeros((), requires_grad=True)])
    assert [len(cg.accumulate(range(n), 4, optimizer)) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    with pytest.raises(TypeError):
        len(cg.accumulate(iter(range(3)), 4, optimizer))


def test_no_batches_no_windows():
    optimizer = cg.optim.SGD([cg.zeros((), requires_grad=True)])
    assert list(cg.accumulate([], 4, optimizer)) == []


# Elements that do not count ---------------------------------------------------------------------------------


def test_batch_without_elements_adds_nothing():
    """The mean over nothing is nan; the large batch would not have noticed."""
    batches, model = sentences(LENGTHS[:3]), model_of()
    batches[1] = (batches[1][0], cg.full_like(batches[1][1], IGNORED))
    optimizer = cg.optim.SGD(model.parameters(), lr=0.0)
    for order in (batches, batches[1:], batches[:2]):
        for window in cg.accumulate(order, 3, optimizer):
            for x, y in window:
                by_mean(window, model, x, y)
            found = gradients(model)
            window.step()
        token_mean(model, *joined(order)).backward()
        assert far(found, gradients(model)) < 1e-6


def test_window_without_elements_makes_no_step():
    x, y = cg.randn(1, 4, 6), cg.full((1, 4), IGNORED)
    model = model_of()
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.1)
    before = weights(model)
    for scaler in (None, cg.amp.GradScaler("cpu")):
        for window in cg.accumulate([(x, y)] * 2, 2, optimizer, scaler=scaler):
            for x, y in window:
                by_mean(window, model, x, y)
            assert math.isnan(window.loss)
            assert window.step() is False
    assert (weights(model) == before).all()


# Mixed precision --------------------------------------------------------------------------------------------


def test_sum_over_many_elements_does_not_overflow_float16():
    """Added up undivided, 4096 elements times the scale would be far beyond 65504, and the step skipped."""
    cg.manual_seed(0)
    model = nn.Linear(16, 16)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    scaler = cg.amp.GradScaler("cpu", init_scale=2.0**13)
    batches = [(cg.randn(n, 16), cg.randn(n, 16)) for n in (1024, 1000, 2072)]

    def loss_of(x, y):
        with cg.autocast("cpu", dtype=cg.float16):
            return F.mse_loss(model(x).float(), y, reduction="sum")

    for window in cg.accumulate(batches, 3, optimizer, scaler=scaler):
        for x, y in window:
            window.backward(loss_of(x, y), y.numel(), "sum")
        found = gradients(model)
        assert window.step()
    scaler.scale(loss_of(*batches[0])).backward()
    assert not np.isfinite(gradients(model)).all()
    model.zero_grad()
    x, y = (cg.cat(parts) for parts in zip(*batches))
    cg.manual_seed(0)
    model = nn.Linear(16, 16)
    F.mse_loss(model(x), y).backward()
    assert far(found, gradients(model)) < 2e-3


def test_overflow_skips_the_step_and_shrinks_the_scale():
    weight = cg.ones(3, requires_grad=True)
    optimizer = cg.optim.SGD([weight], lr=0.1)
    scaler = cg.amp.GradScaler("cpu", init_scale=8.0)
    made = []
    for window in cg.accumulate([1.0, math.inf, 1.0, 3.0], 2, optimizer, scaler=scaler):
        for factor in window:
            window.backward((weight * factor).sum(), 1)
        made.append(window.step())
    assert made == [False, True]
    assert scaler.get_scale() == 4.0
    np.testing.assert_allclose(weight.detach().numpy(), np.full(3, 0.8), rtol=1e-6)


def test_disabled_scaler():
    weight = cg.ones(3, requires_grad=True)
    optimizer = cg.optim.SGD([weight], lr=0.1)
    scaler = cg.amp.GradScaler("cpu", enabled=False)
    for window in cg.accumulate([1.0, 3.0], 2, optimizer, scaler=scaler):
        for factor in window:
            window.backward((weight * factor).sum(), 1)
        assert weight.grad.tolist() == [2.0] * 3
        assert window.step()


# Several optimizers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
def test_several_optimizers_share_a_loss(scaled):
    batches, model = sentences(LENGTHS), model_of()
    matrices = cg.optim.SGD([model[0].weight, model[2].weight], lr=0.1)
    rest = cg.optim.Adam([model[0].bias, model[2].bias])
    scaler = cg.amp.GradScaler("cpu") if scaled else None
    for window in cg.accumulate(batches, 7, [matrices, rest], scaler=scaler):
        for x, y in window:
            by_mean(window, model, x, y)
        found = gradients(model)
        x, y = joined(batches)
        expected = cg.autograd.grad(token_mean(model, x, y), list(model.parameters()))
        assert window.step()
    assert far(found, np.concatenate([g.numpy().ravel() for g in expected])) < 1e-6


def test_losses_with_an_optimizer_each():
    """As for a generator and a discriminator: each loss has its own parameters and its own count."""
    first, second = cg.tensor(2.0, requires_grad=True), cg.tensor(3.0, requires_grad=True)
    one, other = (cg.optim.SGD([p], lr=1.0) for p in (first, second))
    for window in cg.accumulate([cg.ones(2), cg.ones(3)], 2, [one, other]):
        for x in window:
            window.backward((first * second * x).sum(), len(x), "sum", optimizer=one)
            window.backward((first * second * x).sum(), 1, "sum", optimizer=other)
        assert (first.grad.item(), second.grad.item()) == pytest.approx((3.0, 2 * 5 / 2))
        assert window.step()
    with pytest.raises(ValueError, match="none of those"):
        for window in cg.accumulate([cg.ones(2)], 2, one):
            window.backward(first * second, 1, optimizer=other)


# Ways to leave ----------------------------------------------------------------------------------------------


class Broken(Exception):
    pass


@pytest.mark.parametrize("place", ["body", "data", "clipping", "step"])
@pytest.mark.parametrize("scaled", [False, True])
def test_exception_leaves_a_clean_state(place, scaled):
    """What happens afterwards is what happens in a fresh process."""

    def batches(failing):
        yield from data[:3]
        if failing == "data":
            raise Broken
        yield from data[3:]

    def run(failing=None):
        windows = cg.accumulate(batches(failing), 2, optimizer, scaler=scaler)  # a name must not keep it open
        for number, window in enumerate(windows):
            for x, y in window:
                by_mean(window, model, x, y)
                if failing == "body" and number == 1:
                    raise Broken
            if failing == "clipping" and number == 1:
                raise Broken
            window.step()
            if failing == "step" and number == 1:
                raise Broken

    data, model = sentences(LENGTHS), model_of()
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = cg.amp.GradScaler("cpu") if scaled else None
    with pytest.raises(Broken) as failure:
        run(place)
    assert failure.value.__traceback__ is not None
    assert all(p.grad is None for p in model.parameters())
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    run()
    continued = weights(model)

    model = model_of()
    model.load_state_dict(saved[0])
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(saved[1])
    scaler = cg.amp.GradScaler("cpu") if scaled else None
    run()
    assert (weights(model) == continued).all()


def test_old_gradients_do_not_count():
    weight = cg.ones((), requires_grad=True)
    weight.grad = cg.tensor(100.0)
    for window in cg.accumulate([1.0, 2.0], 2, cg.optim.SGD([weight], lr=1.0)):
        for factor in window:
            window.backward(weight * factor, 1)
        window.step()
    assert weight.item() == pytest.approx(-0.5)


def test_window_may_end_early():
    """A token budget: the next window begins with the next batch."""
    weight = cg.zeros((), requires_grad=True)
    optimizer = cg.optim.SGD([weight], lr=1.0)
    counts, means = [], []
    for window in cg.accumulate(sentences(LENGTHS), 100, optimizer):
        for _, y in window:
            tokens = (y != IGNORED).sum()
            window.backward(weight * tokens, tokens, "sum")
            if window.count >= 20:
                break
        counts.append(window.count)
        window.step()
        means.append(weight.grad.item())
    assert counts == [28, 36, 4]
    assert means == pytest.approx([1.0, 1.0, 1.0])


def test_break_leaves_nothing():
    weight = cg.ones((), requires_grad=True)
    optimizer = cg.optim.SGD([weight], lr=1.0)
    for window in cg.accumulate([1.0] * 4, 4, optimizer):
        for factor in window:
            window.backward(weight * factor, 1)
            break
        break
    assert weight.grad is None and weight.item() == 1.0


def test_forgotten_step_is_an_error():
    weight = cg.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match="without a step"):
        for window in cg.accumulate([1.0] * 4, 2, cg.optim.SGD([weight])):
            for factor in window:
                window.backward(weight * factor, 1)
    assert weight.grad is None


def test_skip():
    weight = cg.ones((), requires_grad=True)
    scaler = cg.amp.GradScaler("cpu")
    windows = cg.accumulate([1.0, math.nan, 1.0, 1.0], 2, cg.optim.SGD([weight], lr=1.0), scaler=scaler)
    for window in windows:
        for factor in window:
            window.backward(weight * factor, 1)
        if math.isnan(window.loss):
            window.skip()
            continue
        assert window.step()
    assert weight.item() == 0.0


def test_window_is_used_once():
    weight = cg.ones((), requires_grad=True)
    for window in cg.accumulate([1.0], 2, cg.optim.SGD([weight])):
        for factor in window:
            window.backward(weight * factor, 1)
        with pytest.raises(RuntimeError, match="divided already"):
            window.backward(weight * 1.0, 1)
        window.step()
        with pytest.raises(RuntimeError, match="stepped or skipped"):
            window.step()
        assert list(window) == []


@pytest.mark.parametrize("steps", [0, -1, 2.0, True])
def test_steps_must_be_a_count(steps):
    with pytest.raises(ValueError, match="positive integer"):
        cg.accumulate([], steps, [])


@pytest.mark.parametrize("count", [-1, math.nan, math.inf])
def test_wrong_counts(count):
    weight = cg.ones((), requires_grad=True)
    with pytest.raises(ValueError, match="number of elements"):
        for window in cg.accumulate([1.0], 2, cg.optim.SGD([weight])):
            window.backward(weight * 1.0, count)
    with pytest.raises(ValueError, match="mean"):
        for window in cg.accumulate([1.0], 2, cg.optim.SGD([weight])):
            window.backward(weight * 1.0, 1, "average")


def test_schedule_over_windows():
    """len(windows) is what a schedule needs to know."""
    model = model_of()
    loader = DataLoader(TensorDataset(cg.randn(22, 6), cg.randint(0, 5, (22,))), batch_size=3, shuffle=True)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    windows = cg.accumulate(loader, 3, optimizer)
    scheduler = cg.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=2, steps_per_epoch=len(windows))
    for _ in range(2):
        for window in windows:
            for x, y in window:
                window.backward(token_mean(model, x, y), len(x))
            if window.step():
                scheduler.step()
    assert scheduler.last_epoch == 2 * 3
