"""torch.ao.quantization: weights and activations as small integers, which cleargrad does not compute with.

The two marks at the edges of a model are there, as the identity they are before a model is quantised. Read
next: overrides.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.missing import all_missing
from cleargrad.nn.module import Module


class QuantStub(Module):
    """Where a model's quantised part begins: the identity."""

    def __init__(self, qconfig: Any = None):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Where a model's quantised part ends: the identity."""


NAMES = (
    "quantize quantize_dynamic quantize_qat quantize_jit prepare prepare_qat convert fuse_modules "
    "fuse_modules_qat get_default_qconfig get_default_qat_qconfig get_default_qconfig_mapping QConfig "
    "QConfigMapping default_qconfig default_dynamic_qconfig float16_dynamic_qconfig QuantWrapper "
    "add_quant_dequant propagate_qconfig_ FakeQuantize MinMaxObserver HistogramObserver "
    "PerChannelMinMaxObserver MovingAverageMinMaxObserver"
)
globals().update(all_missing("torch.ao.quantization", NAMES, "quantise models"))
