"""Every draw compared bit for bit with PyTorch's CPU generator, state and position included."""

import copy
import math
import pickle
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch

from cleargrad.core import libm
from cleargrad.core.generator import PIECE, Generator, default_generator

SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 100, 1000]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]
WORDS = 624
STRIDE = 997


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def bits(values):
    """An array or tensor as raw bytes, so that -0.0, NaN and bfloat16 compare exactly."""
    if isinstance(values, torch.Tensor):
        return values.reshape(-1).view(torch.uint8).numpy().tobytes()
    return np.ascontiguousarray(values).tobytes()


class Pair:
    """The same seed on both sides; `check` runs one draw on each and compares the values and the states."""

    def __init__(self, seed=1234):
        self.ours, self.theirs = Generator().manual_seed(seed), torch.Generator().manual_seed(seed)

    def check(self, our_values, their_values):
        assert our_values.shape == tuple(their_values.shape)
        assert our_values.dtype.name == str(their_values.dtype).removeprefix("torch.")
        assert bits(our_values) == bits(their_values)
        assert bits(self.ours.get_state()) == bits(self.theirs.get_state().numpy())

    def fill(self, method, size, name, ours, *theirs):
        """Compare our array with what the tensor method of that name fills in."""
        tensor = torch.empty(size, dtype=getattr(torch, name))
        self.check(ours, getattr(tensor, method)(*theirs, generator=self.theirs))


def shape_of(size):
    return size if isinstance(size, tuple) else (size,)


# Seeds and states


@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1, 2**32, 2**40 + 7, 2**63, 2**64 - 1, -1, -(2**63)])
def test_seed(seed):
    pair = Pair(seed)
    assert pair.ours.initial_seed() == pair.theirs.initial_seed()
    pair.fill("uniform_", 700, "float32", pair.ours.uniform((700,), np.float32))


def test_defaults_and_random_seeds():
    assert Generator().initial_seed() == torch.Generator().initial_seed()
    assert Generator().device == "cpu"
    generator = Generator()
    seed = generator.seed()
    assert generator.initial_seed() == seed
    assert generator.seed() != seed
    assert default_generator.initial_seed() != Generator().initial_seed()


def test_fresh_and_used_up_states_equal_pytorchs():
    pair = Pair()
    assert bits(pair.ours.get_state()) == bits(pair.theirs.get_state())
    assert pair.ours.get_state().shape == (5056,)
    for size in [1, 622, 1, 1, 623, 624, 1248, 0]:
        pair.fill("uniform_", size, "float32", pair.ours.uniform((size,), np.float32))


@pytest.mark.parametrize("used", [0, 1, 3, 16, 311, 623, 624, 625, 1000])
def test_states_travel_both_ways(used):
    pair = Pair(99)
    pair.theirs.manual_seed(5)
    torch.empty(used).uniform_(generator=pair.theirs)
    torch.empty(3).normal_(generator=pair.theirs)  # leaves a normal in the cache
    pair.ours.set_state(pair.theirs.get_state().numpy())
    assert pair.ours.initial_seed() == 5
    pair.fill("normal_", 4, "float32", pair.ours.normal((4,), np.float32))
    pair.ours.normal((7,), np.float64)
    pair.ours.uniform((used,), np.float32)
    pair.theirs.set_state(torch.from_numpy(pair.ours.get_state()))
    pair.fill("normal_", 21, "float32", pair.ours.normal((21,), np.float32))
    pair.fill("normal_", 5, "float64", pair.ours.normal((5,), np.float64))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, Generator.clone_state])
def test_copies_continue_on_their_own(duplicate):
    original = Generator().manual_seed(3)
    original.normal((5,), np.float32)
    other = duplicate(original)
    assert other is not original and other.initial_seed() == 3
    assert bits(other.normal((50,), np.float32)) == bits(original.clone_state().normal((50,), np.float32))
    assert bits(other.get_state()) != bits(original.get_state())


def test_pickle():
    original = Generator().manual_seed(3)
    original.normal((5,), np.float32)
    other = pickle.loads(pickle.dumps(original))
    assert bits(other.get_state()) == bits(original.get_state())
    assert bits(other.normal((5,), np.float32)) == bits(original.normal((5,), np.float32))


