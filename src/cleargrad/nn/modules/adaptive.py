"""Adaptive softmax: rare classes share small layers behind a head of frequent ones.

Read next: nn/modules/flatten.py.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn.module import Module
from cleargrad.nn.modules.container import ModuleList, Sequential
from cleargrad.nn.modules.linear import Linear
from cleargrad.ops.joining import cat

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """The head scores frequent classes and clusters of rarer ones; each cluster scores its own classes."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            rule = "cutoffs should be a sequence of length larger than 0"
            raise error(ValueError, "AdaptiveLogSoftmaxWithLoss", rule)
        valid = all(int(cutoff) == cutoff and 0 < cutoff < n_classes for cutoff in cutoffs)
        if not valid or cutoffs != sorted(set(cutoffs)):
            rule = (
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
            raise error(ValueError, "AdaptiveLogSoftmaxWithLoss", rule, cutoffs=str(cutoffs))
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for number in range(self.n_clusters):
            hidden = int(in_features // div_value ** (number + 1))
            classes = self.cutoffs[number + 1] - self.cutoffs[number]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, False, device, dtype),
                    Linear(hidden, classes, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for projection, output in self.tail:
            projection.reset_parameters()
            output.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        head = self.head(input)
        place = target.clone()  # in the head's scores: the class, or its cluster
        output = head.new_zeros(target.shape)
        for number in range(self.n_clusters):
            low, high = self.cutoffs[number], self.cutoffs[number + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            scores = F.log_softmax(self.tail[number](input.index_select(0, rows)), dim=1)
            chosen = scores.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            place = place.index_fill(0, rows, self.shortlist_size + number)
            output = output.index_copy(0, rows, chosen)
        output = output + F.log_softmax(head, dim=1).gather(1, place.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        name = "AdaptiveLogSoftmaxWithLoss"
        if target.dim() not in (0, 1):
            raise error(RuntimeError, name, "0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != target.dim() + 1 or (target.dim() and input.size(0) != target.size(0)):
            raise error(
                RuntimeError, name, "input and target should have the same size in the batch dimension"
            )
        if target.numel() and not (int(target.min()) >= 0 and int(target.max()) < self.n_classes):
            rule = f"Target values should be in [0, {self.n_classes - 1}]"
            raise error(RuntimeError, name, rule)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """The log-probabilities of all classes, from the scores of the head."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number in range(self.n_clusters):
            scores = F.log_softmax(self.tail[number](input), dim=1)
            parts.append(scores + head[:, self.shortlist_size + number].unsqueeze(1))
        return cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most likely classes."""
        return self.log_prob(input).argmax(dim=1)
