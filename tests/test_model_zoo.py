"""The building blocks of well-known networks, trained for three steps with cleargrad and with PyTorch.

Each is written here in its shortest form, as model zoos write it. From one seed the first weights are equal bit by
bit; outputs, losses, gradients, weights after three steps, running statistics and evaluation agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.oracle import same


def conv_norm(
    T: Any, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, act: Any = None
) -> Any:
    nn = T.nn
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([] if act is None else [act()]))


def plain(T: Any) -> Any:
    """VGG: convolutions, pooling, two dropouts; weights from Kaiming's rule."""
    nn = T.nn
    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten()),
        *(nn.Linear(64, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, 5)),
    )
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.constant_(module.bias, 0)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
    return net


def residual(T: Any, groups: int = 1) -> Any:
    """ResNet: a bottleneck beside a projection, then one beside the identity; with groups, ResNeXt."""
    nn, F = T.nn, T.nn.functional

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, width: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.reduce = conv_norm(T, inputs, width, 1, act=nn.ReLU)
            self.spatial = conv_norm(T, width, width, 3, stride, groups, nn.ReLU)
            self.expand = conv_norm(T, width, outputs, 1)
            same_shape = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same_shape else conv_norm(T, inputs, outputs, 1, stride)
            nn.init.zeros_(self.expand[1].weight)

        def forward(self, x: Any) -> Any:
            return F.relu(self.expand(self.spatial(self.reduce(x))) + self.shortcut(x))

    return nn.Sequential(
        *(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        *(Bottleneck(8, 8, 16, 2), Bottleneck(16, 8, 16, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)),
    )


def dense(T: Any) -> Any:
    """DenseNet: every layer sees all that came before, then a transition halves it."""
    nn = T.nn

    class Layer(nn.Module):
        def __init__(self, inputs: int, growth: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 2 * growth, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(2 * growth)
            self.conv2 = nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.conv2(self.norm2(self.conv1(self.norm1(x).relu())).relu())
            return T.cat([x, T.nn.functional.dropout(y, 0.1, self.training)], 1)

    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1, bias=False), Layer(8, 4), Layer(12, 4)),
        *(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1), nn.AvgPool2d(2, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
    )


def inverted_residual(T: Any) -> Any:
    """MobileNet v3, EfficientNet: widen, convolve each channel alone, squeeze and excite, narrow, skip."""
    nn = T.nn

    class SqueezeExcite(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.fc1, self.fc2 = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

        def forward(self, x: Any) -> Any:
            scale = self.fc2(T.nn.functional.silu(self.fc1(self.pool(x))))
            return x * T.nn.functional.hardsigmoid(scale)

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            wide, self.skips = 3 * inputs, stride == 1 and inputs == outputs
            self.layers = nn.Sequential(
                conv_norm(T, inputs, wide, 1, act=nn.Hardswish),
                conv_norm(T, wide, wide, 5, stride, wide, nn.ReLU6),
                SqueezeExcite(wide),
                conv_norm(T, wide, outputs, 1),
            )

        def forward(self, x: Any) -> Any:
            if not self.skips:
                return self.layers(x)
            keep = 0.8 if self.training else 1.0  # stochastic depth: a whole sample's branch falls away
            mask = T.empty(len(x), 1, 1, 1).bernoulli_(keep).div_(keep)
            return x + self.layers(x) * mask

    return nn.Sequential(
        conv_norm(T, 3, 8, 3, 2, act=nn.Hardswish),
        *(Block(8, 8, 1), Block(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5)),
    )


def inception(T: Any) -> Any:
    """GoogLeNet: branches of different reach side by side; pooling that rounds up; a second classifier."""
    nn = T.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                conv_norm(T, 3, 8, 3, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, ceil_mode=True)
            )
            self.one = conv_norm(T, 8, 4, 1, act=nn.ReLU)
            self.wide = nn.Sequential(
                nn.Conv2d(8, 4, (1, 5), padding=(0, 2)), nn.Conv2d(4, 4, (5, 1), padding=(2, 0))
            )
            self.pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.Conv2d(8, 4, 1))
            self.norm = nn.LocalResponseNorm(3)
            self.head, self.aside = nn.Linear(12, 5), nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = self.stem(x)
            aside = self.aside(x.mean((2, 3)))
            x = self.norm(T.cat((self.one(x), self.wide(x), self.pooled(x)), dim=1))
            out = self.head(T.flatten(T.nn.functional.adaptive_avg_pool2d(x, 1), 1))
            return out + 0.3 * aside if self.training else out

    return Net()


