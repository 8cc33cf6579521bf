"""Random numbers equal to those of PyTorch's CPU generator: a seed goes in, NumPy arrays come out.

The engine is NumPy's Mersenne Twister. What makes the numbers PyTorch's is how many 32-bit draws an element
takes and what is done with them. States and positions agree in every case; so do the values, as follows.

    method            32-bit draws per element                                      values
    uniform           1 (float64: 2)                                                same bits
    normal, n >= 16   float32: 1, and 16 in all if n is no multiple of 16           same bits
                      float16, bfloat16: 16 for each block of 16, begun or full     same bits
                      float64: as float32, with 2 for 1                             libm
    normal, n < 16    4 for a pair; the second of a pair is kept for the next call  same bits
    integers          1 (ranges of 2**28 and more: 2)                               same bits
    random            1 (int64, float64: 2)                                         same bits
    permutation       1, none for the last (n from 214748364: 2, not compared)      same bits
    bernoulli         2 (p an array that is not float64: 1)                         same bits
    exponential, geometric, cauchy  2                                               libm
    log_normal        as normal with n < 16, for every n                            libm
    multinomial       with replacement: 2 for a sample                              same bits
                      without it, or for one sample: 2 for a category               libm, ties
    poisson           2 for a trial; the number of trials is random                 libm

same bits: as PyTorch on x86 with AVX2 or newer, whose compiled code rounds x * scale + shift once.
libm: the same bits with the same C library, whose functions both call (core/libm.py). Where NumPy has others, with
AVX-512, exponential numbers narrower than float64 are made with those, whose last bit they hardly ever show.
Poisson's log-gamma is Python's.
ties: the order among equal scores (zero probabilities; half precision) may differ.

The mask of dropout is `bernoulli(1 - p, shape, dtype)`. Read next: core/box_muller.py, how normals are made.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any

import ml_dtypes
import numpy as np

from cleargrad.core import libm
from cleargrad.core.box_muller import fill_with_normals, fused_multiply_add
from cleargrad.core.random_rules import (
    DIGITS,
    INT64_MIN,
    cast,
    check_float,
    check_multinomial,
    check_permutation,
    check_uniform_bounds,
    checked_seed,
    integer_bounds,
)
from cleargrad.core.shuffle import shuffle
from cleargrad.errors import error

DEFAULT_SEED = 67280421310721
WORDS = 624
SMALL = 16  # below this many elements normals are made in pairs, in float64
PIECE = 65536  # elements of larger kinds that are held at a time on the way to small ones
LARGE_PERMUTATION = (2**32 - 1) // 20

REAL_OF: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}

# PyTorch's struct, padding included, so that a saved state can be read by either library.
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "normal", "has_normal"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", WORDS), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)


class Generator:
    """A stream of random numbers; safe to draw from in several threads."""

    def __init__(self, device: str = "cpu"):
        if device != "cpu":
            raise error(RuntimeError, "Generator", "only CPU generators exist", device=device)
        self.device = device
        self._lock = threading.Lock()
        self._reseed(DEFAULT_SEED)

    # Seed and state

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream at `seed`; negative seeds mean 2**64 + seed, and only the low 32 bits matter."""
        seed = checked_seed(seed)
        with self._lock:
            self._reseed(seed)
        return self

    def seed(self) -> int:
        """Restart the stream at a seed taken from the operating system, and return it."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> np.ndarray:
        """The whole state as 5056 bytes, in PyTorch's layout."""
        with self._lock:
            return self._read_state()

    def set_state(self, state: np.ndarray) -> None:
        """Continue from a state that this class or PyTorch has saved."""
        if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
            raise error(TypeError, "set_state", "the state must be an array of uint8", state=state)
        if state.size != STATE.itemsize:
            rule = f"a CPU generator's state has {STATE.itemsize} bytes, not {state.size}"
            raise error(RuntimeError, "set_state", rule, state=state)
        fields = np.ascontiguousarray(state).view(STATE)[0]
        if fields["seeded"] != 1 or not 0 < fields["left"] <= WORDS or fields["next"] > WORDS:
            raise error(RuntimeError, "set_state", "the bytes are no Mersenne Twister's state", state=state)
        with self._lock:
            self._write_state(fields)

    def clone_state(self) -> Generator:
        """A generator of its own that continues from here."""
        clone = Generator(self.device)
        clone.set_state(self.get_state())
        return clone

    def __getstate__(self) -> dict:
        return {"device": self.device, "state": self.get_state()}

    def __setstate__(self, saved: dict) -> None:
        self.__init__(saved["device"])
        self.set_state(saved["state"])

    def __repr__(self) -> str:
        return f"<Generator device={self.device} seed={self._seed}>"

    def _reseed(self, seed: int) -> None:
        self._seed = seed
        self._next_normal: float | None = None
        self._untouched = True
        self._draw: np.random.Generator | None = None

    def _engine(self) -> np.random.Generator:
        # Made at the first draw: importing numpy.random takes longer than importing this package should.
        if self._draw is None:
            engine = np.random.MT19937(0)
            # Seeded in place: handing a state from one engine to another takes three times as long.
            np.random.RandomState(engine).seed(self._seed & 0xFFFFFFFF)
            self._draw = np.random.Generator(engine)
        return self._draw

    def _read_state(self) -> np.ndarray:
        engine = self._engine().bit_generator.state["state"]
        position = engine["pos"]
        fields = np.zeros(1, STATE)
        fields["seed"], fields["seeded"], fields["words"] = self._seed, 1, engine["key"]
        fields["left"] = WORDS + 1 - position
        # PyTorch writes 0 for a block of words never drawn from, and 624 for one that is used up.
        fields["next"] = 0 if self._untouched else position
        if self._next_normal is not None:
            fields["normal"], fields["has_normal"] = self._next_normal, 1
        return fields.view(np.uint8)

    def _write_state(self, fields: np.void) -> None:
        self._reseed(int(fields["seed"]))
        left = int(fields["left"])
        self._untouched = left == 1 and fields["next"] == 0
        key = fields["words"].astype(np.uint32)
        state = {"bit_generator": "MT19937", "state": {"key": key, "pos": WORDS + 1 - left}}
        self._engine().bit_generator.state = state
        if fields["has_normal"]:
            self._next_normal = float(fields["normal"])

    # Draws (the lock is held)

    def _draw32(self, count: int) -> np.ndarray:
        engine = self._engine()
        self._untouched = self._untouched and count == 0
        return engine.integers(0, 0xFFFFFFFF, size=count, dtype=np.uint32, endpoint=True)

    def _draw64(self, count: int) -> np.ndarray:
        # The first of two 32-bit draws becomes the high half, in NumPy as in PyTorch.
        engine = self._engine()
        self._untouched = self._untouched and count == 0
        return engine.integers(0, 0xFFFFFFFFFFFFFFFF, size=count, dtype=np.uint64, endpoint=True)

    def _units(self, count: int, dtype: Any = np.float64) -> np.ndarray:
        """Uniforms in [0, 1), as many bits each as `dtype` (float32 or float64) holds."""
        if dtype == np.float32:
            bits = self._draw32(count)
            bits &= np.uint32(2**24 - 1)
            values = bits.view(np.int32).astype(np.float32)
            values *= np.float32(2.0**-24)
            return values
        bits = self._draw64(count)
        bits &= np.uint64(2**53 - 1)
        return bits.view(np.int64) * 2.0**-53

    def _coins(self, p: float, count: int, dtype: np.dtype) -> np.ndarray:
        """Whether uniforms are below p, compared as whole numbers, which in all take more room than the result."""
        result = np.empty(count, dtype)
        limit = np.uint64(math.ceil(p * 2**53))
        for start in range(0, count, PIECE):
            piece = result[start : start + PIECE]
            bits = self._draw64(piece.size)
            bits &= np.uint64(2**53 - 1)
            piece[...] = bits < limit
        return result

    def _paired_normals(self, count: int) -> np.ndarray:
        """Standard normals in float64, made in pairs; half a pair left over waits for the next call."""
        kept = [] if self._next_normal is None or count == 0 else [self._next_normal]
        if kept:
            self._next_normal = None
        missing = count - len(kept)
        units = self._units(2 * ((missing + 1) // 2))
        radius = np.sqrt(-2.0 * libm.log1p(-units[1::2]))
        angle = 2.0 * np.pi * units[0::2]
        pairs = np.empty(len(units))
        pairs[0::2] = radius * libm.cos(angle)
        pairs[1::2] = radius * libm.sin(angle)
        if missing % 2:
            self._next_normal = float(pairs[-1])
        return np.concatenate([kept, pairs[:missing]])

    def _block_normals(self, count: int, dtype: np.dtype) -> np.ndarray:
        """Standard normals of 16 or more elements, made in blocks of 16; a ragged end redoes the last 16."""
        whole, rest = count - count % SMALL, count % SMALL
        wide = np.float64 if dtype == np.float64 else np.float32
        normals = np.empty(count, wide)
        fill_with_normals(normals[:whole].reshape(-1, SMALL), lambda n: self._units(n, wide))
        if rest and dtype == wide:
            self._units(rest, wide)  # PyTorch draws these too before it overwrites them
        if rest:
            fill_with_normals(normals[-SMALL:].reshape(1, SMALL), lambda n: self._units(n, wide))
        return normals

    # Continuous distributions

    def uniform(self, shape: tuple, dtype: Any, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Uniform in [low, high)."""
        dtype = np.dtype(dtype)
        if dtype in REAL_OF:
            return self.uniform((*shape, 2), REAL_OF[dtype], low, high).view(dtype)[..., 0]
        check_float("uniform_", dtype, NotImplementedError)
        check_uniform_bounds(dtype, low, high)
        wide: np.dtype = np.dtype(np.float64 if dtype == np.float64 else np.float32)
        with self._lock:
            units = self._units(math.prod(shape), wide)
        if (low, high) == (0, 1) and dtype == wide:
            return units.reshape(shape)
        first, end = wide.type(low), wide.type(high)
        values = fused_multiply_add(units, end - first, first).astype(dtype)
        values[values == end.astype(dtype)] = first.astype(dtype)  # rounding may reach the excluded end
        return values.reshape(shape)

    def normal(
        self, shape: tuple, dtype: np.dtype, mean: float = 0.0, std: float = 1.0, contiguous: bool = True
    ) -> np.ndarray:
        """Normal numbers; PyTorch makes them in another way for a tensor that is not contiguous."""
        dtype = np.dtype(dtype)
        if not std >= 0:
            raise error(RuntimeError, "normal_", "normal expects std >= 0.0", std=std)
        if dtype in REAL_OF:
            return self.normal((*shape, 2), REAL_OF[dtype], mean, std / math.sqrt(2)).view(dtype)[..., 0]
        check_float("normal_", dtype, NotImplementedError)
        count = math.prod(shape)
        with self._lock:
            if count >= SMALL and contiguous:
                normals = self._block_normals(count, dtype)
            else:
                normals = self._paired_normals(count)
        return cast(fused_multiply_add(normals, std, mean), dtype).reshape(shape)

    def log_normal(self, shape: tuple, dtype: np.dtype, mean: float = 1.0, std: float = 2.0) -> np.ndarray:
        """exp of normal numbers."""
        dtype = np.dtype(dtype)
        if not std > 0:
            raise error(RuntimeError, "log_normal_", "log_normal_ expects std > 0.0", std=std)
        check_float("log_normal_", dtype, NotImplementedError)
        with self._lock:
            normals = self._paired_normals(math.prod(shape))
        with np.errstate(over="ignore"):
            return cast(libm.exp(fused_multiply_add(normals, std, mean)), dtype).reshape(shape)

    def exponential(self, shape: tuple, dtype: np.dtype, lambd: float = 1.0) -> np.ndarray:
        """Density lambd * exp(-lambd * x) for x >= 0."""
        dtype = np.dtype(dtype)
        if not lambd > 0:
            raise error(RuntimeError, "exponential_", "exponential_ expects lambda > 0.0", lambd=lambd)
        check_float("exponential_", dtype, RuntimeError)
        values = self._locked_units(shape)
        np.negative(values, out=values)
        # Narrower ones are drawn for every category of a multinomial, and hardly show the last bit of these.
        values = libm.log1p(values) if dtype == np.float64 else np.log1p(values, out=values)
        values *= -1.0 / lambd
        return cast(values, dtype)

    def cauchy(self, shape: tuple, dtype: np.dtype, median: float = 0.0, sigma: float = 1.0) -> np.ndarray:
        """median + sigma * tan(pi * (u - 1/2))."""
        dtype = np.dtype(dtype)
        if not sigma > 0:
            raise error(RuntimeError, "cauchy_", "cauchy_ expects sigma > 0.0", sigma=sigma)
        check_float("cauchy_", dtype, RuntimeError)
        tangents = libm.tan(np.pi * (self._locked_units(shape) - 0.5))
        return cast(fused_multiply_add(tangents, sigma, median), dtype)

    def _locked_units(self, shape: tuple) -> np.ndarray:
        with self._lock:
            return self._units(math.prod(shape)).reshape(shape)

    # Discrete distributions

    def geometric(self, shape: tuple, dtype: np.dtype, p: float) -> np.ndarray:
        """The number of trials up to the first success, of probability p each."""
        dtype = np.dtype(dtype)
        if not 0 < p < 1:
            raise error(RuntimeError, "geometric_", "geometric_ expects p to be in (0, 1)", p=p)
        if dtype == np.bool_:
            raise error(NotImplementedError, "geometric_", "bools cannot count trials", dtype="bool")
        with np.errstate(divide="ignore"):
            values = np.ceil(np.log(self._locked_units(shape)) / math.log1p(-p))
        return cast(values, dtype) if dtype in DIGITS else values.astype(np.int64).astype(dtype)

    def bernoulli(self, p: float | np.ndarray, shape: tuple, dtype: np.dtype) -> np.ndarray:
        """One with probability p, else zero; an array of probabilities is broadcast to the shape."""
        if not isinstance(p, np.ndarray):
            if not 0 <= p <= 1:
                raise error(RuntimeError, "bernoulli_", "bernoulli_ expects p to be in [0, 1]", p=p)
            with self._lock:
                return self._coins(p, math.prod(shape), dtype).reshape(shape)
        check_float("bernoulli_", p.dtype, NotImplementedError)
        wide = np.float64 if p.dtype == np.float64 else np.float32
        p = np.broadcast_to(p.astype(wide), shape)
        if not ((p >= 0) & (p <= 1)).all():
            raise error(RuntimeError, "bernoulli_", "bernoulli_ expects every p to be in [0, 1]", p=p)
        with self._lock:
            units = self._units(p.size, wide)
        return (units.reshape(shape) < p).astype(dtype)

    def integers(self, low: int, high: int | None, shape: tuple, dtype: np.dtype) -> np.ndarray:
        """Integers in [low, high), of any real dtype; without `high`, up to the dtype's largest."""
        dtype = np.dtype(dtype)
        count = math.prod(shape)
        if high is None and low == INT64_MIN:
            if dtype not in (np.int64, np.float64, np.float32, ml_dtypes.bfloat16):
                raise error(
                    RuntimeError, "random_", "this dtype cannot span all 64-bit integers", dtype=str(dtype)
                )
            with self._lock:
                return cast(self._draw64(count).view(np.int64), dtype).reshape(shape)
        low, last = integer_bounds(low, high, dtype)
        span = last - low + 1
        with self._lock:
            if span >= 2**28:
                values = self._draw64(count)
                values %= np.uint64(span)
            else:
                values = self._draw32(count)
                values %= np.uint32(span)
        if dtype in (np.uint32, np.int32) and values.dtype == np.uint32:
            values += np.uint32(low % 2**32)
            return values.view(dtype).reshape(shape)
        values = values.astype(np.uint64, copy=False)
        values += np.uint64(low % 2**64)
        return cast(values.view(np.int64), dtype).reshape(shape)

    def random(self, shape: tuple, dtype: np.dtype) -> np.ndarray:
        """Integers from 0 to the dtype's largest; for floats to the largest below which none is missing."""
        dtype = np.dtype(dtype)
        if dtype in (np.uint16, np.uint32, np.uint64) or dtype in REAL_OF:
            rule = "random_ without bounds does not know this dtype"
            raise error(NotImplementedError, "random_", rule, dtype=str(dtype))
        count = math.prod(shape)
        with self._lock:
            wide = dtype in (np.int64, np.float64)
            bits = self._draw64(count) if wide else self._draw32(count)
        if dtype == np.bool_:
            return (bits & 1).astype(np.bool_).reshape(shape)
        span = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else np.iinfo(dtype).max + 1
        bits %= bits.dtype.type(span)
        return cast(bits.astype(np.int64), dtype).reshape(shape)

    def permutation(self, n: int, dtype: Any = np.int64) -> np.ndarray:
        """The numbers 0 to n - 1 in random order."""
        dtype = np.dtype(dtype)
        check_permutation(n, dtype)
        if n >= LARGE_PERMUTATION:
            return self._large_permutation(n).astype(dtype)
        partners = np.arange(n)
        with self._lock:
            draws = self._draw32(max(n - 1, 0))
        partners[:-1] += draws % np.arange(n, n - len(draws), -1, dtype=np.uint32)
        return cast(shuffle(partners), dtype)

    def _large_permutation(self, n: int) -> np.ndarray:
        # A 32-bit draw is too coarse for such an n, and PyTorch inserts from the inside out here.
        with self._lock:
            places = self._draw64(n) % np.arange(1, n + 1, dtype=np.uint64)
        order = np.empty(n, np.int64)
        for value, place in enumerate(places):
            order[value] = value
            order[value] = order[place]
            order[place] = value
        return order

    def multinomial(self, probs: np.ndarray, num_samples: int, replacement: bool = False) -> np.ndarray:
        """Indices drawn with the given weights (which need not sum to one), a row of samples per row."""
        check_multinomial(probs, num_samples, replacement)
        if probs.ndim == 2 and len(probs) == 0:
            return np.empty((0, num_samples), np.int64)
        if replacement and num_samples > 1:
            return self._draw_from_cumulative(probs, num_samples)
        scores = self.exponential(probs.shape, probs.dtype)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = (probs / scores).astype(np.float64)
        if num_samples == 1:
            return np.argmax(scores, axis=-1, keepdims=True)
        order = np.argsort(-scores, axis=-1, kind="stable")
        return np.ascontiguousarray(order[..., :num_samples])

    def _draw_from_cumulative(self, probs: np.ndarray, num_samples: int) -> np.ndarray:
        rows = np.atleast_2d(probs)
        wide = np.float64 if rows.dtype == np.float64 else np.float32
        cumulative = np.add.accumulate(rows.astype(wide), axis=-1, dtype=wide)
        cumulative = (cumulative / cumulative[:, -1:]).astype(np.float64)
        cumulative[:, -1] = 1.0
        units = self._locked_units((len(rows), num_samples))
        found = [np.searchsorted(row, unit, side="left") for row, unit in zip(cumulative, units, strict=True)]
        return np.stack(found).astype(np.int64).reshape(*probs.shape[:-1], num_samples)

    def poisson(self, rates: np.ndarray) -> np.ndarray:
        """Counts of events at the given rates, in the dtype of the rates."""
        check_float("poisson", rates.dtype, NotImplementedError)
        if not (rates >= 0).all():
            raise error(RuntimeError, "poisson", "every rate must be non-negative", rates=rates)
        with self._lock:
            supply = _Supply(self)
            counts = [_poisson(rate, supply) for rate in rates.ravel().tolist()]
            supply.give_back()
        return cast(np.array(counts, np.int64), rates.dtype).reshape(rates.shape)


class _Supply:
    """Uniforms one at a time, for a loop that cannot know how many it needs; the rest goes back."""

    def __init__(self, generator: Generator, size: int = 1024):
        self.generator, self.size = generator, size
        self.units: list[float] = []
        self.refill()

    def refill(self) -> None:
        self.before = self.generator._engine().bit_generator.state
        self.fresh = self.generator._untouched
        self.units = self.generator._units(self.size).tolist()
        self.units.reverse()

    def __call__(self) -> float:
        if not self.units:
            self.refill()
        return self.units.pop()

    def give_back(self) -> None:
        self.generator._engine().bit_generator.state = self.before
        self.generator._untouched = self.fresh
        self.generator._draw64(self.size - len(self.units))


def _poisson(rate: float, unit: _Supply) -> int:
    if rate >= 10:
        return _poisson_by_rejection(rate, unit)
    count, product, limit = 0, 1.0, math.exp(-rate)
    while rate > 0:
        product *= unit()
        if product <= limit:
            break
        count += 1
    return count


def _poisson_by_rejection(rate: float, unit: _Supply) -> int:
    """Hoermann's transformed rejection (1993), with PyTorch's constants."""
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    accept_below = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = unit() - 0.5, unit()
        margin = 0.5 - abs(u)
        if margin == 0:
            continue
        count = math.floor((2 * a / margin + b) * u + rate + 0.43)
        if margin >= 0.07 and v <= accept_below:
            return count
        if count < 0 or (margin < 0.013 and v > margin):
            continue
        log_v = math.log(v) if v > 0 else -math.inf
        score = log_v + math.log(inverse_alpha) - math.log(a / (margin * margin) + b)
        if score <= -rate + count * log_rate - math.lgamma(count + 1):
            return count


default_generator = Generator()
default_generator.seed()


def in_child() -> None:
    """Another thread may have held the lock at the moment of a fork, and does not exist in the child."""
    default_generator._lock = threading.Lock()


os.register_at_fork(after_in_child=in_child)
