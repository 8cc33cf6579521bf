"""Special functions: the error function and its kin, gamma, Bessel, zeta, orthogonal polynomials.

The kernels are in expr/special.py and expr/special_more.py. Those that PyTorch does not differentiate
have no gradient here either. The names of torch.special that belong to ops of other files are at the end.
Read next: ops/complex_numbers.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.comparison import choose
from cleargrad.ops.declare import REAL, composite, elementwise
from cleargrad.ops.elementary import exp, function, log, sgn
from cleargrad.ops.op import FACES, NO_GRAD
from cleargrad.ops.samples import Fails, Sample, binary, real, unary, whole

SPECIAL: dict[str, Any] = {"accepts": REAL, "spaces": ("special",), "method": False, "inplace": False}
BOTH: dict[str, Any] = {"accepts": REAL, "spaces": ("", "special")}
SQRT_PI = math.sqrt(math.pi)


def kernel(name: str) -> Callable:
    """The formula that is a single primitive of expr/special.py."""
    build = expr.special[name]
    return (lambda x: build(x)) if expr.PRIMITIVES[name] == 1 else (lambda x, y: build(x, y))


def no_vjp(op: str, operand: str) -> Callable:
    """PyTorch records such an operand and refuses when its gradient is asked for."""

    def vjp(g: Tensor) -> Tensor:
        rule = f"the derivative with respect to '{operand}' is not implemented"
        raise error(NotImplementedError, op, rule)

    return vjp


# The error function and the normal distribution ------------------------------------------------------------

erf = function("erf", kernel("erf"), lambda x: (2 / SQRT_PI) * exp(-x * x), **BOTH)
erfc = function("erfc", kernel("erfc"), lambda x: (-2 / SQRT_PI) * exp(-x * x), **BOTH)
erfinv = function(
    "erfinv", kernel("erfinv"), lambda out: (SQRT_PI / 2) * exp(out * out), low=-0.9, high=0.9, **BOTH
)
erfcx = function("erfcx", kernel("erfcx"), vjp=lambda g, x, out: g * (2 * x * out - 2 / SQRT_PI), **SPECIAL)
ndtr = function("ndtr", kernel("ndtr"), lambda x: exp(x * x * -0.5) / math.sqrt(2 * math.pi), **SPECIAL)
ndtri = function(
    "ndtri",
    kernel("ndtri"),
    lambda out: math.sqrt(2 * math.pi) * exp(out * out / 2),
    low=0.1,
    high=0.9,
    **SPECIAL,
)
log_ndtr = function(
    "log_ndtr",
    kernel("log_ndtr"),
    vjp=lambda g, x: g / erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    **SPECIAL,
)

# Gamma -----------------------------------------------------------------------------------------------------

lgamma = function("lgamma", kernel("lgamma"), lambda x: digamma(x), low=0.3, high=4.0, accepts=REAL)
digamma = function("digamma", kernel("digamma"), lambda x: trigamma(x), low=0.3, high=4.0, **BOTH)
trigamma = function(
    "trigamma",
    kernel("trigamma"),
    lambda x: polygamma(2, x),
    low=0.3,
    high=4.0,
    accepts=REAL,
    node="PolygammaBackward0",
    public=False,
)
zeta = elementwise(
    "zeta",
    kernel("zeta"),
    vjp=(no_vjp("zeta", "self"), lambda g, x, y: g * -x * zeta(x + 1, y)),
    samples=lambda: iter(
        [
            Sample(whole(3, low=2, high=5), real(3, low=0.5)),
            Sample(2.5, real(3, low=0.5, high=3.0)),
            Sample(whole(3, 1, low=2, high=5), whole(4, low=1, high=5)),
        ]
    ),
    result="float",
    node="SpecialZetaBackward0",
    **SPECIAL,
)


def polygamma_samples() -> Iterator[Sample]:
    for n in range(4):
        yield Sample(n, real(3, low=0.5, high=3.0))
    yield Sample(1, whole(3, low=1))
    yield Fails(RuntimeError, -1, real(3))


@composite(polygamma_samples, spaces=("", "special"), out=True)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma: (−1)^(n + 1) n! zeta(n + 1, input)."""
    if n < 0:
        raise error(RuntimeError, "polygamma", "polygamma(n, x) does not support negative n", n=n)
    if n < 2:
        return trigamma(input) if n else digamma(input)
    return (-1) ** (n + 1) * float(math.factorial(n)) * zeta(n + 1, input)


@composite(
    lambda: iter([Sample(real(3, low=0.5), 1)]),
    spaces=(),
    method=True,
    inplace=True,
    reference=lambda torch: torch.Tensor.polygamma,
)
def polygamma_(self: Tensor, n: int) -> Tensor:
    """The method form: the tensor comes first."""
    return polygamma(n, self)


