"""GradScaler against PyTorch's: scales, stages, messages, and training in half precision."""

import copy
import pickle

import pytest
import torch

import cleargrad as cg
import cleargrad.optim

BOTH = pytest.mark.parametrize("lib", [torch, cg], ids=["torch", "cleargrad"])


def parameter(lib, value=1.0):
    p = lib.nn.Parameter(lib.full((2,), value))
    return p, lib.optim.SGD([p], lr=0.5)


def give(p, lib, *values):
    p.grad = lib.tensor(values)


def test_scales_over_many_iterations():
    """Growth, backoff and skipped steps, in the same order and to the last digit."""
    seen = []
    for lib in (torch, cg):
        p, optimizer = parameter(lib)
        scaler = lib.amp.GradScaler(
            "cpu", init_scale=3.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=3
        )
        rows = []
        for step in range(30):
            scaler.scale(lib.ones(()))
            bad = step in (4, 5, 17)
            give(p, lib, float("inf") if bad else 1.0 + step, float("nan") if step == 17 else 0.1)
            scaler.step(optimizer)
            scaler.update()
            rows.append((scaler.get_scale(), scaler._get_growth_tracker(), p.tolist(), scaler.state_dict()))
        seen.append(rows)
    assert seen[0] == seen[1]


def test_scale_stops_growing_before_infinity():
    seen = []
    for lib in (torch, cg):
        p, optimizer = parameter(lib)
        scaler = lib.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=1)
        for _ in range(4):
            scaler.scale(lib.ones(()))
            give(p, lib, 1.0, 1.0)
            scaler.step(optimizer)
            scaler.update()
        seen.append(scaler.get_scale())
    assert seen[0] == seen[1] == 2.0**127


def test_step_was_skipped():
    p, optimizer = parameter(cg)
    scaler = cg.amp.GradScaler("cpu")
    assert not scaler.step_was_skipped(optimizer)
    for value, skipped in ((1.0, False), (float("inf"), True), (float("nan"), True), (2.0, False)):
        scaler.scale(cg.ones(()))
        give(p, cg, value, 0.0)
        before = p.tolist()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.step_was_skipped(optimizer) is skipped
        assert (p.tolist() == before) is skipped
    assert not cg.amp.GradScaler("cpu", enabled=False).step_was_skipped(optimizer)


@BOTH
def test_large_finite_gradients_are_not_an_overflow(lib):
    p, optimizer = parameter(lib, 0.0)
    scaler = lib.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(lib.ones(()))
    give(p, lib, 3e38, 3e38)
    scaler.step(optimizer)
    assert p.tolist() == pytest.approx([-1.5e38, -1.5e38])


@BOTH
def test_outputs(lib):
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0)
    one = lib.ones(())
    assert scaler.get_scale() == 8.0
    assert scaler.scale(one).item() == 8.0
    tuple_, list_ = scaler.scale((one, [one, one * 2]))
    assert tuple_.item() == 8.0 and [x.item() for x in list_] == [8.0, 16.0]
    assert [x.item() for x in scaler.scale(x for x in [one])] == [8.0]
    with pytest.raises(ValueError, match=r"outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


@BOTH
def test_stages(lib):
    p, optimizer = parameter(lib)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0)
    with pytest.raises(AssertionError, match=r"Attempted unscale_ but _scale is None"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match=r"Attempted update but _scale is None"):
        scaler.update()
    scaler.scale(lib.ones(()))
    with pytest.raises(AssertionError, match=r"No inf checks were recorded for this optimizer."):
        scaler.step(optimizer)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(lib.ones(()))
    with pytest.raises(AssertionError, match=r"No inf checks were recorded prior to update."):
        scaler.update()
    give(p, lib, 4.0, 8.0)
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 2.0]
    with pytest.raises(
        RuntimeError, match=r"unscale_\(\) has already been called on this optimizer since the"
    ):
        scaler.unscale_(optimizer)
    with pytest.raises(
        RuntimeError, match=r"Closure use is not currently supported if GradScaler is enabled"
    ):
        scaler.step(optimizer, closure=lambda: None)
    scaler.step(optimizer)
    assert p.tolist() == [0.5, 0.0]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)."):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)."):
        scaler.step(optimizer)
    scaler.update()
    scaler.unscale_(optimizer)


