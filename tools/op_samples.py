"""Runs PyTorch's own samples of one op (an OpInfo) on both libraries and counts how many agree.

A sample agrees when results have PyTorch's shapes, dtypes and values, and so have their gradients with respect to
every input. Both libraries start from the same seed, so random functions are compared by value too.
Read next: tools/agreement.py.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import cleargrad

DTYPES = (torch.float32, torch.int64)
ELSE = (torch.complex64, torch.bool, torch.float64)  # for ops that take neither; the first that fits
MOST_SAMPLES = 200  # of each dtype
MOST_SECONDS = 30.0  # of an op, on the processor: how busy the machine is must not matter
UNSET = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


class Differs(Exception):
    """In what two results differ."""


class Imprecise(Differs):
    """Two results differ by more than rounding."""


class OutOfTime(Exception):
    """A sample took too long."""


# Values of PyTorch as ours -----------------------------------------------------------------------------------


def translated(value: Any) -> Any:
    """Tensors, dtypes and the like, through lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg()
        ours = cleargrad.from_numpy(np.array(plain.numpy(), copy=True))
        return ours.requires_grad_() if value.requires_grad else ours
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return getattr(cleargrad, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return cleargrad.device(str(value))
    if isinstance(value, torch.Size):
        return cleargrad.Size(value)
    if isinstance(value, torch.Generator):
        return cleargrad.Generator().manual_seed(value.initial_seed())
    if isinstance(value, torch.nn.Module):
        return getattr(cleargrad.nn, type(value).__name__)()
    if isinstance(value, list | tuple):
        parts = [translated(part) for part in value]
        return (
            type(value)(*parts)
            if isinstance(value, tuple) and type(value) is not tuple
            else type(value)(parts)
        )
    if isinstance(value, dict):
        return {name: translated(part) for name, part in value.items()}
    name = getattr(value, "__name__", "")
    if name and getattr(torch.nn.functional, name, None) is value:
        return getattr(cleargrad.nn.functional, name)
    return value


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor | cleargrad.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [tensor for part in value for tensor in tensors_in(part)] if isinstance(value, list | tuple) else []
    )


def leaves_of(value: Any) -> list[Any]:
    """What a result is made of, tensors or not."""
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size | cleargrad.Size):
        return [leaf for part in value for leaf in leaves_of(part)]
    return [value]


# Our function for an OpInfo ------------------------------------------------------------------------------------


@contextlib.contextmanager
def ours_for_theirs() -> Iterator[None]:
    """Inside, what PyTorch's test code calls `torch` is cleargrad."""
    spaces = [
        vars(module)
        for name, module in list(sys.modules.items())
        if name.startswith("torch.testing._internal") and vars(module).get("torch") is torch
    ]
    seeding = [(space, space["wrapper_set_seed"]) for space in spaces if "wrapper_set_seed" in space]
    for space in spaces:
        space["torch"] = cleargrad
    for space, _ in seeding:
        space["wrapper_set_seed"] = seeded
    try:
        yield
    finally:
        for space in spaces:
            space["torch"] = torch
        for space, function in seeding:
            space["wrapper_set_seed"] = function


