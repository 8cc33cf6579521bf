"""Measuring steps: norms of gradients and weights, and whether a step moved its parameters.

Every step at first, then now and then. Sizes are computed by the engine in a few calls for all parameters together.
Read next: ledger.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.doctor import events
from cleargrad.doctor.registry import Optimizer, Parameter

EVERY_STEP_UNTIL = 16
OFTEN_UNTIL, OFTEN, SELDOM = 128, 8, 32  # then every 8th, and in the long run every 32nd
COMPARED = 1024  # elements of a parameter that are compared before and after a step


def is_due(record: Optimizer) -> bool:
    """Whether the next step of an optimizer is measured; steps in between may have been counted only."""
    count = record.steps + 1
    distance = 1 if count <= EVERY_STEP_UNTIL else OFTEN if count <= OFTEN_UNTIL else SELDOM
    due = count - record.measured >= distance
    if due:
        record.measured = count
    return due


class Measurement:
    """What was measured before a step; `finish` compares, after it, and lets everything go.

    With `later`, gradients are there only after the step: it is made by a program that computes them as well.
    """

    __slots__ = ("gradient_norms", "norms", "records", "values", "weight_norms")

    def __init__(self, record: Optimizer, norms: Any, later: bool = False) -> None:
        self.records: list[Parameter] = []
        self.values: list[Any] = []
        weights, grads = [], []
        for parameter in record.parameters:
            tensor = parameter.ref()
            if tensor is None or tensor.is_meta or not (later or is_dense(tensor.grad)):
                continue
            self.records.append(parameter)
            weights.append(tensor.detach())
            if not later:
                grads.append(tensor.grad.detach())
            self.values.append(spread(tensor))
        self.norms = norms
        self.gradient_norms: Any = None if later else norms(grads)
        self.weight_norms = norms(weights)

    def measure_gradients(self) -> None:
        """Parameters that turn out to have none are left out."""
        tensors = [record.ref() for record in self.records]
        kept = [k for k, tensor in enumerate(tensors) if tensor is not None and is_dense(tensor.grad)]
        self.gradient_norms = self.norms([tensors[k].grad.detach() for k in kept])
        self.records = [self.records[k] for k in kept]
        self.values = [self.values[k] for k in kept]
        self.weight_norms = [self.weight_norms[k] for k in kept]

    def finish(self, number: int, step: events.Step) -> events.Statistics:
        if self.gradient_norms is None:
            self.measure_gradients()
        moved, changes, shares = [], [], []
        for parameter, before in zip(self.records, self.values, strict=True):
            tensor = parameter.ref()
            change = before if tensor is None else spread(tensor) - before
            moved.append(bool(change.any()) or not had_gradient(tensor))
            changes.append(change)
            shares.append((parameter.numel / max(1, change.numel())) ** 0.5)
        updates = [norm * share for norm, share in zip(self.norms(changes), shares, strict=True)]
        return events.Statistics(
            number,
            step.step,
            step.place,
            step.optimizer,
            tuple(record.number for record in self.records),
            tuple(self.gradient_norms),
            tuple(self.weight_norms),
            tuple(moved),
            tuple(updates),
        )


def is_dense(grad: Any) -> bool:
    return grad is not None and not grad.is_sparse


def spread(tensor: Any) -> Any:
    """A copy of elements spread over a tensor."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // COMPARED)].clone()


def had_gradient(tensor: Any) -> bool:
    """Whether any of the compared elements has a gradient; of an embedding often none has."""
    return tensor is not None and tensor.grad is not None and bool(spread(tensor.grad).any())


def plain_norms(tensors: list[Any]) -> list[float]:
    """Euclidean norms, one call per tensor."""
    return [float(tensor.norm()) for tensor in tensors]
