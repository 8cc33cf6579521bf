"""torch.nn.modules.sparse: where PyTorch keeps Embedding and EmbeddingBag.

Read next: nn/modules/embedding.py.
"""

from cleargrad.nn.modules.embedding import Embedding as Embedding
from cleargrad.nn.modules.embedding import EmbeddingBag as EmbeddingBag
