"""Random functions give PyTorch's numbers, bit for bit, call after call from one seed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg

CALLS = {
    "rand": lambda m: m.rand(3, 4),
    "rand of few": lambda m: m.rand(()),
    "rand double": lambda m: m.rand((5,), dtype=m.float64),
    "rand half": lambda m: m.rand(5, dtype=m.float16),
    "rand bfloat16": lambda m: m.rand(size=(5,), dtype=m.bfloat16),
    "rand out": lambda m: m.rand(2, 2, out=m.empty(2, 2, dtype=m.float64)),
    "randn small": lambda m: m.randn(7),
    "randn": lambda m: m.randn(3, 9),
    "randn double": lambda m: m.randn(19, dtype=m.float64),
    "randn complex": lambda m: m.randn(19, dtype=m.complex64),
    "randint": lambda m: m.randint(10, (6,)),
    "randint low": lambda m: m.randint(-4, 2**40, (6,)),
    "randint float": lambda m: m.randint(low=3, high=9, size=(6,), dtype=m.float32),
    "randint bool": lambda m: m.randint(2, (9,), dtype=m.bool),
    "randperm": lambda m: m.randperm(30),
    "randperm int32": lambda m: m.randperm(7, dtype=m.int32),
    "rand_like": lambda m: m.rand_like(m.ones(3, 4)),
    "rand_like transposed": lambda m: m.rand_like(m.ones(3, 4).t()),
    "randn_like transposed": lambda m: m.randn_like(m.ones(5, 6).t()),
    "randn_like with gaps": lambda m: m.randn_like(m.ones(5, 12)[:, ::2]),
    "randn_like contiguous": lambda m: m.randn_like(m.ones(5, 6).t(), memory_format=m.contiguous_format),
    "randint_like": lambda m: m.randint_like(m.ones(3, 4), 2, 9),
    "normal": lambda m: m.normal(1.5, 2.5, (20,)),
    "normal of tensors": lambda m: m.normal(m.arange(20.0), m.full((20,), 0.5)),
    "normal of a mean": lambda m: m.normal(m.arange(5.0), 0.5),
    "normal of a std": lambda m: m.normal(2.0, m.full((3, 6), 0.5)),
    "normal broadcast": lambda m: m.normal(m.ones(3, 1), m.full((6,), 0.5)),
    "bernoulli": lambda m: m.bernoulli(m.full((9,), 0.3)),
    "bernoulli transposed": lambda m: m.bernoulli(m.full((3, 4), 0.3).t()),
    "bernoulli of p": lambda m: m.bernoulli(m.ones(9), 0.3),
    "multinomial": lambda m: m.multinomial(m.arange(1.0, 9.0), 4),
    "multinomial with replacement": lambda m: m.ones(3, 5).multinomial(7, replacement=True),
    "poisson": lambda m: m.poisson(m.arange(0.0, 30.0)),
    "binomial": lambda m: m.binomial(m.arange(60.0), m.linspace(0.0, 1.0, 60)),
    "normal_": lambda m: m.empty(20).normal_(1.0, 3.0),
    "normal_ on a transpose": lambda m: m.empty(4, 5).t().normal_(),
    "normal_ on a column": lambda m: m.zeros(20, 2)[:, 1].normal_(std=2.0),
    "normal_ on channels last": lambda m: m.zeros(2, 3, 4, 5).permute(0, 3, 1, 2).normal_(),
    "uniform_": lambda m: m.empty(20).uniform_(-2.0, 5.0),
    "uniform_ on a transpose": lambda m: m.empty(4, 5).t().uniform_(to=3.0),
    "random_": lambda m: m.empty(6, dtype=m.int64).random_(),
    "random_ uint8": lambda m: m.empty(6, dtype=m.uint8).random_(),
    "random_ float": lambda m: m.empty(6).random_(),
    "random_ to": lambda m: m.empty(6).random_(10),
    "random_ from": lambda m: m.empty(6, dtype=m.int16).random_(-3, 10),
    "random_ from None": lambda m: m.empty(6, dtype=m.int64).random_(5, None),
    "bernoulli_": lambda m: m.empty(9).bernoulli_(),
    "bernoulli_ on a transpose": lambda m: m.empty(4, 5, dtype=m.bool).t().bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda m: m.empty(4, 5).t().bernoulli_(m.full((5, 4), 0.4)),
    "exponential_": lambda m: m.empty(9).exponential_(2.0),
    "geometric_": lambda m: m.empty(9, dtype=m.int64).geometric_(0.2),
    "cauchy_": lambda m: m.empty(9).cauchy_(1.0, 2.0),
    "log_normal_": lambda m: m.empty(20).log_normal_(0.5, 0.25),
    "dropout": lambda m: m.nn.functional.dropout(m.ones(5, 6), 0.3),
    "dropout transposed": lambda m: m.nn.functional.dropout(m.ones(5, 6).t(), 0.3),
    "dropout half": lambda m: m.nn.functional.dropout(m.ones(9, dtype=m.float16), 0.3),
    "dropout1d": lambda m: m.nn.functional.dropout1d(m.ones(3, 4), 0.4),
    "dropout2d": lambda m: m.nn.functional.dropout2d(m.ones(3, 4, 2, 2), 0.4),
    "dropout3d": lambda m: m.nn.functional.dropout3d(m.ones(4, 2, 2, 2), 0.4),
    "alpha_dropout": lambda m: m.nn.functional.alpha_dropout(m.arange(9.0), 0.4, True),
    "feature_alpha_dropout": lambda m: m.nn.functional.feature_alpha_dropout(m.ones(3, 4, 2), 0.4, True),
    "native_dropout": lambda m: m.native_dropout(m.arange(9.0), 0.4, True)[0],
    "init uniform": lambda m: m.nn.init.uniform_(m.empty(3, 4), -1.0, 2.0),
    "init normal": lambda m: m.nn.init.normal_(m.empty(30), 1.0, 2.0),
    "init trunc_normal": lambda m: m.nn.init.trunc_normal_(m.empty(50), std=0.02),
    "init trunc_normal narrow": lambda m: m.nn.init.trunc_normal_(m.empty(50), 0.0, 1.0, -0.5, 0.75),
    "init trunc_normal tail": lambda m: m.nn.init.trunc_normal_(m.empty(20), 0.0, 1.0, 1.5, 2.5),
    "init xavier_uniform": lambda m: m.nn.init.xavier_uniform_(m.empty(3, 4), gain=2.0),
    "init xavier_normal": lambda m: m.nn.init.xavier_normal_(m.empty(3, 4, 2)),
    "init kaiming_uniform": lambda m: m.nn.init.kaiming_uniform_(m.empty(3, 4), a=5**0.5),
    "init kaiming_normal": lambda m: m.nn.init.kaiming_normal_(m.empty(3, 4), 0, "fan_out", "relu"),
    "init sparse": lambda m: m.nn.init.sparse_(m.empty(6, 5), 0.4),
    "init dirac": lambda m: m.nn.init.dirac_(m.empty(6, 2, 3, 3), groups=2),
    "init eye": lambda m: m.nn.init.eye_(m.empty(3, 5)),
    "rand again": lambda m: m.rand(4),
}  # fmt: skip


def bits(tensor: Any) -> np.ndarray:
    if str(tensor.dtype).endswith("bfloat16"):
        tensor = tensor.float()
    return tensor.detach().numpy()


def states_agree() -> bool:
    return np.array_equal(cg.get_rng_state().numpy(), torch.get_rng_state().numpy())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str) -> None:
    """Each call alone: the values, the dtype and the state it leaves."""
    for seed in (0, 12345):
        cg.manual_seed(seed)
        torch.manual_seed(seed)
        ours, theirs = CALLS[name](cg), CALLS[name](torch)
        assert str(ours.dtype) == str(theirs.dtype)
        np.testing.assert_array_equal(bits(ours), bits(theirs))
        assert states_agree()


@pytest.mark.filterwarnings("ignore")
def test_sequence() -> None:
    """All calls one after the other from one seed, twice."""
    cg.manual_seed(3)
    torch.manual_seed(3)
    for _ in range(2):
        for name, call in CALLS.items():
            np.testing.assert_array_equal(bits(call(cg)), bits(call(torch)), err_msg=name)


def test_generators() -> None:
    """A generator of one's own leaves the default one alone."""
    ours, theirs = cg.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    cg.manual_seed(0)
    torch.manual_seed(0)
    assert cg.rand(3, generator=ours).tolist() == torch.rand(3, generator=theirs).tolist()
    assert cg.randperm(9, generator=ours).tolist() == torch.randperm(9, generator=theirs).tolist()
    assert cg.empty(3).normal_(generator=ours).tolist() == torch.empty(3).normal_(generator=theirs).tolist()
    assert states_agree()
    assert ours.initial_seed() == 5 and ours.device == cg.device("cpu")
    ours.set_state(cg.from_numpy(theirs.get_state().numpy()))
    assert cg.rand(3, generator=ours).tolist() == torch.rand(3, generator=theirs).tolist()
    with pytest.raises(TypeError):
        cg.rand(3, generator=7)