def seeded(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """What PyTorch's tests do for random functions, with their seed."""
    cleargrad.manual_seed(42)
    return function(*args, **kwargs)


def our_function(info: Any) -> Callable | None:
    """None where we have none. Some OpInfos wrap a function to change the order of its arguments: the wrapper runs
    on our functions then."""
    wrapper = info.op
    if isinstance(wrapper, types.FunctionType) and wrapper.__module__.startswith("torch.testing."):

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with ours_for_theirs():
                return wrapper(*args, **kwargs)

        return wrapped
    place: Any = cleargrad
    try:
        for part in info.name.split("."):
            place = getattr(place, part)
        if callable(place):
            return place
    except (AttributeError, NotImplementedError):
        pass
    method = getattr(cleargrad.Tensor, info.name, None)
    return method if callable(method) else None


# Results that are not unique -------------------------------------------------------------------------------------


def singular(result: Any) -> list:
    """U and V may turn where singular values are zero or equal; their product with S may not."""
    u, s, v = result
    k = s.shape[-1]
    return [s, (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k, :]]


def singular_transposed(result: Any) -> list:
    u, s, v = result
    return singular((u, s, v.mH))


def eigen(result: Any) -> list:
    """Eigenvectors may turn; the matrix that they make may not."""
    values, vectors = result
    return [values, (vectors * values.unsqueeze(-2)) @ vectors.mH]


UNIQUE = {
    "linalg.svd": singular,
    "svd": singular_transposed,
    "svd_lowrank": singular_transposed,
    "pca_lowrank": singular_transposed,
    "linalg.eigh": eigen,
}


# Comparing -------------------------------------------------------------------------------------------------------


def compare(ours: Any, theirs: Any, what: str, by_value: bool) -> None:
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, bool | int | float | complex) and not np.allclose(ours, theirs, equal_nan=True):
            raise Differs(f"{what} is {ours}, not {theirs}")
        return
    if not isinstance(ours, cleargrad.Tensor):
        raise Differs(f"{what} is no tensor but {type(ours).__name__}")
    if tuple(ours.shape) != tuple(theirs.shape):
        raise Differs(f"{what} has shape {tuple(ours.shape)}, not {tuple(theirs.shape)}")
    if str(ours.dtype) != str(theirs.dtype):
        raise Differs(f"{what} has dtype {ours.dtype}, not {theirs.dtype}")
    if by_value:
        compare_values(ours, theirs, what)


def compare_values(ours: Any, theirs: torch.Tensor, what: str) -> None:
    got = ours.detach().resolve_conj().resolve_neg()
    want = theirs.detach().resolve_conj().resolve_neg()
    if want.dtype in (torch.bfloat16, torch.float16):
        got, want = got.float(), want.float()
    got, want = got.numpy(), want.numpy(force=True)
    if want.dtype.kind not in "fc":
        if not np.array_equal(got, want):
            raise Differs(f"{what} has other values")
        return
    finite = np.abs(want[np.isfinite(want)])
    largest = float(finite.max(initial=0.0))
    single = want.dtype.itemsize <= (8 if want.dtype.kind == "c" else 4)
    relative = 2e-4 if single else 1e-8
    if not np.allclose(got, want, rtol=relative, atol=relative / 10 * max(1.0, largest), equal_nan=True):
        with np.errstate(all="ignore"):
            raise Imprecise(f"{what} differs by up to {np.nanmax(np.abs(got - want)):.2g}")


def gradients(results: list, inputs: list, library: Any) -> list:
    """Of the inputs that need one, from results weighted with the same random numbers in both libraries."""
    draw = np.random.default_rng(0)
    heads, weights = [], []
    for result in results:
        if getattr(result, "requires_grad", False):
            weight = draw.standard_normal(tuple(result.shape))
            if result.is_complex():
                weight = weight + 1j * draw.standard_normal(tuple(result.shape))
            heads.append(result)
            weights.append(library.tensor(np.asarray(weight)).to(result.dtype))
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if not heads or not wanted:
        return []
    return list(library.autograd.grad(heads, wanted, weights, allow_unused=True))


def call(function: Callable, sample: tuple, name: str, library: Any) -> tuple[list, list]:
    """Results and gradients."""
    value, args, kwargs = sample
    library.manual_seed(0)
    inputs = tensors_in([value, list(args), kwargs])
    if name.endswith("_") and isinstance(value, torch.Tensor | cleargrad.Tensor):
        value = value.clone()  # a leaf may not be written
    result = function(value, *args, **kwargs)
    results = leaves_of(UNIQUE[name](result) if name in UNIQUE else result)
    return results, gradients(results, inputs, library)