def test_threads_share_one_stream():
    generator = Generator().manual_seed(8)
    pieces = []

    def draw():
        pieces.extend(generator.integers(0, 2**27, (1000,), np.int64) for _ in range(20))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = Generator().manual_seed(8).integers(0, 2**27, (80, 1000), np.int64)
    assert sorted(map(tuple, pieces)) == sorted(map(tuple, everything))


# Continuous distributions


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    "low, high", [(0, 1), (-1, 1), (-0.3, 0.3), (2.5, 1000), (0.1, 0.1), (-1e-3, 3e4), (1, 2)]
)
def test_uniform(name, low, high):
    pair = Pair()
    for size in [*SIZES, (3, 4, 5), ()]:
        ours = pair.ours.uniform(shape_of(size), numpy_dtype(name), low, high)
        pair.fill("uniform_", size, name, ours, low, high)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_uniform_of_odd_bounds(name):
    pair, random = Pair(), np.random.default_rng(0)
    for _ in range(200):
        low, width = (
            random.normal() * 10.0 ** random.integers(-6, 6),
            random.random() * 10.0 ** random.integers(-6, 6),
        )
        ours = pair.ours.uniform((2000,), numpy_dtype(name), low, low + width)
        pair.fill("uniform_", 2000, name, ours, low, low + width)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("mean, std", [(0, 1), (0, 0.02), (1, 2), (-0.7, 0.3), (100, 1e-3), (0, 0), (3, 0)])
def test_normal(name, mean, std):
    pair = Pair()
    for size in [*SIZES, 1, 1, 3, 20, 3, (4, 5, 6), ()]:
        ours = pair.ours.normal(shape_of(size), numpy_dtype(name), mean, std)
        pair.fill("normal_", size, name, ours, mean, std)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(3))
def test_many_normals(name, seed):
    pair = Pair(seed)
    size = 1_000_003
    pair.fill("normal_", size, name, pair.ours.normal((size,), numpy_dtype(name)))
    pair.fill("normal_", size, name, pair.ours.normal((size,), numpy_dtype(name), 0.1, 1.7), 0.1, 1.7)


def test_normals_of_a_tensor_that_is_not_contiguous():
    pair = Pair()
    theirs = torch.empty(9, 7).t().normal_(1, 3, generator=pair.theirs)
    ours = pair.ours.normal((9, 7), np.float32, 1, 3, contiguous=False).T
    pair.check(ours, theirs)


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex(name):
    pair = Pair()
    for size in [0, 1, 7, 8, 9, (3, 5)]:
        pair.fill("normal_", size, name, pair.ours.normal(shape_of(size), numpy_dtype(name)))
        pair.fill("uniform_", size, name, pair.ours.uniform(shape_of(size), numpy_dtype(name)))


def word_that_tempers_to(output):
    """The state word that makes the Mersenne Twister return `output`."""
    word = output ^ (output >> np.uint32(18))
    word ^= (word << np.uint32(15)) & np.uint32(0xEFC60000)
    shifted = word
    for _ in range(5):
        shifted = word ^ ((shifted << np.uint32(7)) & np.uint32(0x9D2C5680))
    word = shifted
    for _ in range(3):
        shifted = word ^ (shifted >> np.uint32(11))
    return shifted


