"""The part of a dataset that one of several training processes reads.

Read next: utils/data/position.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cleargrad.distributed import get_rank, get_world_size
from cleargrad.errors import error
from cleargrad.ops.random_tensors import randperm
from cleargrad.random import Generator
from cleargrad.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on; all ranks get equally many."""

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            rule = f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            raise error(ValueError, "DistributedSampler", rule)
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = self._order()
        if not self.drop_last:
            # The first indices are read again until every rank has its share.
            copies = math.ceil(self.total_size / max(len(indices), 1))
            indices = indices * copies
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def _order(self) -> list[int]:
        count = len(self.dataset)
        if not self.shuffle:
            return list(range(count))
        generator = Generator().manual_seed(self.seed + self.epoch)
        return randperm(count, generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass shuffle anew, alike on all ranks."""
        self.epoch = epoch