def test_states() -> None:
    cg.manual_seed(1)
    state = cg.get_rng_state()
    assert state.dtype is cg.uint8
    first = cg.rand(3).tolist()
    with cg.random.fork_rng():
        cg.manual_seed(99)
        cg.rand(100)
    second = cg.rand(3).tolist()
    cg.set_rng_state(state)
    assert [cg.rand(3).tolist(), cg.rand(3).tolist()] == [first, second]
    assert cg.seed() == cg.initial_seed() == cg.default_generator.initial_seed()


def test_generators_are_copied_and_pickled() -> None:
    generator = cg.Generator().manual_seed(5)
    cg.rand(3, generator=generator)
    others = [generator.clone_state(), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = cg.rand(3, generator=generator).tolist()
    assert all(cg.rand(3, generator=other).tolist() == expected for other in others)


def test_recorded_draws_are_drawn_again() -> None:
    from cleargrad.ops.record import Recorder, replay

    with Recorder() as recorder:
        graph = recorder.finish([cg.rand(3) + cg.empty(3).normal_()])
    runs = []
    for _ in range(2):
        cg.manual_seed(4)
        runs += [replay(graph, [])[0], replay(graph, [])[0]]
    assert not np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2]) and np.array_equal(runs[1], runs[3])


def test_overwriting_in_a_graph() -> None:
    """What is overwritten no longer depends on what it was."""
    leaf = cg.ones(4, requires_grad=True)
    x = leaf * 2
    x[1:3].uniform_()
    x.sum().backward()
    assert leaf.grad.tolist() == [2.0, 0.0, 0.0, 2.0]
    y = leaf * 2
    assert y.normal_().requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.normal_()
    with pytest.raises(RuntimeError, match="single memory"):
        cg.ones(1).expand(3).normal_()
    with cg.no_grad():
        leaf.normal_()


def test_orthogonal() -> None:
    cg.manual_seed(0)
    torch.manual_seed(0)
    for shape in ((4, 6), (6, 4), (3, 2, 2)):
        ours, theirs = (
            cg.nn.init.orthogonal_(cg.empty(*shape), 2.0),
            torch.nn.init.orthogonal_(torch.empty(*shape), 2.0),
        )
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)
