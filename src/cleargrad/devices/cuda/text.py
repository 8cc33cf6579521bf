"""Scalar expressions as CUDA C++: the reading that kernels on NVIDIA GPUs are made of.

`read` writes an expression as lines of C++ over the values of its operands and means what expr/numpy_reading.py
means on arrays of the working dtype. Half-wide floats are held as float32 and rounded when they are stored. What
has no words here raises `Unreadable`, and the op runs elsewhere. `PRELUDE` is what all kernels begin with; it is
plain C++ but for two instructions, so that tests compile it for the CPU as well. Read next: devices/cuda/nests.py.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from cleargrad.expr.expr import Expr, Var

# The C++ types that values are held in, and those that lie in memory.
HELD = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int",
    "int64": "long long", "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
}  # fmt: skip
STORED = {**HELD, "float16": "unsigned short", "bfloat16": "unsigned short"}
FLOATS = ("float32", "float64")
NARROW = ("float16", "bfloat16")

PRELUDE = r"""
typedef long long i64;
template <int N> struct Words { i64 w[N]; };
#ifdef __CUDACC__
#define KERNEL(name, n, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Words<n> words)
#define SHARED(type, name, n) __shared__ type name[n];
#define PHASE {
#define END } __syncthreads();
#define DEVICE __device__ __forceinline__
DEVICE float from_half(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
DEVICE unsigned short to_half(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
DEVICE unsigned int bits_of(float f) { return __float_as_uint(f); }
DEVICE float float_of(unsigned int u) { return __uint_as_float(u); }
DEVICE i64 bits_of(double f) { return __double_as_longlong(f); }
DEVICE double double_of(i64 u) { return __longlong_as_double(u); }
#endif
DEVICE float from_bfloat(unsigned short h) { return float_of((unsigned int)h << 16); }
DEVICE unsigned short to_bfloat(float f) {
  unsigned int u = bits_of(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((u >> 16) | 0x40u);
  return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
#define LOWEST(T) (-(T)INFINITY_)
#define INFINITY_ float_of(0x7f800000u)
#define NAN_ float_of(0x7fc00000u)
template <class T> DEVICE T p_max(T x, T y) { return x != x ? x : (x > y ? x : y); }
template <class T> DEVICE T p_min(T x, T y) { return x != x ? x : (x < y ? x : y); }
template <class T> DEVICE T p_larger(T x, T y) { return x > y ? x : y; }
template <class T> DEVICE T p_smaller(T x, T y) { return x < y ? x : y; }
template <class T> DEVICE T p_fmax(T x, T y) { return y != y ? x : (x > y ? x : y); }
template <class T> DEVICE T p_fmin(T x, T y) { return y != y ? x : (x < y ? x : y); }
template <class T> DEVICE T p_sign(T x) { return (T)((x > (T)0) - (x < (T)0)); }
template <class T> DEVICE T p_sigmoid(T x) { return (T)1 / ((T)1 + exp(-x)); }
template <class T> DEVICE T p_normal_below(T x) { return (T)0.5 * erfc(-x * (T)0.70710678118654752440); }
template <class T> DEVICE T p_rsqrt(T x) { return (T)1 / sqrt(x); }
template <class T> DEVICE T p_rectified(T x, T y) { return y <= (T)0 ? (T)0 : x; }
template <class T> DEVICE T p_remainder(T x, T y) {
  T rest = fmod(x, y);
  if (rest != 0 && ((rest < 0) != (y < 0))) rest += y;
  return rest == 0 ? copysign((T)0, y) : rest;
}
template <class T> DEVICE T p_floor_divide(T x, T y) {
  if (y == 0) return x / y;
  T rest = fmod(x, y), quotient = (x - rest) / y;
  if (rest != 0 && ((rest < 0) != (y < 0))) quotient -= (T)1;
  if (quotient == 0) return copysign((T)0, x / y);
  T down = floor(quotient);
  return quotient - down > (T)0.5 ? down + (T)1 : down;
}
template <class T> DEVICE T p_logaddexp(T x, T y) {
  if (x == y) return x + (T)0.69314718055994530942;
  T far = x > y ? y - x : x - y;
  T top = x > y ? x : y;
  return x != x || y != y ? x + y : top + log1p(exp(far));
}
template <class T> DEVICE T p_logaddexp2(T x, T y) {
  if (x == y) return x + (T)1;
  T far = x > y ? y - x : x - y;
  T top = x > y ? x : y;
  return x != x || y != y ? x + y : top + log1p(exp2(far)) * (T)1.44269504088896340736;
}
template <class T> DEVICE T p_whole_floor_divide(T x, T y) {
  if (y == (T)-1) return (T)(-x);
  T quotient = x / y, rest = x % y;
  return rest != 0 && ((rest < 0) != (y < 0)) ? quotient - 1 : quotient;
}
template <class T> DEVICE T p_whole_remainder(T x, T y) {
  if (y == (T)-1) return 0;
  T rest = x % y;
  return rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest;
}
template <class T> DEVICE T p_shift_left(T x, T y, int digits) { return y >= 0 && y < digits ? (T)(x << y) : (T)0; }
template <class T> DEVICE T p_shift_right(T x, T y, int digits) {
  return y >= 0 && y < digits ? (T)(x >> y) : (T)(x >> (digits - 1));
}
DEVICE i64 place_in(i64 index, i64 extent, i64* error) {
  if (index < 0) index += extent;
  if (index < 0 || index >= extent) { *error = 1; index = 0; }
  return index;
}
"""

# name -> C++ of the operands' names; "{T}" is the working type.
EVERYWHERE = {
    "lt": "({0} < {1})", "le": "({0} <= {1})", "gt": "({0} > {1})", "ge": "({0} >= {1})", "eq": "({0} == {1})",
    "ne": "({0} != {1})", "logical_and": "({0} != 0 && {1} != 0)", "logical_or": "({0} != 0 || {1} != 0)",
    "logical_xor": "(({0} != 0) != ({1} != 0))", "logical_not": "({0} == 0)",
}  # fmt: skip
ALIKE = {"identity": "{0}", "conj": "{0}", "real": "{0}"}
CHOICES = {"where": "({0} != 0 ? {1} : {2})", "drop": "({1} != 0 ? {2} : {0})"}
NUMBERS = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "neg": "(-{0})", "square": "({0} * {0})",
    "imag": "({T})0", "rectified": "p_rectified<{T}>({0}, {1})", "sign": "p_sign<{T}>({0})",
}  # fmt: skip
LIBRARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt tanh erf erfc erfinv erfcx sin cos tan asin acos atan sinh cosh "
    "asinh acosh atanh floor ceil trunc lgamma"
)
OWN = {
    1: "sigmoid normal_below rsqrt",
    2: "remainder floor_divide logaddexp logaddexp2 fmax fmin",
}  # of the prelude
OF_FLOATS = {
    "div": "({0} / {1})", "power": "pow({0}, {1})", "fmod": "fmod({0}, {1})", "atan2": "atan2({0}, {1})",
    "hypot": "hypot({0}, {1})", "copysign": "copysign({0}, {1})", "nextafter": "nextafter({0}, {1})",
    "ldexp": "({0} * exp2({1}))", "abs": "fabs({0})", "round": "rint({0})", "reciprocal": "(({T})1 / {0})",
    "trunc_divide": "trunc({0} / {1})", "bessel_j0": "j0({0})", "bessel_j1": "j1({0})", "bessel_y0": "y0({0})",
    "bessel_y1": "y1({0})",
    **{name: f"p_{name}<{{T}}>({{0}})" for name in OWN[1].split()},
    **{name: f"p_{name}<{{T}}>({{0}}, {{1}})" for name in OWN[2].split()},
    "maximum": "p_max<{T}>({0}, {1})", "minimum": "p_min<{T}>({0}, {1})",
    **{name: f"{name}({{0}})" for name in LIBRARY.split()},
}  # fmt: skip
# What only a GPU's library has; tests on the CPU leave it out.
ON_GPU = ("erfinv", "erfcx")
OF_INTEGERS = {
    "maximum": "p_larger<{T}>({0}, {1})", "minimum": "p_smaller<{T}>({0}, {1})", "fmax": "p_larger<{T}>({0}, {1})",
    "fmin": "p_smaller<{T}>({0}, {1})", "abs": "({0} < 0 ? -{0} : {0})", "floor": "{0}", "ceil": "{0}",
    "trunc": "{0}", "round": "{0}", "bit_and": "({0} & {1})", "bit_or": "({0} | {1})", "bit_xor": "({0} ^ {1})",
    "bit_not": "(~{0})", "shift_left": "p_shift_left<{T}>({0}, {1}, 8 * sizeof({T}))",
    "shift_right": "p_shift_right<{T}>({0}, {1}, 8 * sizeof({T}))",
}  # fmt: skip
OF_BOOLEANS = {
    "add": "({0} || {1})", "mul": "({0} && {1})", "maximum": "({0} || {1})", "minimum": "({0} && {1})",
    "bit_and": "({0} && {1})", "bit_or": "({0} || {1})", "bit_xor": "({0} != {1})", "bit_not": "(!{0})",
    "abs": "{0}", "sign": "{0}",
}  # fmt: skip
TRUTHS = {  # of floats; integers are all finite
    "isnan": "({0} != {0})", "isinf": "(fabs({0}) == INFINITY_)", "isfinite": "(fabs({0}) < INFINITY_)",
    "signbit": "(copysign(({T})1, {0}) < 0)",
}  # fmt: skip
WHOLE_TRUTHS = {"isnan": "false", "isinf": "false", "isfinite": "true", "signbit": "({0} < 0)"}
DIVISIONS = {
    "fmod": "({0} % {1})", "trunc_divide": "({0} / {1})", "remainder": "p_whole_remainder<{T}>({0}, {1})",
    "floor_divide": "p_whole_floor_divide<{T}>({0}, {1})",
}  # fmt: skip


class Unreadable(Exception):
    """The expression has no reading in CUDA C++ for this dtype."""


class Lines:
    """C++ that is being written: lines, and names for values, each once."""

    def __init__(self, names: Any = None) -> None:
        self.lines: list[str] = []
        self.counter = names if names is not None else iter(range(1 << 30))

    def value(self, kind: str, text: str) -> str:
        """A new name for a value."""
        name = f"v{next(self.counter)}"
        self.lines.append(f"const {HELD[kind]} {name} = {text};")
        return name


def literal(value: Any, kind: str) -> str:
    """A Python number in the working dtype."""
    if kind in (*FLOATS, *NARROW):
        number = float(np.float32(value)) if kind != "float64" else float(value)
        type = HELD[kind]
        if math.isnan(number):
            return f"({type})NAN_"
        if math.isinf(number):
            return f"({type}){'-' if number < 0 else ''}INFINITY_"
        return f"{number.hex()}{'' if kind == 'float64' else 'f'}"
    if kind == "bool":
        return "true" if value else "false"
    if isinstance(value, float):
        raise Unreadable(f"{value!r} is no {kind}")
    number = int(np.array(int(value) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(kind))
    if number == -(2**63):
        return "(-9223372036854775807LL - 1)"
    return f"({HELD[kind]}){number}LL"


def converted(text: str, source: str, target: str) -> str:
    """A value of one dtype as another one, as PyTorch converts."""
    if HELD[source] == HELD[target] and target not in NARROW:
        return text
    if target == "bool":
        return f"({text} != 0)"
    if target in NARROW:
        number = text if HELD[source] == "float" else f"(float){text}"
        if target == source:
            return text
        return (
            f"from_bfloat(to_bfloat({number}))" if target == "bfloat16" else f"from_half(to_half({number}))"
        )
    if source in (*FLOATS, *NARROW) and target not in FLOATS:
        return f"({HELD[target]})(long long){text}"
    return f"({HELD[target]}){text}"


def loaded(text: str, kind: str) -> str:
    """What lies in memory as it is held."""
    if kind == "bfloat16":
        return f"from_bfloat({text})"
    return f"from_half({text})" if kind == "float16" else text


def stored(text: str, kind: str) -> str:
    if kind == "bfloat16":
        return f"to_bfloat({text})"
    return f"to_half({text})" if kind == "float16" else text


def read(lines: Lines, tree: Expr, operands: list[tuple[str, str]], kind: str) -> tuple[str, str]:
    """The result of an expression and its dtype: the working one, or bool. Operands come with theirs."""
    return Reading(lines, operands, kind).value(tree)


@lru_cache(maxsize=8192)
def readable(tree: Expr, kind: str) -> bool:
    """Whether `read` knows the expression, with conditions boolean and other operands of the working dtype."""
    if kind not in HELD or kind in NARROW:
        return False
    count = operand_count(tree)
    boolean = conditions(tree)
    operands = [(f"x{k}", "bool" if k in boolean else kind) for k in range(count)]
    try:
        read(Lines(), tree, operands, kind)
    except Unreadable:
        return False
    return True


def operand_count(tree: Expr) -> int:
    positions = [operand_count(arg) for arg in tree.args if isinstance(arg, Expr)]
    if isinstance(tree, Var):
        positions.append(tree.position + 1)
    return max(positions, default=0)


@lru_cache(maxsize=8192)
def conditions(tree: Expr) -> frozenset[int]:
    """The operands of an expression that choose between others: they are booleans, whatever is computed."""
    if not isinstance(tree, Expr) or isinstance(tree, Var):
        return frozenset()
    found = {position for arg in tree.args for position in conditions(arg)}
    chooser = {"where": 0, "drop": 1}.get(tree.primitive)
    if chooser is not None and isinstance(tree.args[chooser], Var):
        found.add(tree.args[chooser].position)
    return frozenset(found)


class Reading:
    """One expression on its way into C++."""

    def __init__(self, lines: Lines, operands: list[tuple[str, str]], kind: str) -> None:
        self.lines, self.operands, self.kind = lines, operands, kind
        self.done: dict[int, tuple[str, str]] = {}

    def value(self, node: Any) -> tuple[str, str]:
        if isinstance(node, Var):
            return self.operands[node.position]
        if not isinstance(node, Expr):
            if not isinstance(node, (bool, int, float)):
                raise Unreadable(f"the constant {node!r}")
            return literal(node, self.kind), self.kind
        if id(node) not in self.done:
            text, kind = self.apply(node)
            self.done[id(node)] = (self.lines.value(kind, text), kind)
        return self.done[id(node)]

    def apply(self, node: Expr) -> tuple[str, str]:
        name, kind = node.primitive, self.kind
        if name == "power" and not isinstance(node.args[1], Expr):
            return self.literal_power(*node.args), kind
        values = [self.value(arg) for arg in node.args]
        texts = [text for text, _ in values]
        if name in EVERYWHERE:
            return EVERYWHERE[name].format(*self.widened(values)), "bool"
        if name in ALIKE:
            return texts[0], values[0][1]
        if name in CHOICES:
            condition = 0 if name == "where" else 1
            kinds = {found for k, (_, found) in enumerate(values) if k != condition}
            chosen = kind if len(kinds) > 1 else kinds.pop()
            wide = [
                t if k == condition else converted(t, found, chosen) for k, (t, found) in enumerate(values)
            ]
            return CHOICES[name].format(*wide), chosen
        floating = kind in FLOATS
        if name in TRUTHS:
            if values[0][1] not in FLOATS:
                return WHOLE_TRUTHS[name].format(*texts), "bool"
            return TRUTHS[name].format(*texts, T=HELD[kind]), "bool"
        if name in DIVISIONS and not floating:
            divisor = node.args[1]
            if kind == "bool" or isinstance(divisor, Expr) or divisor == 0:
                raise Unreadable(f"{name} of {kind}")
        if kind == "bool":
            table = OF_BOOLEANS
        elif floating:
            table = {**NUMBERS, **OF_FLOATS}
        else:
            table = {**NUMBERS, **OF_INTEGERS, **DIVISIONS}
        if name not in table:
            raise Unreadable(f"{name} of {kind}")
        if kind != "bool" and all(found == "bool" for _, found in values):
            raise Unreadable("arithmetic on booleans alone")
        if name in ("maximum", "minimum") and floating and not isinstance(node.args[1], Expr):
            texts = texts[::-1]  # of two zeros the second wins: not the literal, as in the NumPy reading
            values = values[::-1]
        texts = [converted(text, found, kind) for text, found in values]
        text = table[name].format(*texts, T=HELD[kind])
        return (text if floating else f"({HELD[kind]}){text}"), kind

    def widened(self, values: list[tuple[str, str]]) -> list[str]:
        kinds = {found for _, found in values}
        return [text if len(kinds) == 1 else converted(text, found, self.kind) for text, found in values]

    def literal_power(self, base: Any, exponent: Any) -> str:
        """The products that a small whole power is, as the NumPy reading makes them."""
        text, found = self.value(base)
        kind = self.kind
        if kind == "bool" or found == "bool" or (isinstance(exponent, float) and kind not in FLOATS):
            raise Unreadable(f"power {exponent!r} of {kind}")
        if kind in FLOATS and exponent in (0.5, -0.5):
            return f"sqrt({text})" if exponent > 0 else f"p_rsqrt<{HELD[kind]}>({text})"
        few = 4 if kind in FLOATS else 64
        if not abs(exponent) <= few or exponent != int(exponent) or (exponent < 0 and kind not in FLOATS):
            if kind not in FLOATS:
                raise Unreadable("power of integers")
            return f"pow({text}, {literal(exponent, kind)})"
        if exponent == 0:
            return literal(1, kind)
        result, factor, count = "", text, abs(int(exponent))
        while count:
            if count % 2:
                result = (
                    factor if not result else self.lines.value(kind, f"({HELD[kind]})({result} * {factor})")
                )
            count //= 2
            if count:
                factor = self.lines.value(kind, f"({HELD[kind]})({factor} * {factor})")
        return result if exponent > 0 else f"({HELD[kind]})1 / {result}"
