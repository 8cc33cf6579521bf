"""Attention in compiled programs and in large eager calls: native kernels, torch's numbers, little memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch as oracle

import cleargrad as torch
from cleargrad.devices.cpu.programs.images import Native
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import Graph, Recorder
from cleargrad.schedule.fuse import Nest
from cleargrad.schedule.statements import Host, Product
from tests.bits import same_bits

BATCH, LENGTH, HEADS, WIDTH = 3, 70, 4, 32


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def heads_of(library, x, mask=None, causal=False):
    """Self-attention of parts of one projection, as transformers have it."""
    batch, length, width = x.shape
    size = width // 3 // HEADS
    q, k, v = (part.view(batch, length, HEADS, size).transpose(1, 2) for part in x.split(width // 3, dim=2))
    seen = library.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    return seen.transpose(1, 2).reshape(batch, length, width // 3)


def recorded(function, *arrays: np.ndarray) -> Graph:
    with Recorder() as recorder:
        graph = recorder.finish(list(function(*(recorder.input(torch.tensor(array)) for array in arrays))))
    graph.input_arrays = list(arrays)
    return graph


MASKS = {
    "none": None,
    "padding": np.random.default_rng(1).random((BATCH, 1, 1, LENGTH)) > 0.3,
    "square": np.random.default_rng(2).random((LENGTH, LENGTH)) > 0.3,
    "added": numbers(HEADS, LENGTH, LENGTH, seed=3),
    "nothing": np.zeros((LENGTH, LENGTH), bool),
}


@pytest.mark.parametrize(("mask", "causal"), [*((mask, False) for mask in MASKS), ("none", True)])
def test_compiled_and_eager_steps_are_torchs(mask: str, causal: bool) -> None:
    x, g = numbers(BATCH, LENGTH, 3 * HEADS * WIDTH), numbers(BATCH, LENGTH, HEADS * WIDTH, seed=5)

    def run(library, compiled: bool = False):
        given = library.tensor(x, requires_grad=True)
        chosen = None if MASKS[mask] is None else library.tensor(MASKS[mask])
        weight = library.tensor(g)

        def step(given):
            given.grad = None
            out = heads_of(library, given, chosen, causal)
            (out * weight).sum().backward()
            return out

        taken = library.compile(step) if compiled else step
        for _ in range(3 if compiled else 1):
            out = taken(given)
        return out.detach().numpy(), given.grad.numpy()

    expected = run(oracle)
    for compiled, eager, other in zip(run(torch, compiled=True), run(torch), expected, strict=True):
        same_bits(compiled, eager)
        np.testing.assert_allclose(eager, other, rtol=1e-4, atol=2e-5)


def step_of_projection(x, w):
    """A projection, attention and the gradient of the projection's weight."""
    w = w.detach().requires_grad_()
    out = heads_of(torch, x @ w, causal=True)
    return [out, *torch.autograd.grad((out * out).sum(), [w])]


def test_nothing_is_copied_around_the_kernels() -> None:
    """Heads are read and written inside of the projection's memory."""
    arrays = (numbers(BATCH, LENGTH, 24), numbers(24, 3 * HEADS * WIDTH, seed=1) / 5)
    graph = recorded(lambda x, w: step_of_projection(x, w)[1:], *arrays)
    program = Program(graph)
    natives = [entry for entry in program.entries if isinstance(entry, Native)]
    assert len(natives) == 2
    assert not any(isinstance(entry, Host) for entry in program.entries)
    assert len({load.buffer for load in natives[1].results.values()}) == 1
    large = [entry for entry in program.entries if isinstance(entry, Nest) and entry.members[0].kept]
    assert len(large) <= 3  # the gradient of the square, and sums over the batch
    assert sum(isinstance(entry, Product) for entry in program.entries) >= 2
    (actual,) = program.run(list(arrays))
    same_bits(actual, step_of_projection(*map(torch.tensor, arrays))[1])


def test_long_sequences_take_little_memory() -> None:
    length = 2048
    x = numbers(1, length, 3 * HEADS * 16)

    def step(x):
        x = x.detach().requires_grad_()
        out = heads_of(torch, x, causal=True)
        return torch.autograd.grad((out * out).sum(), [x])

    program = Program(recorded(step, x))
    scores = HEADS * length * length * 4
    assert program.size < scores / 16
    assert np.isfinite(program.run([x])[0]).all()


def test_gradients_of_gradients_and_masks_with_gradients_are_made_of_parts() -> None:
    x, bias = numbers(1, 12, 3 * HEADS * 4), numbers(12, 12, seed=1)

    def twice(library):
        given, added = library.tensor(x, requires_grad=True), library.tensor(bias, requires_grad=True)
        attention = library.nn.attention
        with attention.sdpa_kernel(
            attention.SDPBackend.MATH
        ):  # torch's other kernels have no second gradient
            out = (heads_of(library, given) ** 2).sum() + (heads_of(library, given, added) ** 2).sum()
        (first,) = library.autograd.grad(out, [given], create_graph=True)
        return [part.numpy() for part in library.autograd.grad((first**2).sum(), [given, added])]

    for one, other in zip(twice(torch), twice(oracle), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_other_dtypes_and_shared_heads() -> None:
    q, k, v = (numbers(2, heads, 40, 16, seed=heads) for heads in (8, 2, 4))
    for kind in ("float64", "bfloat16"):
        results = []
        for library in (torch, oracle):
            given = [library.tensor(x).to(getattr(library, kind)) for x in (q, k, v)]
            attend = library.nn.functional.scaled_dot_product_attention
            step = library.compile(attend) if library is torch else attend
            outs = [step(*given, enable_gqa=True) for _ in range(3)]
            if library is torch:
                same_bits(outs[-1], attend(*given, enable_gqa=True))
            results.append(outs[-1].to(library.float32).numpy())
        np.testing.assert_allclose(*results, rtol=0, atol=1e-5 if kind == "float64" else 0.02)