@pytest.mark.parametrize("which", ["radius", "angle"])
def test_polynomials_on_chosen_arguments(which):
    # A uniform has 2**24 possible values. Stride 1 takes two minutes and passes too.
    arguments = np.arange(0, 2**24, STRIDE, dtype=np.uint32)
    arguments = np.resize(arguments, (len(arguments) // 304 + 1, 38, 8))
    draws = np.zeros((len(arguments), 39, 16), np.uint32)
    draws[:, :, :8] = 2**24 - 6_000_000
    draws[:, :38, slice(0, 8) if which == "radius" else slice(8, 16)] = arguments
    pair = Pair()
    state = pair.theirs.get_state().numpy()
    state[8:24].view(np.int32)[:] = [WORDS, 1, 1, 0]
    for row in draws.reshape(-1, WORDS):
        state[24:5016].view(np.uint64)[:] = np.roll(word_that_tempers_to(row), 1)
        pair.theirs.set_state(torch.from_numpy(state))
        pair.ours.set_state(state)
        theirs = torch.empty(608).normal_(generator=pair.theirs)
        assert bits(pair.ours.normal((608,), np.float32)) == bits(theirs)


@pytest.mark.parametrize("name", FLOATS)
def test_exponential(name):
    pair = Pair()
    for size in [*SIZES, 50_000, (3, 4)]:
        for rate in [1.0, 0.3, 17.0, float("inf")]:
            ours = pair.ours.exponential(shape_of(size), numpy_dtype(name), rate)
            pair.fill("exponential_", size, name, ours, rate)


@pytest.mark.parametrize("name", FLOATS)
def test_cauchy_and_log_normal(name):
    pair = Pair()
    for size in [*SIZES, 50_001, (3, 5)]:
        ours = pair.ours.cauchy(shape_of(size), numpy_dtype(name), 0.5, 1.5)
        pair.fill("cauchy_", size, name, ours, 0.5, 1.5)
        ours = pair.ours.log_normal(shape_of(size), numpy_dtype(name), 0.2, 0.7)
        pair.fill("log_normal_", size, name, ours, 0.2, 0.7)


def test_functions_of_the_c_library_one_by_one():
    x = np.random.default_rng(0).random((50, 3))
    for pythons, numpys in zip(libm.PYTHONS, libm.NUMPYS, strict=True):
        np.testing.assert_allclose(pythons(x), numpys(x), rtol=1e-14)
    exp = libm.PYTHONS[2]
    assert exp(np.array([709.78, 709.79, 1e9, -1e9])).tolist() == [math.exp(709.78), math.inf, math.inf, 0.0]


# Discrete distributions


@pytest.mark.parametrize("name", FLOATS + INTS)
def test_geometric(name):
    pair = Pair()
    for size in [*SIZES, 50_000]:
        pair.fill("geometric_", size, name, pair.ours.geometric((size,), numpy_dtype(name), 0.3), 0.3)


@pytest.mark.parametrize("name", [*FLOATS, *INTS, "bool"])
def test_bernoulli(name):
    pair = Pair()
    for size in [*SIZES, (3, 4), 2 * PIECE + 3]:
        for p in [0.0, 0.25, 0.9, 1.0]:
            ours = pair.ours.bernoulli(p, shape_of(size), numpy_dtype(name))
            pair.fill("bernoulli_", size, name, ours, p)
    for kind in FLOATS:
        p = torch.rand(4, 50, dtype=getattr(torch, kind))
        theirs = p.float().numpy().astype(numpy_dtype(kind)) if kind != "float64" else p.numpy()
        pair.fill("bernoulli_", (4, 50), name, pair.ours.bernoulli(theirs, (4, 50), numpy_dtype(name)), p)
        ours = pair.ours.bernoulli(theirs[:, :1], (4, 50), numpy_dtype(name))
        pair.fill("bernoulli_", (4, 50), name, ours, p[:, :1])


def test_dropout_mask():
    torch.manual_seed(4)
    generator = Generator().manual_seed(4)
    for size in [5, 1000]:
        theirs = torch.nn.functional.dropout(torch.ones(size), 0.3).numpy()
        keep = np.float32(1 - 0.3)
        assert bits(generator.bernoulli(1 - 0.3, (size,), np.float32) / keep) == bits(theirs)


RANGES = [(0, 1), (0, 2), (0, 10), (-5, 7), (0, 100), (-100, 127)]
WIDE = [(0, 50257), (0, 2**28 - 1), (0, 2**28), (-5, 2**28 - 6), (-(2**31), 2**31 - 1), (7, 2**31 - 1)]
VERY_WIDE = [(0, 2**32 - 1), (0, 2**32), (0, 2**32 + 1), (-(2**40), 2**50), (-(2**63), 2**63 - 1)]


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_integers(name):
    pair, dtype = Pair(), numpy_dtype(name)
    limits = np.iinfo(dtype)
    for low, high in RANGES + WIDE + VERY_WIDE:
        if low < limits.min or high - 1 > limits.max:
            continue
        for size in [0, 1, 17, 1000, (3, 4)]:
            pair.fill("random_", size, name, pair.ours.integers(low, high, shape_of(size), dtype), low, high)
    if name != "uint64":
        for low in [0, 5, *([-100] if limits.min < 0 else [])]:
            pair.fill("random_", 100, name, pair.ours.integers(low, None, (100,), dtype), low, None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FLOATS)
def test_integers_as_floats(name):
    pair, dtype = Pair(), numpy_dtype(name)
    for low, high in [*RANGES, (0, 257), (-300, 300), (0, 2049), (1, 5000), (-4099, 65504)]:
        pair.fill("random_", 500, name, pair.ours.integers(low, high, (500,), dtype), low, high)
    if name in ("float32", "float64"):
        for low, high in [*WIDE, *VERY_WIDE, (-(2**24) - 3, 2**24 + 5), (2**53 - 1, 2**60)]:
            pair.fill("random_", 500, name, pair.ours.integers(low, high, (500,), dtype), low, high)
    for low in [0, -7, 100]:
        pair.fill("random_", 500, name, pair.ours.integers(low, None, (500,), dtype), low, None)


@pytest.mark.parametrize("name", ["int64", "float64", "float32", "bfloat16"])
def test_integers_of_all_64_bits(name):
    pair = Pair()
    ours = pair.ours.integers(-(2**63), None, (200,), numpy_dtype(name))
    pair.fill("random_", 200, name, ours, -(2**63), None)


@pytest.mark.parametrize("name", [*FLOATS, *INTS, "bool"])
def test_random_without_bounds(name):
    pair = Pair()
    for size in [*SIZES, (3, 4)]:
        pair.fill("random_", size, name, pair.ours.random(shape_of(size), numpy_dtype(name)))


def test_integers_as_bools():
    pair = Pair()
    pair.fill("random_", 50, "bool", pair.ours.integers(0, 2, (50,), np.bool_), 0, 2)
    pair.fill("random_", 50, "bool", pair.ours.integers(0, None, (50,), np.bool_), 0, None)


@pytest.mark.parametrize("n", [*SIZES, 60_000, 300_000])
def test_permutation(n):
    pair = Pair()
    for _ in range(2):
        pair.check(pair.ours.permutation(n), torch.randperm(n, generator=pair.theirs))


@pytest.mark.parametrize("name, n", [("uint8", 255), ("int16", 900), ("float16", 2049), ("bfloat16", 200)])
def test_permutation_in_another_dtype(name, n):
    pair = Pair()
    theirs = torch.randperm(n, generator=pair.theirs, dtype=getattr(torch, name))
    pair.check(pair.ours.permutation(n, numpy_dtype(name)), theirs)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (1000,), (4, 30), (1, 3)])
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(name, shape, replacement):
    pair = Pair()
    random = np.random.default_rng(1)
    for count in [1, 2, 3]:
        for _ in range(20):
            probs = random.random(shape).astype(name) * 3
            theirs = torch.multinomial(torch.from_numpy(probs), count, replacement, generator=pair.theirs)
            pair.check(pair.ours.multinomial(probs, count, replacement), theirs)
    everything = torch.multinomial(torch.from_numpy(probs), shape[-1], replacement, generator=pair.theirs)
    pair.check(pair.ours.multinomial(probs, shape[-1], replacement), everything)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_multinomial_in_half_precision(name):
    pair = Pair()
    for count, replacement in [(1, False), (1, True), (50, True)]:
        for _ in range(20):
            probs = torch.rand(3, 40).to(getattr(torch, name))
            theirs = torch.multinomial(probs, count, replacement, generator=pair.theirs)
            ours = probs.float().numpy().astype(numpy_dtype(name))
            pair.check(pair.ours.multinomial(ours, count, replacement), theirs)