def mvlgamma_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4, low=2.0, high=5.0), 3)
    yield Sample(real(low=1.0, high=3.0), p=1)
    yield Sample(whole(3, low=4, high=9), 5)
    yield Fails(RuntimeError, real(3), 0)


@composite(mvlgamma_samples, method=True, inplace=True, out=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function: p (p − 1)/4 log π + Σ lgamma(input − k/2) over k < p."""
    if p < 1:
        raise error(RuntimeError, "mvlgamma", "p has to be greater than or equal to 1", p=p)
    total = lgamma(input)
    for k in range(1, p):
        total = total + lgamma(input - k / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


def gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """x^(a − 1) exp(−x) / gamma(a)."""
    return exp((a - 1) * log(x) - x - lgamma(a))


def incomplete_gamma(name: str, sign: int) -> Callable:
    return elementwise(
        name,
        kernel(name),
        vjp=(no_vjp(name, "input"), lambda g, x, y: sign * g * gamma_density(x, y)),
        samples=lambda: iter(
            [Sample(whole(3, low=1), real(3, low=0.5, high=4.0)), Fails(RuntimeError, real(3), real(4))]
        ),
        accepts=(dtypes.FLOAT,),
    )


igamma = incomplete_gamma("igamma", 1)
igammac = incomplete_gamma("igammac", -1)

# Logarithms that know their limits -------------------------------------------------------------------------

entr = function(
    "entr",
    lambda x: expr.where(expr.eq(x, 0), 0, expr.where(x < 0, -math.inf, -x * expr.log(x))),
    lambda x: -(1 + log(x)),
    low=0.2,
    **SPECIAL,
)


def times_logarithm(name: str, logarithm: Callable, edge: float, **publishing: Any) -> Callable:
    """x · log(y), or log(1 + y), which is 0 where x is 0 unless y is NaN; the logarithm ends at `edge`."""

    def x_vjp(g: Tensor, x: Any, y: Any) -> Tensor:
        return choose((x == 0) & (y <= edge), 0, door(g, y))

    door = elementwise(
        name,
        lambda x, y: expr.where(expr.eq(x, 0) & expr.eq(y, y), 0, x * logarithm(y)),
        vjp=(x_vjp, lambda g, x, y: g * x / (y - edge)),
        samples=binary(other=(edge + 0.5, edge + 3.0)),
        result="float",
        **publishing,
    )
    return door


xlogy = times_logarithm("xlogy", expr.log, 0.0, **BOTH)
xlog1py = times_logarithm("xlog1py", expr.log1p, -1.0, node="SpecialXlog1PyBackward0", **SPECIAL)

# Bessel functions ------------------------------------------------------------------------------------------


def i1_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return g * choose(x == 0, 0.5, i0(x) - out / x)


def i1e_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return g * choose(x == 0, 0.5, i0e(x) - out * (sgn(x) + 1 / x))


i0 = function("i0", kernel("i0"), lambda x: i1(x), **BOTH)
i0e = function("i0e", kernel("i0e"), vjp=lambda g, x, out: g * (i1e(x) - sgn(x) * out), **SPECIAL)
i1 = function("i1", kernel("i1"), vjp=i1_vjp, **SPECIAL)
i1e = function("i1e", kernel("i1e"), vjp=i1e_vjp, **SPECIAL)


def constant(name: str, primitive: str, samples: Callable) -> None:
    """A function that PyTorch does not differentiate."""
    elementwise(name, kernel(primitive), vjp=NO_GRAD, samples=samples, result="float", **SPECIAL)


def degree_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), whole(4))
    yield Sample(real(3), 3)
    yield Sample(0.5, whole(4))


for _name in (
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "airy_ai",
):  # fmt: skip
    constant(_name, _name, unary(0.5, 4.0))
constant("modified_bessel_i0", "i0", unary())
constant("modified_bessel_i1", "i1", unary())
for _name in expr.SPECIAL[2]:
    if "polynomial" in _name:
        constant(_name, _name, degree_samples)

# torch.special's names for ops that are declared elsewhere -------------------------------------------------


def also(names: dict[str, str]) -> None:
    """Publishes functions of the top level in torch.special, under another name when it has one."""
    published = {face.name: face for face in FACES if "" in face.spaces}
    for name, known_as in names.items():
        face = dataclasses.replace(
            published[known_as], name=name, spaces=("special",), method=False, inplace=None
        )
        FACES.append(face)


also(
    {
        "expit": "sigmoid",
        "logit": "logit",
        "exp2": "exp2",
        "expm1": "expm1",
        "log1p": "log1p",
        "sinc": "sinc",
        "psi": "digamma",
        "gammaln": "lgamma",
        "multigammaln": "mvlgamma",
        "gammainc": "igamma",
        "gammaincc": "igammac",
    }
)
