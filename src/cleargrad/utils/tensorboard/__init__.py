"""torch.utils.tensorboard: curves, pictures and more for TensorBoard. Read next: utils/tensorboard/writer.py."""

from cleargrad.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
