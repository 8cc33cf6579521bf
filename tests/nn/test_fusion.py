"""Batch norms folded into layers, weights in other memory formats, functional_call with buffers that change."""

from __future__ import annotations

from typing import Any

import pytest

import cleargrad as cg
from tests.oracle import failure, same


@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm_folds_into_the_layer(bias: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        said = []
        for layer, norm, x, transpose in (
            (T.nn.Conv2d(2, 3, 3, bias=bias), T.nn.BatchNorm2d(3), T.randn(2, 2, 5, 5), False),
            (T.nn.ConvTranspose2d(2, 3, 3, bias=bias), T.nn.BatchNorm2d(3), T.randn(2, 2, 5, 5), True),
            (T.nn.Linear(4, 3, bias=bias), T.nn.BatchNorm1d(3), T.randn(2, 4), None),
        ):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            T.nn.init.normal_(norm.weight)
            said.append(failure(lambda layer=layer, norm=norm: T.nn.utils.fuse_conv_bn_eval(layer, norm)))
            layer.eval(), norm.eval()
            if transpose is None:
                fused = T.nn.utils.fuse_linear_bn_eval(layer, norm)
            else:
                fused = T.nn.utils.fuse_conv_bn_eval(layer, norm, transpose)
            said += [fused(x).detach(), (fused(x) - norm(layer(x))).abs().max().item() < 1e-5]
        return said

    same(run, rtol=1e-4, atol=1e-5)


def test_weights_change_their_memory_format() -> None:
    def run(T: Any) -> Any:
        model = T.nn.Sequential(T.nn.Conv2d(3, 4, 3), T.nn.Linear(2, 2))
        T.nn.utils.convert_conv2d_weight_memory_format(model, T.channels_last)
        return model[0].weight.stride(), model[1].weight.stride()

    same(run)


def test_functional_call_hands_changed_buffers_back() -> None:
    def run(T: Any) -> Any:
        class Counter(T.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("count", T.zeros(1))
                self.norm = T.nn.BatchNorm1d(2)

            def forward(self, x: Any) -> Any:
                self.count = self.count + 1
                return self.norm(x)

        model = Counter()
        given = {name: tensor.clone() for name, tensor in model.named_buffers()}
        T.func.functional_call(model, given, T.arange(6.0).reshape(3, 2))
        return given, dict(model.named_buffers())

    same(run)


def test_batch_norms_without_statistics() -> None:
    def run(T: Any) -> Any:
        model = T.func.replace_all_batch_norm_modules_(T.nn.Sequential(T.nn.BatchNorm1d(2)))
        return model(T.arange(6.0).reshape(3, 2)), list(model.state_dict())

    same(run, atol=1e-6)


def test_paths_of_modules() -> None:
    from cleargrad.nn.modules.channelshuffle import ChannelShuffle
    from cleargrad.nn.modules.sparse import Embedding

    assert Embedding is cg.nn.Embedding and ChannelShuffle is cg.nn.ChannelShuffle
