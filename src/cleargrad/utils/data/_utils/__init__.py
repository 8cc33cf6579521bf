"""Where PyTorch keeps collating, and where many scripts import it from.

Read next: utils/data/_utils/collate.py.
"""

from cleargrad.utils.data._utils import collate as collate