@BOTH
def test_half_gradients(lib):
    for kind, fine in ((lib.float16, False), (lib.bfloat16, True)):
        p = lib.ones(2, dtype=kind, requires_grad=True)
        optimizer = lib.optim.SGD([p], lr=1.0)
        scaler = lib.amp.GradScaler("cpu", init_scale=2.0)
        scaler.scale(lib.ones(()))
        p.grad = lib.full((2,), 4.0, dtype=kind)
        if fine:
            scaler.unscale_(optimizer)
            assert p.grad.tolist() == [2.0, 2.0]
        else:
            with pytest.raises(ValueError, match=r"Attempting to unscale FP16 gradients."):
                scaler.unscale_(optimizer)


@BOTH
def test_new_scale_and_settings(lib):
    scaler = lib.amp.GradScaler("cpu")
    scaler.scale(lib.ones(()))
    scaler.update(5.0)
    assert scaler.get_scale() == 5.0
    scaler.update(lib.tensor(7.0))
    assert scaler.get_scale() == 7.0
    with pytest.raises(AssertionError, match=r"new_scale should be a float or a 1-element"):
        scaler.update(lib.ones(2))
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(5)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (
        3.0,
        0.1,
        5,
    )
    with pytest.raises(AssertionError, match=r"The growth factor must be > 1.0."):
        lib.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match=r"The backoff factor must be < 1.0."):
        lib.amp.GradScaler("cpu", backoff_factor=1.0)


@BOTH
def test_disabled(lib):
    with pytest.warns(UserWarning, match=r"GradScaler is enabled, but CUDA is not available.  Disabling."):
        scaler = lib.amp.GradScaler()
    p, optimizer = parameter(lib)
    loss = lib.ones(())
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    scaler.unscale_(optimizer)
    give(p, lib, 2.0, float("inf"))
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert p.tolist() == [0.0, float("-inf")] and not scaler.is_enabled()


@BOTH
def test_state(lib):
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0)
    scaler.load_state_dict(
        {
            "scale": 2.0,
            "growth_factor": 4.0,
            "backoff_factor": 0.25,
            "growth_interval": 2,
            "_growth_tracker": 1,
        }
    )
    p, optimizer = parameter(lib)
    scaler.scale(lib.ones(()))
    give(p, lib, 1.0, 1.0)
    scaler.step(optimizer)
    with pytest.raises(AssertionError, match=r"may only be pickled at the beginning of an iteration"):
        pickle.dumps(scaler)
    scaler.update()
    assert scaler.get_scale() == 8.0
    for other in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert other.state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match=r"The source state dict is empty"):
        scaler.load_state_dict({})


@BOTH
def test_two_optimizers(lib):
    (p, first), (q, second) = parameter(lib), parameter(lib)
    scaler = lib.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(lib.ones(()))
    give(p, lib, 2.0, 2.0)
    give(q, lib, float("inf"), 2.0)
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and q.tolist() == [1.0, 1.0] and scaler.get_scale() == 1.0


@BOTH
def test_optimizers_that_unscale_by_themselves(lib):
    class Fused(lib.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            self.seen = (self.grad_scale.item(), self.found_inf.item())

    p = lib.nn.Parameter(lib.ones(2))
    optimizer = Fused([p], lr=1.0)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(lib.ones(()))
    give(p, lib, 1.0, float("inf"))
    scaler.step(optimizer)
    assert optimizer.seen == (4.0, 1.0) and p.grad.tolist() == [1.0, float("inf")]
    assert not any(name in vars(optimizer) for name in ("grad_scale", "found_inf"))
    scaler.update()
    assert scaler.get_scale() == 2.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_training(dtype):
    """A network in half precision follows PyTorch's losses, and its scale."""
    losses = []
    for lib in (torch, cg):
        lib.manual_seed(0)
        w1, w2 = (lib.nn.Parameter(lib.randn(8, 8) * 0.3) for _ in range(2))
        x, y = lib.randn(16, 8), lib.randn(16, 8)
        optimizer = lib.optim.Adam([w1, w2], lr=0.01)
        scaler = lib.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=5)
        run = []
        for _ in range(40):
            optimizer.zero_grad()
            with lib.autocast("cpu", dtype=getattr(lib, dtype)):
                loss = lib.nn.functional.mse_loss(lib.tanh(x @ w1) @ w2, y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            run.append((loss.item(), scaler.get_scale()))
        losses.append(run)
    for (theirs, scale), (ours, our_scale) in zip(*losses, strict=True):
        assert ours == pytest.approx(theirs, rel=2e-2)
        assert our_scale == scale