def test_multinomial_with_zero_probabilities():
    pair = Pair()
    probs = np.array([0, 0.2, 0, 0.5, 0, 0.3], np.float32)
    for count, replacement in [(3, False), (2, False), (1, False), (40, True)]:
        theirs = torch.multinomial(torch.from_numpy(probs), count, replacement, generator=pair.theirs)
        pair.check(pair.ours.multinomial(probs, count, replacement), theirs)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("rate", [0, 0.1, 3, 9.99, 10, 50, 1e4, 1e9])
def test_poisson(name, rate):
    pair = Pair()
    for size in [0, 1, 5, 3000]:
        rates = np.full(size, rate, name) * (1 + np.arange(size, dtype=name) / 5000)
        pair.check(pair.ours.poisson(rates), torch.poisson(torch.from_numpy(rates), generator=pair.theirs))


# A whole program's worth of draws, in one stream


def test_interleaved():
    pair = Pair(7)
    random = np.random.default_rng(7)
    for _ in range(200):
        size, choice = int(random.choice([1, 2, 3, 15, 16, 17, 40])), int(random.integers(7))
        name = str(random.choice(["float32", "float64"]))
        dtype = numpy_dtype(name)
        if choice == 0:
            pair.fill("normal_", size, name, pair.ours.normal((size,), dtype))
        elif choice == 1:
            pair.fill("uniform_", size, name, pair.ours.uniform((size,), dtype))
        elif choice == 2:
            pair.fill("log_normal_", size, name, pair.ours.log_normal((size,), dtype))
        elif choice == 3:
            pair.check(pair.ours.permutation(size), torch.randperm(size, generator=pair.theirs))
        elif choice == 4:
            pair.fill("bernoulli_", size, name, pair.ours.bernoulli(0.5, (size,), dtype), 0.5)
        elif choice == 5:
            pair.fill("exponential_", size, name, pair.ours.exponential((size,), dtype))
        else:
            rates = np.full(size, 4.0, dtype)
            pair.check(
                pair.ours.poisson(rates), torch.poisson(torch.from_numpy(rates), generator=pair.theirs)
            )


