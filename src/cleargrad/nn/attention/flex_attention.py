"""torch.nn.attention.flex_attention: attention with scores changed by a function, which cleargrad does not have.

Read next: ops/attention.py.
"""

from cleargrad.missing import all_missing

NAMES = (
    "AuxOutput AuxRequest BlockMask flex_attention create_block_mask create_mask create_nested_block_mask "
    "and_masks or_masks noop_mask"
)
_DEFAULT_SPARSE_BLOCK_SIZE = 128

globals().update(
    all_missing(
        "torch.nn.attention.flex_attention",
        NAMES,
        "change attention scores by a function",
        fix="use scaled_dot_product_attention with attn_mask",
    )
)
