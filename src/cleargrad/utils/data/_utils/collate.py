"""The functions of utils/data/collate.py under PyTorch's old name. Read next: utils/data/collate.py."""

from cleargrad.utils.data.collate import collate, default_collate, default_collate_fn_map, default_convert

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]
