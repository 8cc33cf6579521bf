"""torch.nn.modules: every module, one file per family.

A family's file is loaded when one of its modules is first asked for: most programs use a few of them.
Read next: nn/modules/container.py.
"""

from __future__ import annotations

import importlib
from typing import Any

# The files in reading order, and what they export.
FAMILIES: dict[str, tuple[str, ...]] = {
    "module": ("Module",),
    "container": (
        "Container",
        "ModuleDict",
        "ModuleList",
        "ParameterDict",
        "ParameterList",
        "Sequential",
    ),
    "linear": (
        "Bilinear",
        "Identity",
        "LazyLinear",
        "Linear",
    ),
    "activation": (
        "CELU",
        "ELU",
        "GELU",
        "GLU",
        "Hardshrink",
        "Hardsigmoid",
        "Hardswish",
        "Hardtanh",
        "LeakyReLU",
        "LogSigmoid",
        "LogSoftmax",
        "Mish",
        "PReLU",
        "RReLU",
        "ReLU",
        "ReLU6",
        "SELU",
        "SiLU",
        "Sigmoid",
        "Softmax",
        "Softmax2d",
        "Softmin",
        "Softplus",
        "Softshrink",
        "Softsign",
        "Tanh",
        "Tanhshrink",
        "Threshold",
    ),
    "dropout": (
        "AlphaDropout",
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Dropout3d",
        "FeatureAlphaDropout",
    ),
    "loss": (
        "BCELoss",
        "BCEWithLogitsLoss",
        "CTCLoss",
        "CosineEmbeddingLoss",
        "CrossEntropyLoss",
        "GaussianNLLLoss",
        "HingeEmbeddingLoss",
        "HuberLoss",
        "KLDivLoss",
        "L1Loss",
        "LinearCrossEntropyLoss",
        "LinearCrossEntropyOptions",
        "MSELoss",
        "MarginRankingLoss",
        "MultiLabelMarginLoss",
        "MultiLabelSoftMarginLoss",
        "MultiMarginLoss",
        "NLLLoss",
        "NLLLoss2d",
        "PoissonNLLLoss",
        "SmoothL1Loss",
        "SoftMarginLoss",
        "TripletMarginLoss",
        "TripletMarginWithDistanceLoss",
    ),
    "adaptive": ("AdaptiveLogSoftmaxWithLoss",),
    "flatten": (
        "Flatten",
        "Unflatten",
    ),
    "fold": (
        "Fold",
        "Unfold",
    ),
    "padding": (
        "CircularPad1d",
        "CircularPad2d",
        "CircularPad3d",
        "ConstantPad1d",
        "ConstantPad2d",
        "ConstantPad3d",
        "ReflectionPad1d",
        "ReflectionPad2d",
        "ReflectionPad3d",
        "ReplicationPad1d",
        "ReplicationPad2d",
        "ReplicationPad3d",
        "ZeroPad1d",
        "ZeroPad2d",
        "ZeroPad3d",
    ),
    "pixelshuffle": (
        "ChannelShuffle",
        "PixelShuffle",
        "PixelUnshuffle",
    ),
    "upsampling": (
        "Upsample",
        "UpsamplingBilinear2d",
        "UpsamplingNearest2d",
    ),
    "distance": (
        "CosineSimilarity",
        "PairwiseDistance",
    ),
    "embedding": (
        "Embedding",
        "EmbeddingBag",
    ),
    "conv": (
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "LazyConv1d",
        "LazyConv2d",
        "LazyConv3d",
        "LazyConvTranspose1d",
        "LazyConvTranspose2d",
        "LazyConvTranspose3d",
    ),
    "pooling": (
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveAvgPool3d",
        "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d",
        "AdaptiveMaxPool3d",
        "AvgPool1d",
        "AvgPool2d",
        "AvgPool3d",
        "FractionalMaxPool2d",
        "FractionalMaxPool3d",
        "LPPool1d",
        "LPPool2d",
        "LPPool3d",
        "MaxPool1d",
        "MaxPool2d",
        "MaxPool3d",
        "MaxUnpool1d",
        "MaxUnpool2d",
        "MaxUnpool3d",
    ),
    "batchnorm": (
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "LazyBatchNorm1d",
        "LazyBatchNorm2d",
        "LazyBatchNorm3d",
        "SyncBatchNorm",
    ),
    "instancenorm": (
        "InstanceNorm1d",
        "InstanceNorm2d",
        "InstanceNorm3d",
        "LazyInstanceNorm1d",
        "LazyInstanceNorm2d",
        "LazyInstanceNorm3d",
    ),
    "normalization": (
        "CrossMapLRN2d",
        "GroupNorm",
        "LayerNorm",
        "LocalResponseNorm",
        "RMSNorm",
    ),
    "rnn": (
        "GRU",
        "GRUCell",
        "LSTM",
        "LSTMCell",
        "RNN",
        "RNNBase",
        "RNNCell",
        "RNNCellBase",
    ),
    "attention": ("MultiheadAttention",),
    "transformer": (
        "Transformer",
        "TransformerDecoder",
        "TransformerDecoderLayer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
    ),
}
FILE_OF = {name: file for file, names in FAMILIES.items() for name in names}
OTHER_FILES = ("lazy", "utils")

__all__ = sorted(FILE_OF)


def __getattr__(name: str) -> Any:
    if name in FAMILIES or name in OTHER_FILES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{FILE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *FILE_OF, *FAMILIES})