def check(info: Any, function: Callable, sample: tuple) -> str:
    """Says "agrees", or "nearer" where float64 says that our result is the better one; raises where we differ.

    The answer is empty where PyTorch itself cannot do it.
    """
    ours = translated(sample)
    try:
        results, their_gradients = call(info.op, sample, info.name, torch)
    except Exception:
        return ""
    if any(isinstance(one, torch.Tensor) and one.layout != torch.strided for one in results):
        return ""
    our_results, our_gradients = call(function, ours, info.name, cleargrad)
    if len(our_results) != len(results):
        raise Differs(f"{len(our_results)} results, not {len(results)}")
    if info.name in UNSET:
        our_gradients = their_gradients = []
    named = [
        *((f"result {number}", *pair) for number, pair in enumerate(zip(our_results, results))),
        *(
            (f"gradient of input {number}", *pair)
            for number, pair in enumerate(zip(our_gradients, their_gradients))
        ),
    ]
    answer = "agrees"
    for number, (what, mine, theirs) in enumerate(named):
        if theirs is None:  # a gradient that PyTorch says is not there, and that is zero for us
            continue
        try:
            compare(mine, theirs, what, info.name not in UNSET)
        except Imprecise:
            if not is_nearer_to_exact(info, sample, number, mine, theirs):
                raise
            answer = "nearer"
    return answer


def is_nearer_to_exact(info: Any, sample: tuple, number: int, ours: Any, theirs: torch.Tensor) -> bool:
    """Whether PyTorch's own result in float64 is nearer to ours than to its float32 one."""

    def widened(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            return value.detach().double().requires_grad_(value.requires_grad)
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(map(widened, value))
        return {name: widened(part) for name, part in value.items()} if isinstance(value, dict) else value

    try:
        exact = (
            list(itertools.chain(*call(info.op, widened(sample), info.name, torch)))[number].detach().numpy()
        )
    except Exception:
        return False
    errors = [np.abs(one.detach().numpy() - exact) for one in (ours, theirs)]
    return bool(np.nanmax(errors[0]) <= np.nanmax(errors[1]))


# An op -----------------------------------------------------------------------------------------------------------


def dtypes_of(info: Any) -> list[torch.dtype]:
    found = [dtype for dtype in DTYPES if dtype in info.dtypes]
    return found or [dtype for dtype in ELSE if dtype in info.dtypes][:1]


def samples_of(info: Any, dtype: torch.dtype) -> Iterator[tuple]:
    """Input, arguments and keyword arguments; those with tensors of other kinds are left out."""
    needs_gradient = info.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    for sample in itertools.islice(
        info.sample_inputs("cpu", dtype, requires_grad=needs_gradient), MOST_SAMPLES
    ):
        values = sample.input, sample.args, sample.kwargs
        if all(
            tensor.layout == torch.strided and not tensor.is_quantized for tensor in tensors_in(list(values))
        ):
            yield values


def stop(*_: Any) -> None:
    raise OutOfTime


def run(info: Any) -> dict[str, Any]:
    """How many samples were run and how many of them agree; the first that does not says why."""
    function = our_function(info)
    if function is None:
        return {"missing": True}
    row: dict[str, Any] = {"samples": 0, "agree": 0}
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        for dtype in dtypes_of(info):
            for sample in samples_of(info, dtype):
                count(info, function, sample, row)
    except OutOfTime:
        row["stopped after, s"] = MOST_SECONDS
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if not row["agree"] and row.get("first", "").startswith("AttributeError"):
        return {"missing": True}  # a wrapper that calls what is not there
    return row


def count(info: Any, function: Callable, sample: tuple, row: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = check(info, function, sample)
            if not answer:
                return
            row["agree"] += 1
            if answer == "nearer":
                row["nearer to float64"] = row.get("nearer to float64", 0) + 1
        except OutOfTime:
            raise
        except Exception as problem:
            text = str(problem).splitlines()[0] if str(problem) else ""
            row.setdefault(
                "first", text if isinstance(problem, Differs) else f"{type(problem).__name__}: {text}"
            )
    row["samples"] += 1
