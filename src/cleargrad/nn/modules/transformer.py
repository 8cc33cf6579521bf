"""Transformers: encoder and decoder layers, stacks of them, and both together.

Read next: nn/modules/loss.py.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn import init
from cleargrad.nn.module import Module
from cleargrad.nn.modules.attention import MultiheadAttention
from cleargrad.nn.modules.container import ModuleList
from cleargrad.nn.modules.dropout import Dropout
from cleargrad.nn.modules.linear import Linear
from cleargrad.nn.modules.normalization import LayerNorm
from cleargrad.ops.creation import full

Activation = str | Callable[[Tensor], Tensor]

# Masks -----------------------------------------------------------------------------------------------------


def causal_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    """−∞ above the diagonal, zero elsewhere."""
    return full((size, size), -math.inf, dtype=dtype, device=device).triu(1)


def additive(mask: Tensor | None, name: str, kind: dtypes.dtype) -> Tensor | None:
    """A mask to be added to scores: a boolean one hides where it is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not dtypes.bool_:
        rule = f"only bool and floating types of {name} are supported"
        raise error(AssertionError, "transformer", rule, mask=mask)
    return mask.new_zeros(mask.shape, dtype=kind).masked_fill(mask, -math.inf)


def additive_masks(padding: Tensor | None, mask: Tensor | None, names: tuple[str, str], kind: Any) -> tuple:
    """Padding and attention mask, both additive."""
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        warnings.warn(
            f"Support for mismatched {names[0]} and {names[1]} is deprecated. "
            "Use same type for both instead.",
            stacklevel=4,
        )
    return additive(padding, names[0], kind), additive(mask, names[1], kind)


def is_causal_mask(mask: Tensor | None, hint: bool | None, size: int | None) -> bool:
    """Whether a mask is the causal one: as the caller says, or by comparison."""
    if hint is not None or mask is None:
        return bool(hint)
    expected = causal_mask(mask.size(-2) if size is None else size, dtype=mask.dtype)
    return mask.shape == expected.shape and bool((mask == expected).all())


def length_of(x: Tensor, batch_first: bool) -> int | None:
    return x.shape[1 if batch_first and x.dim() == 3 else 0]


def _get_activation_fn(activation: Activation) -> Callable:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise error(RuntimeError, "transformer", f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


# Layers ----------------------------------------------------------------------------------------------------


class TransformerEncoderLayer(Module):
    """Self-attention, then a network of two linear layers, each with a residual connection and a norm."""

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__({"activation": F.relu, **state})

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        names = "src_key_padding_mask", "src_mask"
        padding, mask = additive_masks(src_key_padding_mask, src_mask, names, src.dtype)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output, then two linear layers."""

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **place)
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **place)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__({"activation": F.relu, **state})

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory_mask, memory_key_padding_mask, memory_is_causal
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout1(x)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
            need_weights=False,
        )[0]  # fmt: skip
        return self.dropout2(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)


# Stacks ----------------------------------------------------------------------------------------------------


def why_padding_counts(layer: Any) -> str:
    """Why inference may not skip padded places; empty when it may."""
    name = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{name} was not TransformerEncoderLayer"
    attention = layer.self_attn
    gelu = isinstance(layer.activation, Module) and layer.activation._get_name() in ("ReLU", "GELU")
    reasons = {
        f"{name}.norm_first was True": layer.norm_first,
        f"{name}.self_attn.batch_first was not True(use batch_first for better inference performance)": (
            not attention.batch_first
        ),
        f"{name}.self_attn._qkv_same_embed_dim was not True": not attention._qkv_same_embed_dim,
        f"{name}.self_attn was passed bias=False": attention.in_proj_bias is None,
        f"{name}.activation_relu_or_gelu was not True": layer.activation not in (F.relu, F.gelu) and not gelu,
        f"{name}.norm1.eps was not equal to {name}.norm2.eps": layer.norm1.eps != layer.norm2.eps,
        f"{name}.self_attn.num_heads is odd": attention.num_heads % 2 == 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


class TransformerEncoder(Module):
    """A stack of encoder layers, copies of the one given.

    As in PyTorch, inference (evaluation mode without gradients) may leave zeros in padded places.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = why_padding_counts(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}",
                stacklevel=2,
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        names = "src_key_padding_mask", "mask"
        padding, mask = additive_masks(src_key_padding_mask, mask, names, src.dtype)
        first: Any = self.layers[0]
        causal = is_causal_mask(mask, is_causal, length_of(src, first.self_attn.batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if mask is None and padding is not None and self._skips_padding(src, padding):
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _skips_padding(self, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch would take its inference path, on which padded places are not computed."""
        layer: Any = self.layers[0]
        if not self.use_nested_tensor or layer.training or src.dim() != 3 or mode.autocast is not None:
            return False
        if mode.grad and (src.requires_grad or any(p.requires_grad for p in layer.parameters())):
            return False
        if not self.mask_check:
            return True
        seen = (padding == 0).to(dtypes.int64)
        return bool((seen.diff(dim=1) <= 0).all())  # padding only behind what is seen


class TransformerDecoder(Module):
    """A stack of decoder layers, copies of the one given."""

    __constants__ = ["norm"]

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        first: Any = self.layers[0]
        causal = is_causal_mask(tgt_mask, tgt_is_causal, length_of(tgt, first.self_attn.batch_first))
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"bias": bias, "device": device, "dtype": dtype}
        settings = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
        )
        super().__init__()
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer = TransformerEncoderLayer(*settings, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **place)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            other = TransformerDecoderLayer(*settings, **place)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **place)
            self.decoder = TransformerDecoder(other, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise error(
                RuntimeError, "Transformer", "the batch number of src and tgt must be equal", src=src, tgt=tgt
            )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            rule = f"the feature number of src and tgt must be equal to d_model, {self.d_model}"
            raise error(RuntimeError, "Transformer", rule, src=src, tgt=tgt)
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A square mask that hides what comes later: −∞ there, zero elsewhere."""
        return causal_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