def shuffle(T: Any) -> Any:
    """ShuffleNet v2: half of the channels go straight on, then the halves are interleaved."""
    nn = T.nn

    class Unit(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            half = channels // 2
            self.branch = nn.Sequential(
                conv_norm(T, half, half, 1, act=nn.ReLU),
                conv_norm(T, half, half, 3, groups=half),
                conv_norm(T, half, half, 1, act=nn.ReLU),
            )

        def forward(self, x: Any) -> Any:
            straight, other = x.chunk(2, dim=1)
            x = T.cat((straight, self.branch(other)), dim=1)
            n, c, h, w = x.size()
            return x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)

    return nn.Sequential(
        conv_norm(T, 3, 8, 3, 2, act=nn.ReLU), *(Unit(8) for _ in range(2)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip


def attention(T: Any) -> Any:
    """ViT, with Swin's relative positions and ConvNeXt's layer scale: patches, a class token, two blocks."""
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self, width: int, heads: int, tokens: int) -> None:
            super().__init__()
            self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
            )
            self.scale = nn.Parameter(1e-1 * T.ones(width))
            self.places = nn.Parameter(nn.init.trunc_normal_(T.zeros(2 * tokens - 1, heads), std=0.02))
            offsets = T.arange(tokens)[:, None] - T.arange(tokens)[None, :] + tokens - 1
            self.register_buffer("offsets", offsets, persistent=False)

        def forward(self, x: Any) -> Any:
            b, n, d = x.shape
            q, k, v = (
                self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            )
            bias = self.places[self.offsets.flatten()].view(n, n, -1).permute(2, 0, 1)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0).expand(b, -1, -1, -1))
            x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
            return x + self.scale * self.mlp(self.norm2(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 12, 4, 4)
            self.token = nn.Parameter(T.zeros(1, 1, 12))
            self.position = nn.Parameter(T.empty(1, 17, 12).normal_(std=0.02))
            self.blocks = nn.ModuleList([Block(12, 3, 17) for _ in range(2)])
            self.head = nn.Linear(12, 5)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = T.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            for block in self.blocks:
                x = block(x)
            return self.head(x[:, 0])

    return Net()


def u_net(T: Any) -> Any:
    """U-Net: down twice, up by a transposed convolution and by interpolation, with skips across."""
    nn, F = T.nn, T.nn.functional

    def double(inputs: int, outputs: int) -> Any:
        first = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.LeakyReLU(0.1)
        )
        return nn.Sequential(
            first, nn.Conv2d(outputs, outputs, 3, padding=2, dilation=2), nn.InstanceNorm2d(outputs)
        )

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outer, self.middle, self.inner = double(3, 4), double(4, 8), double(8, 8)
            self.up, self.after, self.last = nn.ConvTranspose2d(8, 8, 2, 2), double(16, 4), double(8, 4)
            self.head = nn.Conv2d(4, 2, 1)

        def forward(self, x: Any) -> Any:
            outer = self.outer(F.pad(x, (1, 1, 1, 1), mode="reflect"))
            middle = self.middle(F.max_pool2d(outer, 2))
            y = self.up(self.inner(F.max_pool2d(middle, 2)))
            y = F.pad(y, [0, middle.size(3) - y.size(3), 0, middle.size(2) - y.size(2)])
            y = self.after(T.cat([middle, y], dim=1))
            y = F.interpolate(y, size=outer.shape[2:], mode="bilinear", align_corners=True)
            return self.head(self.last(T.cat([outer, y], 1)))[:, :, 1:-1, 1:-1]

    return Net()


ZOO: dict[str, Callable] = {
    maker.__name__: maker
    for maker in (plain, residual, dense, inverted_residual, inception, shuffle, attention, u_net)
}
ZOO["grouped residual"] = lambda T: residual(T, groups=4)


@pytest.mark.parametrize("name", ZOO)
def test_first_weights_are_equal_bit_by_bit(name: str) -> None:
    states = []
    for T in (torch, cg):
        T.manual_seed(0)
        states.append({key: value.numpy() for key, value in ZOO[name](T).state_dict().items()})
    theirs, ours = states
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value, err_msg=key)
        assert ours[key].dtype == value.dtype


def training(T: Any, name: str) -> Any:
    """Everything that three steps produce; in float64, where a wrong formula cannot hide behind rounding."""
    T.manual_seed(0)
    net = ZOO[name](T).double()
    images = T.randn(6, 3, 16, 16).double()
    optimizer = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    seen = []
    for step in range(3):
        out = net(images)
        labels = T.arange(out.numel() // out.shape[1]).reshape(out.shape[0], *out.shape[2:]) % out.shape[1]
        loss = T.nn.functional.cross_entropy(out, labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            seen += [out, {key: value.grad for key, value in net.named_parameters()}]
        optimizer.step()
        seen.append(loss)
    net.eval()
    with T.no_grad():
        seen.append(net(images))
    return seen, dict(net.state_dict()), repr(net)


@pytest.mark.parametrize("name", ZOO)
def test_three_steps(name: str) -> None:
    # PyTorch takes 1/6 in float32 for the gradient of hardsigmoid, also in float64.
    rtol, atol = (1e-6, 1e-8) if name == "inverted_residual" else (1e-8, 1e-11)
    same(lambda T: training(T, name), rtol, atol)


@pytest.mark.parametrize("name", ZOO)
def test_one_step_in_float32(name: str) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(1)
        net = ZOO[name](T)
        images = T.randn(6, 3, 16, 16)
        optimizer = T.optim.AdamW(net.parameters(), lr=1e-3)
        out = net(images)
        loss = (out * T.linspace(-1, 1, out.numel()).view_as(out)).mean()
        loss.backward()
        T.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return out, loss, [parameter.grad for parameter in net.parameters()]

    same(run, 1e-3, 2e-5)


def test_weights_of_the_other_library() -> None:
    """A state dict moves between the libraries through NumPy, and the outputs agree."""
    torch.manual_seed(3)
    theirs = residual(torch).eval()
    ours = residual(cg).eval()
    state = {key: cg.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()}
    assert str(ours.load_state_dict(state)) == "<All keys matched successfully>"
    images = np.random.default_rng(0).standard_normal((2, 3, 16, 16), np.float32)
    with torch.no_grad(), cg.no_grad():
        expected = theirs(torch.from_numpy(images)).numpy()
        np.testing.assert_allclose(ours(cg.from_numpy(images)).numpy(), expected, 1e-4, 1e-5)
