"""Binomial counts as PyTorch draws them: trials and probabilities go in, numbers of successes come out.

Few expected successes are counted by the waiting times between them; many by Hoermann's transformed rejection
(BTRS, 1993). Both take 53-bit uniforms, two 32-bit draws each. Read next: core/generator.py.
"""

from __future__ import annotations

import math

import numpy as np

from cleargrad.core.generator import Generator, _Supply
from cleargrad.core.random_rules import cast, check_float


def binomial_counts(stream: Generator, trials: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """A count for each pair, in the dtype of the trials."""
    check_float("binomial", trials.dtype, ValueError)
    with stream._lock:
        supply = _Supply(stream)
        pairs = zip(trials.ravel().tolist(), chances.ravel().tolist(), strict=True)
        counts = [successes(n, p, supply) for n, p in pairs]
        supply.give_back()
    return cast(np.array(counts, np.float64), trials.dtype).reshape(trials.shape)


def successes(n: float, p: float, unit: _Supply) -> float:
    """PyTorch takes probabilities outside [0, 1] as the nearer end, and NaN as NaN."""
    if math.isnan(p):
        return p
    if n <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return n
    if p > 0.5:
        return n - successes_of_rare(n, 1 - p, unit)
    return successes_of_rare(n, p, unit)


def successes_of_rare(n: float, p: float, unit: _Supply) -> float:
    return by_rejection(n, p, unit) if n * p >= 10 else by_waiting(n, p, unit)


def by_waiting(n: float, p: float, unit: _Supply) -> float:
    """Waiting times are geometric; a success counts as long as their sum stays within n."""
    log_failure = math.log1p(-p)
    passed, count = 0.0, 0
    while True:
        u = unit()
        passed += math.ceil(math.log(u) / log_failure) if u > 0 else math.inf
        if passed > n:
            return float(count)
        count += 1


def by_rejection(n: float, p: float, unit: _Supply) -> float:
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    accept_below = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((n + 1) * p)
    while True:
        u, v = unit() - 0.5, unit()
        margin = 0.5 - abs(u)
        k = math.floor((2 * a / margin + b) * u + centre) if margin > 0 else -1
        if margin >= 0.07 and v <= accept_below:
            return float(k)
        if k < 0 or k > n:
            continue
        v = math.log(v * alpha / (a / (margin * margin) + b))
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * math.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + stirling_tail(mode)
            + stirling_tail(n - mode)
            - stirling_tail(k)
            - stirling_tail(n - k)
        )
        if v <= bound:
            return float(k)


def stirling_tail(k: float) -> float:
    """log k! minus Stirling's approximation of it."""
    if k <= 9:
        return TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def exact_tail(k: int) -> float:
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))


TAILS = [exact_tail(k) for k in range(10)]
