"""torch.nn.parallel: modules that would run on several GPUs or in several processes, here on the one CPU.

Read next: nn/parallel/distributed.py.
"""

from cleargrad.nn.parallel.data_parallel import DataParallel, data_parallel
from cleargrad.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
