"""Where PyTorch keeps collating, and where many scripts import it from."""

from cleargrad.utils.data._utils import collate as collate
