"""Random numbers, made on the GPU by Philox4x32-10: those of PyTorch's CUDA generator.

A thread has a subsequence of its own; each of its rounds makes four 32-bit numbers, or two of 64 bits, for
places of the result that lie a whole grid apart. Seed and offset are read from memory of the GPU, to which a
word adds how far the stream has come, so that a captured kernel can be told another state without being
captured again.

The same bits as PyTorch, by construction: uniform, integers (randint, random_), Bernoulli numbers, masks of
dropout of float32 and float64, and randperm, all of them as a function of the GPU's number of processors. Made
of the same instructions, and so the same where the compilers agree: normal, log-normal, exponential, Cauchy and
geometric numbers. Poisson, binomial, gamma and Dirichlet numbers are made by the CPU, from a stream whose seed is
drawn from that of the GPU. Read next: devices/cuda/sorting.py.
"""

from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from cleargrad.core.generator import Generator, default_generator
from cleargrad.core.philox import Philox, default_of
from cleargrad.core.random_rules import (
    DIGITS,
    INT64_MIN,
    check_float,
    check_permutation,
    check_uniform_bounds,
    integer_bounds,
)
from cleargrad.devices.cuda.program import new_array
from cleargrad.devices.cuda.runtime import Block
from cleargrad.devices.cuda.sorting import sorted_order
from cleargrad.devices.cuda.text import HELD, STORED, converted, stored
from cleargrad.devices.cuda.written import THREADS, halves, number, start, start_each, whole
from cleargrad.errors import error
from cleargrad.schedule.formulas import kind_of

# Text ------------------------------------------------------------------------------------------------------

PHILOX = r"""
#ifndef PHILOX
#define PHILOX
#ifdef __CUDACC__
#define FAST_LOG __logf
#define FAST_EXP __expf
#define FAST_TAN __tanf
#define FAST_TURN __sincosf
#else
#define FAST_LOG logf
#define FAST_EXP expf
#define FAST_TAN tanf
#define FAST_TURN sincosf
static inline void sincospi(double x, double* s, double* c) { sincos(x * 3.14159265358979323846, s, c); }
#endif
typedef unsigned long long u64;
struct Four { unsigned n[4]; };
DEVICE Four philox(u64 seed, u64 offset, u64 subsequence) {
  unsigned a = (unsigned)offset, b = (unsigned)(offset >> 32);
  unsigned c = (unsigned)subsequence, d = (unsigned)(subsequence >> 32);
  unsigned k = (unsigned)seed, l = (unsigned)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    u64 p = (u64)0xD2511F53u * a, q = (u64)0xCD9E8D57u * c;
    a = (unsigned)(q >> 32) ^ b ^ k;
    b = (unsigned)q;
    c = (unsigned)(p >> 32) ^ d ^ l;
    d = (unsigned)p;
    k += 0x9E3779B9u;
    l += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}
DEVICE float unit(unsigned x) { return fmaf((float)x, 0x1p-32f, 0x1p-33f); }
DEVICE double unit(unsigned x, unsigned y) { return fma((double)((u64)x ^ ((u64)y << 21)), 0x1p-53, 0x1p-54); }
#endif
"""

# How the numbers of a round become values `r[...]`: C++, and how many there are.
TURN = 2 * math.pi
WAYS = {
    "words": ("const unsigned* r = four.n;", 4),
    "long words": (
        "const u64 r[2] = {(u64)four.n[0] << 32 | four.n[1], (u64)four.n[2] << 32 | four.n[3]};",
        2,
    ),
    "units": (
        "const float r[4] = {unit(four.n[0]), unit(four.n[1]), unit(four.n[2]), unit(four.n[3])};",
        4,
    ),
    "long units": ("const double r[2] = {unit(four.n[0], four.n[1]), unit(four.n[2], four.n[3])};", 2),
    "normals": (
        """float r[4];
for (int k = 0; k < 4; k += 2) {
  const float turn = 0x1p-32f * 6.2831855f;
  const float radius = sqrtf(-2.0f * logf(unit(four.n[k])));
  FAST_TURN(fmaf((float)four.n[k + 1], turn, turn / 2), &r[k], &r[k + 1]);
  r[k] *= radius;
  r[k + 1] *= radius;
}""",
        4,
    ),
    "long normals": (
        """double r[2];
const double radius = sqrt(-2.0 * log(unit(four.n[0], four.n[1])));
sincospi(fma((double)((u64)four.n[2] ^ ((u64)four.n[3] << 21)), 0x1p-52, 0x1p-53), &r[0], &r[1]);
r[0] *= radius;
r[1] *= radius;""",
        2,
    ),
}

