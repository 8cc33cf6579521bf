"""Random numbers on a GPU: those of PyTorch's CUDA generator, again for every seed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.devices.cuda.driver import Cuda

pytestmark = pytest.mark.usefixtures("cuda")


def philox(seed: int, offset: int, subsequence: int) -> list[int]:
    """Philox4x32-10 as its authors define it."""
    low = 2**32 - 1
    x = [offset & low, offset >> 32, subsequence & low, subsequence >> 32]
    key = [seed & low, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(q >> 32) ^ x[1] ^ key[0], q & low, (p >> 32) ^ x[3] ^ key[1], p & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return x


def unit(bits: int) -> np.float32:
    return np.float32(bits) * np.float32(2.0**-32) + np.float32(2.0**-33)


def test_numbers_that_pytorch_prints() -> None:
    cg.manual_seed(0)
    assert str(cg.rand(5, device="cuda").cpu()) == "tensor([0.3990, 0.5167, 0.0249, 0.9401, 0.9459])"
    cg.manual_seed(0)
    assert str(cg.randn(5, device="cuda").cpu()) == "tensor([-0.9247, -0.4253, -2.6438,  0.1452, -0.1209])"


def test_where_numbers_of_a_round_go(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(cuda.runtime), "resident", 2)  # so that 512 threads make several rounds
    cg.manual_seed(5)
    n = 512 * 4 + 700
    found = cg.rand(n, device="cuda").cpu().numpy()
    for i in (0, 511, 512, 1600, 2047, 2048, n - 1):
        rounds, rest = divmod(i, 2048)
        assert found[i] == unit(philox(5, rounds, i % 512)[rest // 512])
    assert cg.cuda.get_rng_state()[8:].tolist() == [8, 0, 0, 0, 0, 0, 0, 0]
    mask = cg.nn.functional.dropout(cg.ones(4000, device="cuda"), 0.25).cpu().numpy() > 0
    for i in (0, 5, 2046, 2048, 3999):
        rounds, rest = divmod(i, 2048)
        assert mask[i] == (unit(philox(5, 2 + rounds, rest // 4)[rest % 4]) < np.float32(0.75))


DRAWS: dict[str, Any] = {
    "rand": lambda **at: cg.rand(5000, **at),
    "rand float64": lambda **at: cg.rand(5000, dtype=cg.float64, **at),
    "rand float16": lambda **at: cg.rand(5000, dtype=cg.float16, **at),
    "randn": lambda **at: cg.randn(50, 100, **at),
    "randn float64": lambda **at: cg.randn(5000, dtype=cg.float64, **at),
    "randn bfloat16": lambda **at: cg.randn(5000, dtype=cg.bfloat16, **at),
    "randn complex": lambda **at: cg.randn(5000, dtype=cg.complex64, **at),
    "randn_like transposed": lambda **at: cg.randn_like(cg.ones(50, 100, **at).t()),
    "randint": lambda **at: cg.randint(-3, 10, (5000,), **at),
    "randint of many": lambda **at: cg.randint(0, 2**40, (5000,), **at),
    "randperm": lambda **at: cg.randperm(3000, **at),
    "random_": lambda **at: cg.empty(5000, dtype=cg.int32, **at).random_(),
    "uniform_": lambda **at: cg.empty(50, 100, **at).t().uniform_(-2, 3),
    "normal of tensors": lambda **at: cg.normal(cg.arange(5000.0, **at), cg.ones(5000, **at)),
    "bernoulli_": lambda **at: cg.empty(5000, **at).bernoulli_(0.3),
    "bernoulli of tensors": lambda **at: cg.bernoulli(cg.full((5000,), 0.3, **at)),
    "bernoulli of p": lambda **at: cg.bernoulli(cg.full((5000,), 0.3, **at), 0.6),
    "dropout": lambda **at: cg.nn.functional.dropout(cg.ones(5002, **at), 0.3),
    "dropout2d": lambda **at: cg.nn.functional.dropout2d(cg.ones(50, 100, 2, 2, **at), 0.3),
    "alpha_dropout": lambda **at: cg.nn.functional.alpha_dropout(cg.ones(5000, **at), 0.3, True),
    "native_dropout": lambda **at: cg.native_dropout(cg.ones(5000, **at), 0.3, True)[0],
    "exponential_": lambda **at: cg.empty(5000, **at).exponential_(2.0),
    "geometric_": lambda **at: cg.empty(5000, **at).geometric_(0.3),
    "log_normal_": lambda **at: cg.empty(5000, **at).log_normal_(0.5, 0.25),
    "cauchy_": lambda **at: cg.empty(5000, **at).cauchy_().atan(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_distributions(name: str, cuda: Cuda) -> None:
    draw = DRAWS[name]
    cg.manual_seed(7)
    first, second = draw(device="cuda"), draw(device="cuda")
    cg.cuda.manual_seed(7)
    again, cpu = draw(device="cuda"), draw(device="cpu")
    assert not cuda.on_host
    assert first.is_cuda and (first.dtype, first.stride()) == (cpu.dtype, cpu.stride())
    assert cg.equal(first.cpu(), again.cpu()) and not cg.equal(first.cpu(), second.cpu())
    kind = np.complex128 if first.is_complex() else np.float64
    x, y = (
        each.cpu().to(cg.complex128 if first.is_complex() else cg.float64).numpy() for each in (first, cpu)
    )
    assert x.dtype == kind
    room = 5 * (y.std() + 1e-9) / np.sqrt(x.size / 8)
    assert abs(x.mean() - y.mean()) < room and abs(x.std() - y.std()) < room
    if name == "randperm":
        assert sorted(x.tolist()) == list(range(3000))


def test_equal_keys_of_a_permutation_are_shuffled(cuda: Cuda) -> None:
    """Keys have 7 bits here, so that two are equal now and then."""
    cg.manual_seed(1)
    firsts = [cg.randperm(5, device="cuda").tolist() for _ in range(200)]
    assert all(sorted(each) == [0, 1, 2, 3, 4] for each in firsts)
    assert np.array(firsts).mean(0) == pytest.approx([2] * 5, abs=0.5)


def test_generators(cuda: Cuda) -> None:
    own = cg.Generator(device="cuda").manual_seed(3)
    assert own.device == cg.device("cuda:0") and own.initial_seed() == 3
    before = own.get_state()
    x = cg.randn(10, device="cuda", generator=own)
    copied = pickle.loads(pickle.dumps(own._stream))
    own.set_state(before)
    assert cg.equal(x.cpu(), cg.randn(10, device="cuda", generator=own).cpu())
    assert own.get_state().tolist() == copied.get_state().tolist() == [3, *[0] * 7, 4, *[0] * 7]
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        cg.rand(3, device="cuda", generator=cg.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        cg.rand(3, generator=own)


def test_states_are_kept(cuda: Cuda) -> None:
    state = cg.cuda.get_rng_state()
    with cg.random.fork_rng():
        x = cg.rand(3, device="cuda")
    cg.cuda.set_rng_state_all([state])
    assert cg.equal(x.cpu(), cg.rand(3, device="cuda").cpu())

    weight = cg.ones(100, device="cuda", requires_grad=True)
    out = cg.utils.checkpoint.checkpoint(cg.nn.functional.dropout, weight, use_reentrant=False)
    out.sum().backward()
    assert cg.equal(weight.grad.cpu(), out.detach().cpu())  # the mask was drawn again


def test_what_the_cpu_draws_follows_the_seed_of_the_gpu(cuda: Cuda) -> None:
    rates = cg.full((50,), 5.0, device="cuda")
    cg.cuda.manual_seed(9)
    before = cg.get_rng_state()
    first, second = cg.poisson(rates), cg.poisson(rates)
    cg.cuda.manual_seed(9)
    assert cg.equal(cg.poisson(rates).cpu(), first.cpu()) and not cg.equal(first.cpu(), second.cpu())
    assert cg.equal(cg.get_rng_state(), before)