# Errors

F32, F16, I64 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.int64)
NAN = float("nan")
WRONG = [
    (lambda g: g.normal((3,), F32, 0, -1), lambda: torch.empty(3).normal_(0, -1)),
    (lambda g: g.normal((3,), F32, 0, NAN), lambda: torch.empty(3).normal_(0, NAN)),
    (lambda g: g.normal((3,), I64), lambda: torch.empty(3, dtype=torch.int64).normal_()),
    (lambda g: g.uniform((3,), F32, 1, 0), lambda: torch.empty(3).uniform_(1, 0)),
    (lambda g: g.uniform((3,), F16, 0, 1e9), lambda: torch.empty(3, dtype=torch.half).uniform_(0, 1e9)),
    (lambda g: g.uniform((3,), I64), lambda: torch.empty(3, dtype=torch.int64).uniform_()),
    (lambda g: g.exponential((3,), F32, 0), lambda: torch.empty(3).exponential_(0)),
    (lambda g: g.exponential((3,), I64), lambda: torch.empty(3, dtype=torch.int64).exponential_()),
    (lambda g: g.cauchy((3,), F32, 0, 0), lambda: torch.empty(3).cauchy_(0, 0)),
    (lambda g: g.cauchy((3,), I64), lambda: torch.empty(3, dtype=torch.int64).cauchy_()),
    (lambda g: g.log_normal((3,), F32, 0, 0), lambda: torch.empty(3).log_normal_(0, 0)),
    (lambda g: g.log_normal((3,), I64), lambda: torch.empty(3, dtype=torch.int64).log_normal_()),
    (lambda g: g.geometric((3,), F32, 0), lambda: torch.empty(3).geometric_(0)),
    (lambda g: g.geometric((3,), np.bool_, 0.5), lambda: torch.empty(3, dtype=torch.bool).geometric_(0.5)),
    (lambda g: g.bernoulli(1.5, (3,), F32), lambda: torch.empty(3).bernoulli_(1.5)),
    (lambda g: g.bernoulli(np.array([1.5]), (1,), F32), lambda: torch.bernoulli(torch.tensor([1.5]))),
    (lambda g: g.bernoulli(np.array([NAN]), (1,), F32), lambda: torch.bernoulli(torch.tensor([NAN]))),
    (lambda g: g.bernoulli(np.array([1]), (1,), F32), lambda: torch.empty(1).bernoulli_(torch.tensor([1]))),
    (lambda g: g.integers(5, 5, (3,), I64), lambda: torch.randint(5, 5, (3,))),
    (lambda g: g.integers(5, 5, (0,), I64), lambda: torch.randint(5, 5, (0,))),
    (lambda g: g.integers(0, 300, (3,), np.uint8), lambda: torch.randint(0, 300, (3,), dtype=torch.uint8)),
    (lambda g: g.integers(-1, 3, (3,), np.uint8), lambda: torch.randint(-1, 3, (3,), dtype=torch.uint8)),
    (lambda g: g.integers(0, 3, (3,), np.bool_), lambda: torch.empty(3, dtype=torch.bool).random_(0, 3)),
    (
        lambda g: g.integers(5, None, (3,), np.uint64),
        lambda: torch.empty(3, dtype=torch.uint64).random_(5, None),
    ),
    (
        lambda g: g.integers(-(2**63), None, (3,), np.int32),
        lambda: torch.empty(3, dtype=torch.int32).random_(-(2**63), None),
    ),
    (lambda g: g.random((3,), np.uint16), lambda: torch.empty(3, dtype=torch.uint16).random_()),
    (lambda g: g.permutation(-1), lambda: torch.randperm(-1)),
    (lambda g: g.permutation(300, np.uint8), lambda: torch.randperm(300, dtype=torch.uint8)),
    (lambda g: g.permutation(3000, F16), lambda: torch.randperm(3000, dtype=torch.half)),
    (lambda g: g.permutation(3, np.bool_), lambda: torch.randperm(3, dtype=torch.bool)),
    (lambda g: g.multinomial(np.zeros(3), 1), lambda: torch.multinomial(torch.zeros(3), 1)),
    (lambda g: g.multinomial(np.zeros(3), 2, True), lambda: torch.multinomial(torch.zeros(3), 2, True)),
    (lambda g: g.multinomial(-np.ones(3), 1), lambda: torch.multinomial(-torch.ones(3), 1)),
    (lambda g: g.multinomial(np.array([NAN, 1]), 1), lambda: torch.multinomial(torch.tensor([NAN, 1]), 1)),
    (lambda g: g.multinomial(np.ones(3), 4), lambda: torch.multinomial(torch.ones(3), 4)),
    (lambda g: g.multinomial(np.ones(3), 0), lambda: torch.multinomial(torch.ones(3), 0)),
    (lambda g: g.multinomial(np.ones((1, 1, 1)), 1), lambda: torch.multinomial(torch.ones(1, 1, 1), 1)),
    (lambda g: g.multinomial(np.ones(3, I64), 1), lambda: torch.multinomial(torch.ones(3).long(), 1)),
    (lambda g: g.poisson(-np.ones(1)), lambda: torch.poisson(-torch.ones(1))),
    (lambda g: g.poisson(np.ones(1, I64)), lambda: torch.poisson(torch.ones(1).long())),
    (lambda g: g.manual_seed(2**64), lambda: torch.Generator().manual_seed(2**64)),
    (lambda g: g.manual_seed(-(2**63) - 1), lambda: torch.Generator().manual_seed(-(2**63) - 1)),
    (lambda g: g.manual_seed(1.5), lambda: torch.Generator().manual_seed(1.5)),
    (
        lambda g: g.set_state(np.zeros(9, np.uint8)),
        lambda: torch.Generator().set_state(torch.zeros(9).byte()),
    ),
    (
        lambda g: g.set_state(np.zeros(5056, np.uint8)),
        lambda: torch.Generator().set_state(torch.zeros(5056).byte()),
    ),
    (lambda g: g.set_state(np.zeros(5056)), lambda: torch.Generator().set_state(torch.zeros(5056))),
    (lambda g: Generator("tpu"), lambda: torch.Generator("tpu")),
]


@pytest.mark.parametrize("ours, theirs", WRONG)
def test_errors_have_pytorchs_type_and_draw_nothing(ours, theirs):
    generator = Generator().manual_seed(1)
    before = generator.get_state()
    with pytest.raises(Exception) as expected:
        theirs()
    with pytest.raises(expected.type) as raised:
        ours(generator)
    assert type(raised.value) is expected.type
    assert ": " in str(raised.value)
    assert bits(generator.get_state()) == bits(before)


def test_a_range_too_wide_for_the_dtype_warns():
    with pytest.warns(UserWarning, match="float16 cannot represent every integer"):
        Generator().integers(0, 5000, (3,), F16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Generator().integers(0, 2048, (3,), F16)
