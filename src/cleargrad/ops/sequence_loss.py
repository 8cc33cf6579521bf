"""ctc_loss: the probability that a sequence of predictions spells a target, over every way to stretch it.

The target with blanks between and around its labels has L = 2·S + 1 states; scores of states run forward and
backward over time in log space, for the whole batch at once. Shapes: T times, N sequences, C classes, L
states.
Read next: ops/normalization.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core.dtype import INTEGER, float32, float64, int64
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops import creation
from cleargrad.ops.declare import face, opaque
from cleargrad.ops.loss import chosen_reduction
from cleargrad.ops.samples import Conventional, Fails, Sample, real
from cleargrad.ops.views import check_tensor

IMPOSSIBLE = -np.inf

# States ----------------------------------------------------------------------------------------------------


def padded_targets(targets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Targets as rows (N, S); a flat tensor holds them one behind the other."""
    longest = int(lengths.max(initial=0))
    if targets.ndim == 2:
        return targets[:, :longest]
    rows = np.zeros((len(lengths), longest), targets.dtype)
    rows[np.arange(longest) < lengths[:, None]] = targets[: lengths.sum()]
    return rows


def states_of(targets: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """The class of every state (N, L), and whether it can follow the state two before it."""
    count, longest = targets.shape
    states = np.full((count, 2 * longest + 1), blank, np.int64)
    states[:, 1::2] = targets
    skips = np.zeros(states.shape, bool)
    skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    return states, skips


def emissions(log_probs: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The score of being in each state at each time (T, N, L)."""
    rows = np.arange(states.shape[0])[:, None]
    return log_probs[:, rows, states]


def joined(stay: np.ndarray, step: np.ndarray, skip: np.ndarray) -> np.ndarray:
    """log(exp(stay) + exp(step) + exp(skip)), where all three may be impossible."""
    peak = np.maximum(np.maximum(stay, step), skip)
    peak[peak == IMPOSSIBLE] = 0
    return np.log(np.exp(stay - peak) + np.exp(step - peak) + np.exp(skip - peak)) + peak


def shifted(scores: np.ndarray, by: int) -> np.ndarray:
    """Scores moved by some states, with impossible ones behind them."""
    result = np.full_like(scores, IMPOSSIBLE)
    if by > 0:
        result[:, by:] = scores[:, :-by]
    else:
        result[:, :by] = scores[:, -by:]
    return result


def forward_scores(emit: np.ndarray, skips: np.ndarray) -> np.ndarray:
    """log Σ of all ways from the start to a state at a time, both ends included."""
    scores = np.full_like(emit, IMPOSSIBLE)
    scores[0, :, :2] = emit[0, :, :2]
    for time in range(1, len(emit)):
        before = scores[time - 1]
        skipping = np.where(skips, shifted(before, 2), IMPOSSIBLE)
        scores[time] = joined(before, shifted(before, 1), skipping) + emit[time]
    return scores


def backward_scores(emit: np.ndarray, skips: np.ndarray, times: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """log Σ of all ways from a state at a time to an end at the last time, both ends included."""
    scores = np.full_like(emit, IMPOSSIBLE)
    for time in range(len(emit) - 1, -1, -1):
        if time + 1 < len(emit):
            after = scores[time + 1]
            skipping = shifted(np.where(skips, after, IMPOSSIBLE), -2)
            scores[time] = joined(after, shifted(after, -1), skipping) + emit[time]
        starting = times - 1 == time
        scores[time, starting] = np.where(ends, emit[time], IMPOSSIBLE)[starting]
    return scores


def end_states(states: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Where a target may end: in its last label or in the blank behind it."""
    number = np.arange(states.shape[1])
    last = 2 * lengths[:, None]
    return (number == last) | (number == last - 1)


# Kernels ---------------------------------------------------------------------------------------------------


def log_likelihood(scores: np.ndarray, times: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """log Σ of all ways to be in an end state at the last time (N)."""
    rows = np.arange(len(times))
    total = np.logaddexp.reduce(np.where(ends, scores[times - 1, rows], IMPOSSIBLE), axis=1)
    return np.where(times > 0, total, np.where(ends[:, 0], 0, IMPOSSIBLE))


def run_ctc(
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    blank: int,
    zero_infinity: bool,
) -> np.ndarray:
    """−log of the probability of each target (N)."""
    check_lengths(log_probs, targets, input_lengths, target_lengths)
    states, skips = states_of(padded_targets(targets, target_lengths), blank)
    scores = forward_scores(emissions(log_probs, states), skips)
    loss = -log_likelihood(scores, input_lengths, end_states(states, target_lengths))
    if zero_infinity:
        loss = np.where(np.isinf(loss), 0, loss)
    return loss.astype(log_probs.dtype)


def run_ctc_adjoint(
    grad: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    blank: int,
    zero_infinity: bool,
) -> np.ndarray:
    """(exp(log_probs) − the share of all ways that pass through a class at a time) · grad."""
    states, skips = states_of(padded_targets(targets, target_lengths), blank)
    emit, ends = emissions(log_probs, states), end_states(states, target_lengths)
    scores = forward_scores(emit, skips)
    total = log_likelihood(scores, input_lengths, ends)
    onward = backward_scores(emit, skips, input_lengths, ends)
    passing = np.exp(scores + onward - total[:, None] - emit)
    result = np.exp(log_probs)
    rows = np.arange(len(states))
    for state in range(states.shape[1]):  # one at a time, since several states share a class
        result[:, rows, states[:, state]] -= passing[:, :, state]
    result *= grad[:, None]
    result[np.arange(len(log_probs))[:, None] >= input_lengths] = 0
    if zero_infinity:
        result[:, np.isinf(total)] = 0
    return result


def check_lengths(
    log_probs: np.ndarray, targets: np.ndarray, input_lengths: np.ndarray, target_lengths: np.ndarray
) -> None:
    times = len(log_probs)
    if (input_lengths > times).any() or (input_lengths < 0).any():
        rule = f"expected input_lengths to have values from 0 to {times}"
        raise error(RuntimeError, "ctc_loss", rule, input_lengths=input_lengths.tolist())
    room = targets.shape[-1] if targets.ndim == 2 else targets.size
    needed = target_lengths.max(initial=0) if targets.ndim == 2 else target_lengths.sum()
    if needed > room or (target_lengths < 0).any():
        rule = f"expected targets to hold {needed} labels, but they have {room}"
        raise error(RuntimeError, "ctc_loss", rule, target_lengths=target_lengths.tolist())


# Ops -------------------------------------------------------------------------------------------------------


def ctc_spec(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int,
    zero_infinity: bool,
) -> Spec:
    _, batch, classes = log_probs._form.shape
    if log_probs.dtype not in (float32, float64):
        raise error(RuntimeError, "ctc_loss", f"not implemented for {log_probs.dtype}", log_probs=log_probs)
    if targets.dtype.category != INTEGER:
        raise error(RuntimeError, "ctc_loss", "targets must be integers", targets=targets)
    if not 0 <= blank < classes:
        raise error(RuntimeError, "ctc_loss", "blank must be in label range", blank=blank, classes=classes)
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if lengths._form.shape != (batch,):
            rule = f"{name} must be of size batch_size ({batch})"
            raise error(RuntimeError, "ctc_loss", rule, log_probs=log_probs, lengths=lengths)
    if targets._form.ndim == 2 and targets._form.shape[0] != batch:
        rule = f"expected targets to have batch_size ({batch}) rows"
        raise error(RuntimeError, "ctc_loss", rule, log_probs=log_probs, targets=targets)
    return Spec((batch,), log_probs.dtype)


def no_second_derivative(g: Tensor) -> Tensor:
    rule = "the derivative for '_ctc_loss_backward' is not implemented"
    raise error(RuntimeError, "ctc_loss", rule)


def ctc_backward_samples() -> Iterator[Sample]:
    log_probs, targets = real(6, 2, 4, low=-3, high=-0.1), np.array([[1, 2, 2], [3, 1, 0]])
    lengths = np.array([6, 5]), np.array([3, 2])
    yield Conventional(real(2, seed=1), log_probs, targets, *lengths, blank=0, zero_infinity=False)


ctc_backward = opaque(
    "ctc_loss_backward",
    spec=lambda grad, log_probs, *others, blank, zero_infinity: Spec(log_probs._form.shape, log_probs.dtype),
    run=run_ctc_adjoint,
    vjp=(no_second_derivative, no_second_derivative, None, None, None),
    samples=ctc_backward_samples,
    spec_first=False,
)


def ctc_vjp(
    g: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    # PyTorch's gradient takes the rows of log_probs for outputs of log_softmax, as they should be.
    operands = (g, log_probs, targets, input_lengths, target_lengths)
    return ctc_backward(*operands, blank=blank, zero_infinity=zero_infinity)


def ctc_samples() -> Iterator[Sample]:
    scores = real(6, 2, 4)
    log_probs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    targets = np.array([[1, 2, 2], [3, 1, 0]])
    for reduction in ("mean", "sum", "none"):
        yield Conventional(log_probs, targets, (6, 5), (3, 2), reduction=reduction)
    yield Conventional(log_probs, np.array([1, 2, 2, 3, 1]), np.array([6, 4]), np.array([3, 2]))
    yield Conventional(log_probs[:, 0], np.array([1, 3]), (6,), (2,), 2)
    yield Conventional(log_probs, targets, (2, 6), (3, 2), zero_infinity=True)
    yield Fails(RuntimeError, log_probs, targets, (7, 5), (3, 2))
    yield Fails(RuntimeError, log_probs, targets, (6, 5), (3, 2), blank=4)
    yield Fails(RuntimeError, log_probs, targets, (6,), (3, 2))


ctc_op = opaque(
    "ctc_loss",
    spec=ctc_spec,
    run=run_ctc,
    vjp=(ctc_vjp, None, None, None),
    samples=ctc_samples,
)


@face(ctc_op, spaces=("nn.functional",))
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """−log of the probability that log_probs (T, N, C) spell the targets; a mean divides by their lengths."""
    reduction = chosen_reduction(None, None, reduction)
    check_tensor("ctc_loss", log_probs, "log_probs")
    check_tensor("ctc_loss", targets, "targets")
    single = log_probs._form.ndim == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    if log_probs._form.ndim != 3:
        raise error(RuntimeError, "ctc_loss", "log_probs must have 2 or 3 dimensions", log_probs=log_probs)
    lengths = [
        creation.as_tensor(given, dtype=int64, device=log_probs.device).reshape(-1)
        for given in (input_lengths, target_lengths)
    ]
    loss = ctc_op(log_probs, targets, *lengths, blank=blank, zero_infinity=zero_infinity)
    if reduction == "mean":
        return (loss / lengths[1].clamp(min=1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if single else loss