DRAW = """
PHASE
const u64 seed = ((const u64*)words.w[0])[0], begin = (((const u64*)words.w[0])[1] + (u64)words.w[1]) / 4;
{T}* out = ({T}*)words.w[2];
const i64 n = words.w[3], me = (i64)blockIdx.x * {threads} + threadIdx.x, grid = (i64)gridDim.x * {threads};
for (i64 first = me * {beside}, round = 0; first < n; first += grid * {many}, round++) {{
  const Four four = philox(seed, begin + round, me);
  {way}
  for (int k = 0; k < {many}; k++) {{
    const i64 i = first + k * {apart};
    if (i >= n) break;
    {value}
  }}
}}
END
"""
PARAMETERS = 4  # the first word that a distribution has for itself


def out(text: str, source: str, kind: str) -> str:
    """C++ that stores a value of one dtype as another."""
    return f"out[i] = {stored(converted(text, source, kind), kind)};"


PARTS_OF = {"complex64": "float32", "complex128": "float64"}

# Streams ---------------------------------------------------------------------------------------------------


class Seeds:
    """Where the GPU finds the seeds of streams: pairs of a seed and an offset, which are zero here so far."""

    def __init__(self) -> None:
        self.pairs: weakref.WeakKeyDictionary[Philox, tuple[int, Block]] = weakref.WeakKeyDictionary()

    def pair(self, runtime: Any, stream: Philox, seed: int) -> Block:
        found = self.pairs.get(stream)
        if found is None or found[0] != seed:
            block = runtime.allocate(16)
            runtime.upload(block.address, np.array([seed, 0], np.uint64))
            found = self.pairs[stream] = seed, block
        return found[1]


def stream_here(stream: Any, place: str = "cuda:0") -> Philox:
    """The stream that numbers on the GPU come from."""
    if isinstance(stream, Philox):
        return stream
    if stream is default_generator:
        return default_of(place)
    rule = "Expected a 'cuda' device type for generator but found 'cpu'"
    raise error(RuntimeError, "random", rule, fix="use torch.Generator(device='cuda')")


