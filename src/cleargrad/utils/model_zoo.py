"""torch.utils.model_zoo: the old name of torch.hub.load_state_dict_from_url. Read next: hub.py."""

from cleargrad.hub import load_state_dict_from_url as load_url
from cleargrad.hub import tqdm

__all__ = ["load_url", "tqdm"]