def on_host(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a call that the CPU makes: its stream is seeded by what the GPU's has come to."""
    if "stream" not in attrs:
        return attrs
    drawn = hashlib.blake2b(repr(stream_here(attrs["stream"]).take(4)).encode(), digest_size=4)
    return {**attrs, "stream": Generator().manual_seed(int.from_bytes(drawn.digest(), "little"))}


def draw(
    driver: Any,
    stream: Any,
    shape: tuple,
    kind: str,
    way: str,
    value: str,
    parameters: tuple = (),
    together: int = 0,
    at_once: int = 0,
) -> np.ndarray:
    """A new array of numbers; `value` is the C++ that stores r[k] as out[i].

    `together` so many of a round are neighbours in the result; by default they lie a grid apart. With `at_once`,
    blocks of so many threads make one round each, as PyTorch has it for tensors of probabilities.
    """
    runtime = driver.runtime
    result = new_array(runtime, shape, dtype_of(kind))
    n = math.prod(shape)
    if not n:
        return result
    lines, many = WAYS[way]
    many = together or many
    threads = at_once or THREADS
    blocks = -(-n // (threads * many)) if at_once else min(runtime.resident, -(-n // threads))
    stream = stream_here(stream)
    seed, offset = stream.take(10 if at_once else -(-n // (threads * blocks * many)) * 4)
    beside, apart = (many, "1") if together else (1, "grid")
    body = DRAW.format(
        T=STORED[kind], many=many, way=lines, value=value, threads=threads, beside=beside, apart=apart
    )
    words: list[Any] = [driver.seeds.pair(runtime, stream, seed), offset, result, n]
    for each in parameters:
        words += halves(each) if isinstance(each, (int, float)) else [each]
    start(runtime, body, blocks, words, threads, PHILOX)
    return result


def laid(driver: Any, attrs: dict[str, Any], make: Callable) -> list | None:
    """The result of a draw, whose dimensions lie in memory in an order of their own."""
    shape, order = tuple(attrs["shape"]), attrs["order"]
    kind = kind_of(attrs["dtype"].numpy)
    if kind in PARTS_OF:  # real and imaginary parts, one beside the other
        parts = make((*shape, 2), PARTS_OF[kind]) if order is None else None
        return None if parts is None else [parts.view(kind)[..., 0]]
    if kind not in HELD:
        return None
    inner = shape if order is None else tuple(shape[axis] for axis in order)
    made = make(inner, kind)
    if made is None or order is None:
        return None if made is None else [made]
    return [made.transpose(sorted(range(len(order)), key=lambda axis: order[axis]))]


# Distributions ---------------------------------------------------------------------------------------------


def wide_of(kind: str) -> str:
    return "float64" if kind == "float64" else "float32"


def uniform(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    low, high = map(float, attrs["parameters"])

    def make(shape: tuple, kind: str) -> np.ndarray:
        dtype, wide = dtype_of(kind), wide_of(kind)
        check_float("uniform_", dtype, NotImplementedError)
        check_uniform_bounds(dtype, low, high)
        first, last = (np.array(x).astype(np.float64).astype(dtype) for x in (low, high))
        type, p = HELD[kind], PARAMETERS
        near = f"fma(r[k], ({type}){number(p)}, ({type}){number(p + 2)})"
        value = (
            f"const {type} near = {converted(near, wide, kind)};\n"
            f"const {type} v = near == ({type}){number(p + 4)} ? ({type}){number(p + 2)} : near;\n"
            f"{out('v', kind, kind)}"
        )
        way = "long units" if kind == "float64" else "units"
        parameters = tuple(float(x) for x in (last - first, first, last))
        return draw(driver, attrs["stream"], shape, kind, way, value, parameters)

    return laid(driver, attrs, make)


def dtype_of(kind: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)


def normal(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    mean, std = map(float, attrs["parameters"][:2])
    logarithms = op.name == "log_normal"
    if not (std > 0 if logarithms else std >= 0):
        raise error(RuntimeError, f"{op.name}_", f"{op.name} expects std >= 0.0, but found std {std}")

    def make(shape: tuple, kind: str) -> np.ndarray:
        check_float(f"{op.name}_", dtype_of(kind), NotImplementedError)
        wide = wide_of(kind)
        type, p = HELD[wide], PARAMETERS
        text = f"fma(r[k], ({type}){number(p + 2)}, ({type}){number(p)})"
        if logarithms:
            text = f"exp({text})" if wide == "float64" else f"FAST_EXP({text})"
        way = "long normals" if wide == "float64" else "normals"
        return draw(driver, attrs["stream"], shape, kind, way, out(text, wide, kind), (mean, std))

    if attrs["dtype"].is_complex:
        std /= math.sqrt(2)
    return laid(driver, attrs, make)


EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def exponential_text(wide: str, rate: str) -> str:
    """-log(r) / rate, never zero."""
    type, half = HELD[wide], f"({HELD[wide]}){EPSILON[wide] / 2!r}"
    log = "log" if wide == "float64" else "FAST_LOG"
    return f"(({type})-1 / {rate} * (r[k] >= 1 - {half} ? -{half} : {log}(r[k])))"


def exponential(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    rate = float(attrs["parameters"][0])
    if not rate > 0:
        raise error(RuntimeError, "exponential_", "exponential_ expects lambda > 0.0", lambd=rate)

    def make(shape: tuple, kind: str) -> np.ndarray:
        check_float("exponential_", dtype_of(kind), RuntimeError)
        wide = wide_of(kind)
        text = exponential_text(wide, f"({HELD[wide]}){number(PARAMETERS)}")
        way = "long units" if wide == "float64" else "units"
        return draw(driver, attrs["stream"], shape, kind, way, out(text, wide, kind), (rate,))

    return laid(driver, attrs, make)


def cauchy(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    median, sigma = map(float, attrs["parameters"])
    if not sigma > 0:
        raise error(RuntimeError, "cauchy_", "cauchy_ expects sigma > 0.0", sigma=sigma)

    def make(shape: tuple, kind: str) -> np.ndarray:
        check_float("cauchy_", dtype_of(kind), RuntimeError)
        wide, p = wide_of(kind), PARAMETERS
        type = HELD[wide]
        if wide == "float64":
            angle, tangent = "r[k]", "tan"
        else:  # whose ends are kept off infinity
            end, tangent = EPSILON[wide], "FAST_TAN"
            angle = f"fmaxf(fminf(r[k], {float(np.float32(1 - end))!r}f), {end!r}f)"
        pi = f"({type}){math.pi!r}"
        slope = f"({type}){tangent}({pi} * ({angle} - ({type})0.5))"
        text = f"fma(({type}){number(p + 2)}, {slope}, ({type}){number(p)})"
        way = "long units" if wide == "float64" else "units"
        return draw(driver, attrs["stream"], shape, kind, way, out(text, wide, kind), (median, sigma))

    return laid(driver, attrs, make)


def geometric(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    p = float(attrs["parameters"][0])
    if not 0 < p < 1:
        raise error(RuntimeError, "geometric_", "geometric_ expects p to be in (0, 1)", p=p)

    def make(shape: tuple, kind: str) -> np.ndarray | None:
        if kind == "bool":
            raise error(NotImplementedError, "geometric_", "bools cannot count trials", dtype="bool")
        if kind == "float64":
            text = f"ceil(log(r[k]) / log1p(-{number(PARAMETERS)}))"
        else:
            text = f"ceilf(FAST_LOG(r[k]) / FAST_LOG(1.0f + -(float){number(PARAMETERS)}))"
        wide = wide_of(kind)
        way = "long units" if wide == "float64" else "units"
        return draw(driver, attrs["stream"], shape, kind, way, out(text, wide, kind), (p,))

    return laid(driver, attrs, make)


# Whole numbers ---------------------------------------------------------------------------------------------


def integers(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    low, high = attrs["parameters"]

    def make(shape: tuple, kind: str) -> np.ndarray:
        return integers_in(driver, attrs["stream"], shape, kind, low, high)

    return laid(driver, attrs, make)


def integers_in(driver: Any, stream: Any, shape: tuple, kind: str, low: int, high: int | None) -> np.ndarray:
    """Integers from `low` to `high` - 1, or to the dtype's largest."""
    if high is None and low == INT64_MIN:
        return draw(driver, stream, shape, kind, "long words", out("(i64)r[k]", "int64", kind))
    low, last = integer_bounds(low, high, dtype_of(kind))
    return integers_of(driver, stream, shape, kind, low, last - low + 1)


def integers_of(driver: Any, stream: Any, shape: tuple, kind: str, low: int, span: int) -> np.ndarray:
    text = f"(i64)(r[k] % (u64){whole(PARAMETERS)} + (u64){whole(PARAMETERS + 2)})"
    way = "long words" if span >= 1 << 28 else "words"
    return draw(driver, stream, shape, kind, way, out(text, "int64", kind), (span, low))


def any_integers(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    def make(shape: tuple, kind: str) -> np.ndarray:
        way = "long words" if kind in ("int64", "float64") else "words"
        if kind == "bool":
            return draw(driver, attrs["stream"], shape, kind, way, "out[i] = r[k] & 1;")
        dtype = dtype_of(kind)
        span = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else int(np.iinfo(dtype).max) + 1
        text = f"(i64)(r[k] % (u64){whole(PARAMETERS)})"
        return draw(driver, attrs["stream"], shape, kind, way, out(text, "int64", kind), (span,))

    return laid(driver, attrs, make)


# Coins -----------------------------------------------------------------------------------------------------


def coins(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    """Ones with one probability. PyTorch draws masks of dropout for neighbours at once where it can."""
    p, drops = float(attrs["parameters"][0]), len(attrs["parameters"]) > 1
    if not 0 <= p <= 1:
        raise error(RuntimeError, "bernoulli_", "bernoulli_ expects p to be in [0, 1]", p=p)

    def make(shape: tuple, kind: str) -> np.ndarray:
        n = math.prod(shape)
        wide = "float32" if drops else wide_of(kind)
        value = out(f"(r[k] < ({HELD[wide]}){number(PARAMETERS)})", "bool", kind)
        way = "long units" if wide == "float64" else "units"
        together = math.gcd(n, 4) if drops else 0
        return draw(driver, attrs["stream"], shape, kind, way, value, (p,), together if together > 1 else 0)

    return laid(driver, attrs, make)


def coins_of(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    """Ones with the probabilities in a tensor. Whether these are probabilities is not looked at."""
    p = arrays[-1]
    check_float("bernoulli_", p.dtype, NotImplementedError)
    order = attrs["order"]

    def make(shape: tuple, kind: str) -> np.ndarray:
        wide = wide_of(kind)
        chances = new_array(driver.runtime, shape, np.dtype(wide))
        given = np.broadcast_to(p, tuple(attrs["shape"]))
        driver.write(chances, chances, given if order is None else given.transpose(order))
        value = out(f"(r[k] <= ((const {HELD[wide]}*)words.w[{PARAMETERS}])[i])", "bool", kind)
        stream = attrs["stream"]
        return draw(driver, stream, shape, kind, "units", value, (chances,), together=4, at_once=512)

    return laid(driver, attrs, make)


# Permutations ----------------------------------------------------------------------------------------------

# Equal keys would leave their places in order, so those are shuffled by the first of them.
ISLANDS = """
const i64* keys = (const i64*)words.w[2];
const i64* order = (const i64*)words.w[3];
const i64 n = words.w[5], mine = keys[order[i]];
i64 size = 1;
while (i + size < n && keys[order[i + size]] == mine) size++;
if (size > 1 && (i == 0 || keys[order[i - 1]] != mine)) {
  i64* data = (i64*)words.w[4] + i;
  const u64 seed = ((const u64*)words.w[0])[0], begin = (((const u64*)words.w[0])[1] + (u64)words.w[1]) / 4;
  for (i64 last = size - 1, used = 0; last > 0; last--, used++) {
    const i64 other = philox(seed, begin + used / 4, i).n[used % 4] % (unsigned)(last + 1);
    const i64 held = data[last];
    data[last] = data[other];
    data[other] = held;
  }
}
"""


def permutation(driver: Any, op: Any, arrays: list, attrs: dict[str, Any]) -> list | None:
    """The numbers from 0 on, in the order of random keys."""
    n, kind = math.prod(attrs["shape"]), kind_of(attrs["dtype"].numpy)
    check_permutation(n, dtype_of(kind))
    runtime, stream = driver.runtime, stream_here(attrs["stream"])
    result = new_array(runtime, tuple(attrs["shape"]), attrs["dtype"].numpy)
    if not n:
        return [result]
    bits = min(64, math.ceil(math.log2(n - (6 * n * n + 1) / (math.log(0.9) * 12))))
    width = 32 if bits <= 32 else 64
    # keys of 32 or 64 bits, of which the lowest ones count
    keys = integers_of(driver, stream, (n,), "int64", -(1 << width - 1), (1 << width) - 1)
    start_each(runtime, n, f"((i64*)words.w[0])[i] &= {(1 << bits) - 1}LL;" if bits < 64 else "", [keys])
    order = sorted_order(driver, keys.reshape(1, n), unsigned=True)[0]
    shuffled = new_array(runtime, (n,), np.dtype(np.int64))
    driver.write(shuffled, shuffled, order)
    seed, offset = stream.take(n)
    pair = driver.seeds.pair(runtime, stream, seed)
    start_each(runtime, n, ISLANDS, [pair, offset, keys, order, shuffled], functions=PHILOX)
    driver.write(result, result, shuffled)
    return [result]


DRAWS: dict[str, Callable] = {
    "uniform": uniform,
    "normal": normal,
    "log_normal": normal,
    "exponential": exponential,
    "cauchy": cauchy,
    "geometric": geometric,
    "randint": integers,
    "random": any_integers,
    "randperm": permutation,
    "bernoulli_scalar": coins,
    "bernoulli": coins_of,
}
