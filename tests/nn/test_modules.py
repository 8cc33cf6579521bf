"""Modules beyond PyTorch's test data: containers, text, options, errors, and a forward of each."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import pytest

import cleargrad as cg
from tests.oracle import failure, same

# Text ------------------------------------------------------------------------------------------------------

CALLS = """
Threshold(1, 2) Threshold(1, 2, True) ReLU() ReLU(True) RReLU() RReLU(inplace=True) Hardtanh()
Hardtanh(inplace=True) ReLU6() ReLU6(True) Sigmoid() Hardsigmoid() Tanh() SiLU() SiLU(True) Mish(True)
Hardswish() ELU() ELU(inplace=True) CELU(2.0) SELU(True) GLU() GELU() GELU('tanh') Hardshrink() LeakyReLU()
LeakyReLU(0.2, True) LogSigmoid() Softplus() Softshrink() PReLU() PReLU(3) Softsign() Tanhshrink() Softmin()
Softmax(1) Softmax2d() LogSoftmax(1) Conv1d(1, 2, 3) Conv2d(2, 2, 3, 2, 1, 2, 2, False, 'reflect')
Conv2d(2, 2, 3, padding='same') ConvTranspose2d(2, 2, 3, 2, 1, 1)
ConvTranspose3d(2, 2, 3, padding=1, dilation=2, groups=2, bias=False) BatchNorm1d(3)
BatchNorm2d(3, bias=False) BatchNorm3d(3, affine=False, track_running_stats=False) SyncBatchNorm(3)
InstanceNorm1d(3) InstanceNorm2d(3, affine=True, bias=False, track_running_stats=True) LayerNorm(3)
LayerNorm((2, 3), bias=False) LayerNorm(3, elementwise_affine=False) GroupNorm(1, 2)
GroupNorm(1, 2, bias=False) RMSNorm(3) RMSNorm((2, 3), 1e-5, False) LocalResponseNorm(2) CrossMapLRN2d(2)
MaxPool1d(2) MaxPool2d((2, 1)) MaxPool3d(2, 1, 1, 1, True, True) MaxUnpool1d(2) MaxUnpool2d(2, 1)
MaxUnpool3d((2, 1, 1)) AvgPool1d(2) AvgPool1d(2, (1,), 1, True, False) AvgPool2d((2, 1), 3)
AvgPool3d(2, divisor_override=3) FractionalMaxPool2d(2, output_size=3)
FractionalMaxPool3d(2, output_ratio=.5) LPPool1d(2, 3) LPPool2d(2, 3, 1, True) AdaptiveAvgPool1d(2)
AdaptiveAvgPool2d((2, None)) AdaptiveMaxPool3d(2, True) Embedding(3, 2)
Embedding(3, 2, 1, 1., 1., True, False) Embedding(3, 2, -1, sparse=True, max_norm=2.) EmbeddingBag(3, 2)
EmbeddingBag(3, 2, 1., 1., True, 'max', padding_idx=-1, include_last_offset=True) Upsample(3)
Upsample(scale_factor=2, mode='bilinear') Upsample(scale_factor=(2, 3)) UpsamplingBilinear2d(3)
UpsamplingNearest2d(scale_factor=2) PairwiseDistance() CosineSimilarity() ConstantPad1d(2, 3.5)
ConstantPad2d((1, 2, 3, 4), 0) ZeroPad1d(2) ZeroPad3d(1) ReflectionPad2d(1) CircularPad3d(1)
ReplicationPad1d((1, 2)) L1Loss() CrossEntropyLoss() CTCLoss() TripletMarginWithDistanceLoss()
AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], 2.0) LinearCrossEntropyLoss(3, 4)
LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True, ignore_index=2) PixelShuffle(2) PixelUnshuffle(2)
ChannelShuffle(2) Flatten() Unflatten(1, (2, 3)) Fold((2, 2), 2) Unfold(2) Bilinear(1, 2, 3) Identity(3)
Linear(2, 3, False) Dropout() Dropout2d(.2, True) AlphaDropout() FeatureAlphaDropout() NLLLoss2d()
HuberLoss() KLDivLoss() BCELoss() ModuleList() Sequential() ModuleDict() ParameterList() ParameterDict()
"""


def modules_of(T: Any) -> dict[str, Any]:
    calls = [call.strip() for call in CALLS.replace("\n", " ").replace(") ", ")|").split("|") if call.strip()]
    T.manual_seed(0)
    names = {call.split("(")[0] for call in calls}
    space = {name: getattr(T.nn, name) for name in names}
    return {call: eval(call, space) for call in calls}


def test_text_and_attributes() -> None:
    def facts(T: Any) -> Any:
        return [
            (call, repr(module), public_fields(module), sorted(getattr(module, "__constants__", [])))
            for call, module in modules_of(T).items()
        ]

    def public_fields(module: Any) -> list[str]:
        return sorted(f"{name}={value}" for name, value in vars(module).items() if not name.startswith("_"))

    same(facts)


def test_starting_values() -> None:
    same(lambda T: [dict(module.state_dict()) for module in modules_of(T).values()], rtol=0, atol=0)


def test_all_pickle() -> None:
    for call, module in modules_of(cg).items():
        again = pickle.loads(pickle.dumps(module))
        assert type(again) is type(module) and repr(again) == repr(module), call


# Forward of what module_db lacks ---------------------------------------------------------------------------

FORWARDS = {
    "Dropout": lambda n: (n.Dropout(0.3), (4, 5)),
    "Dropout1d": lambda n: (n.Dropout1d(0.3), (4, 5, 2)),
    "Dropout2d": lambda n: (n.Dropout2d(0.3), (4, 5, 2, 2)),
    "Dropout3d": lambda n: (n.Dropout3d(0.3), (4, 5, 2, 2, 2)),
    "AlphaDropout": lambda n: (n.AlphaDropout(0.3), (4, 5)),
    "FeatureAlphaDropout": lambda n: (n.FeatureAlphaDropout(0.3), (4, 5, 2)),
    "RReLU": lambda n: (n.RReLU(), (4, 5)),
    "Hardsigmoid": lambda n: (n.Hardsigmoid(), (4, 5)),
    "Flatten": lambda n: (n.Flatten(), (2, 3, 4)),
    "Unflatten": lambda n: (n.Unflatten(1, (2, 3)), (4, 6)),
    "Fold": lambda n: (n.Fold((4, 4), 2), (2, 12, 9)),
    "Unfold": lambda n: (n.Unfold(2, padding=1), (2, 3, 4, 4)),
    "PixelShuffle": lambda n: (n.PixelShuffle(2), (1, 8, 2, 2)),
    "PixelUnshuffle": lambda n: (n.PixelUnshuffle(2), (1, 2, 4, 4)),
    "ChannelShuffle": lambda n: (n.ChannelShuffle(2), (1, 4, 2, 2)),
    "Upsample": lambda n: (n.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
    "UpsamplingNearest2d": lambda n: (n.UpsamplingNearest2d(scale_factor=2), (1, 2, 3, 3)),
    "UpsamplingBilinear2d": lambda n: (n.UpsamplingBilinear2d(5), (1, 2, 3, 3)),
    "Identity": lambda n: (n.Identity(1, a=2), (2, 3)),
    "SyncBatchNorm": lambda n: (n.SyncBatchNorm(3).eval(), (4, 3)),
    "LazyBatchNorm2d": lambda n: (n.LazyBatchNorm2d(), (2, 3, 4, 4)),
    "LazyInstanceNorm1d": lambda n: (n.LazyInstanceNorm1d(), (2, 3, 4)),
    "LazyLinear": lambda n: (n.LazyLinear(3), (2, 5)),
    "AverageOfAll": lambda n: (n.BatchNorm1d(3, momentum=None), (4, 3)),
    "InstanceNormTracking": lambda n: (n.InstanceNorm1d(3, track_running_stats=True), (4, 3, 5)),
}


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("name", FORWARDS)
def test_forward(name: str) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        module, shape = FORWARDS[name](T.nn)
        x = T.randn(shape, requires_grad=True)
        results = []
        for _ in range(2):
            out = module(x)
            (out * T.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
            results.append(out)
        grads = [parameter.grad for parameter in module.parameters()]
        return results, x.grad, grads, dict(module.state_dict()), module.eval()(x), repr(module)

    same(run, rtol=1e-4, atol=1e-5)


def test_unpooling() -> None:
    def run(T: Any) -> Any:
        results = []
        for spatial in (1, 2, 3):
            pool = getattr(T.nn, f"MaxPool{spatial}d")(2, return_indices=True)
            unpool = getattr(T.nn, f"MaxUnpool{spatial}d")(2)
            for extent in (4, 5):
                x = T.arange(2.0 * extent**spatial).reshape(1, 2, *[extent] * spatial)
                results.append(unpool(*pool(x), output_size=None if extent == 4 else x.size()))
        return results

    same(run)


def test_transposed_output_size() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        m = T.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
        x = T.ones(1, 2, 4, 4)
        return (
            m(x, output_size=(8, 8)),
            m(x, output_size=[1, 3, 7, 8]),
            failure(lambda: m(x, output_size=(20, 20))),
            failure(lambda: m(x, output_size=(8,))),
        )

    same(run)


def test_embeddings() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        table = T.arange(12.0).reshape(4, 3)
        frozen = T.nn.Embedding.from_pretrained(table)
        trained = T.nn.Embedding.from_pretrained(table, freeze=False, padding_idx=1)
        padded = T.nn.Embedding(4, 3, padding_idx=-1)
        bag = T.nn.EmbeddingBag.from_pretrained(table, mode="sum")
        words = T.tensor([[0, 1], [2, 3]])
        padded(words).sum().backward()
        trained(words).sum().backward()
        return (
            frozen(words),
            frozen.weight.requires_grad,
            trained.weight.grad,
            padded.weight.grad,
            padded.weight,
            bag(words),
            bag(words.flatten(), T.tensor([0, 3])),
            bag.weight.requires_grad,
            failure(lambda: T.nn.Embedding(4, 3, padding_idx=4)),
            failure(lambda: T.nn.Embedding(4, 3, _weight=T.ones(2, 2))),
            failure(lambda: T.nn.Embedding.from_pretrained(T.ones(3))),
        )

    same(run)


def test_adaptive_softmax() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        m = T.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0)
        x = T.randn(6, 16)
        target = T.tensor([0, 17, 10, 8, 4, 5])
        out = m(x, target)
        out.loss.backward()
        single = m(x[0], target[0])
        return (
            tuple(out),
            tuple(single),
            m.log_prob(x),
            m.predict(x),
            [parameter.grad for parameter in m.parameters()],
            failure(lambda: m(x, target + 10)),
            failure(lambda: m(x, target[:2])),
            failure(lambda: T.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 5])),
            failure(lambda: T.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [])),
        )

    same(run, rtol=1e-4, atol=1e-6)


def test_losses_with_old_arguments() -> None:
    def run(T: Any) -> Any:
        pairs = [(None, None), (True, None), (False, None), (None, False), (False, True)]
        return [T.nn.MSELoss(average, reduce).reduction for average, reduce in pairs]

    with pytest.warns(UserWarning, match="will be deprecated"):
        same(run)


def test_wrong_options() -> None:
    def run(T: Any) -> Any:
        n = T.nn
        calls = [
            lambda: n.Dropout(2),
            lambda: n.Conv2d(3, 4, 2, groups=2),
            lambda: n.Conv2d(4, 3, 2, groups=2),
            lambda: n.Conv2d(4, 4, 2, groups=0),
            lambda: n.Conv2d(4, 4, 2, padding="some"),
            lambda: n.Conv2d(4, 4, 2, padding="same", stride=2),
            lambda: n.Conv2d(4, 4, 2, padding_mode="some"),
            lambda: n.ConvTranspose1d(4, 4, 2, padding_mode="reflect"),
            lambda: n.GroupNorm(3, 4),
            lambda: n.Hardtanh(1, -1),
            lambda: n.MultiMarginLoss(3),
            lambda: n.MultiMarginLoss(weight=T.ones(2, 2)),
            lambda: n.TripletMarginLoss(-1),
            lambda: n.FractionalMaxPool2d(2),
            lambda: n.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5),
            lambda: n.FractionalMaxPool3d(2, output_ratio=1.5),
            lambda: n.Unflatten(1, 3),
            lambda: n.Unflatten(1, (2, 1.5)),
            lambda: n.Bilinear(0, 1, 1),
            lambda: n.Softmax2d()(T.ones(2)),
            lambda: n.BatchNorm1d(3)(T.ones(3)),
            lambda: n.BatchNorm2d(3)(T.ones(3, 3)),
            lambda: n.BatchNorm1d(3)(T.ones(1, 3)),
            lambda: n.BatchNorm1d(3)(T.ones(2, 4)),
            lambda: n.InstanceNorm1d(3)(T.ones(3)),
            lambda: n.InstanceNorm1d(3, affine=True)(T.ones(2, 4, 5)),
            lambda: n.CircularPad1d(1)(T.ones(3)),
            lambda: n.Linear(2, 3)(T.ones(4)),
            lambda: n.Conv2d(2, 3, 3)(T.ones(1, 3, 5, 5)),
            lambda: n.LinearCrossEntropyOptions(acc_policy="bad"),
            lambda: n.LinearCrossEntropyOptions(batch_chunk_size=0),
        ]
        return [failure(call) for call in calls]

    same(run)


def test_instance_norm_warns_about_unused_features() -> None:
    with pytest.warns(UserWarning, match="does not match num_features"):
        cg.nn.InstanceNorm1d(3)(cg.ones(2, 4, 5))


def test_sync_batch_norm_conversion() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Sequential(T.nn.BatchNorm1d(2), T.nn.Sequential(T.nn.BatchNorm2d(3)))
        converted = T.nn.SyncBatchNorm.convert_sync_batchnorm(m)
        return repr(converted), list(converted.state_dict()), converted[0].weight

    same(run)


# Containers ------------------------------------------------------------------------------------------------


def test_sequential() -> None:
    def run(T: Any) -> Any:
        n = T.nn
        s = n.Sequential(n.Linear(2, 2), n.ReLU(), n.Linear(2, 3))
        named = n.Sequential(OrderedDict([("one", n.ReLU()), ("two", n.Tanh())]))
        wrong = [
            failure(call)
            for call in (
                lambda: s[5],
                lambda: s["a"],
                lambda: n.Sequential(3),
                lambda: s.insert(9, n.ReLU()),
                lambda: s.insert(0, 3),
                lambda: s + 3,
                lambda: s * 0,
                lambda: s * 1.5,
                lambda: s.append(3),
                lambda: s.extend(n.ReLU()),
            )
        ]
        texts = [repr(s), repr(s[1:]), repr(s[-1]), repr(named[:1]), repr(s + named), repr(2 * s)]
        s.append(n.Tanh()).insert(1, n.Sigmoid()).extend([n.ReLU(), n.ReLU()])
        texts.append(repr(s))
        del s[0]
        texts += [repr(s.pop(1)), repr(s)]
        del s[1:3]
        s[0] = n.GELU()
        named[1] = n.ELU()
        s += named
        s *= 2
        del named[0]
        return (
            wrong,
            texts,
            repr(s),
            len(s),
            repr(named),
            [type(m).__name__ for m in s],
            list(named.state_dict()),
        )

    same(run)


def test_module_list() -> None:
    def run(T: Any) -> Any:
        n = T.nn
        m = n.ModuleList([n.Linear(2, 2), n.Linear(2, 2), n.Sequential(n.ReLU(), n.ReLU())])
        wrong = [
            failure(call)
            for call in (
                lambda: m[7],
                lambda: m.extend(3),
                lambda: m.append(3),
                lambda: m(1),
                lambda: m + 3,
                lambda: m[0:1](3),
            )
        ]
        texts = [repr(m), repr(m[::-1]), repr(m + [n.Tanh()]), repr(m[-1])]
        m.insert(0, n.Tanh())
        m += [n.ReLU(), n.ReLU()]
        m[1] = n.ELU()
        m.append(None)
        texts += [repr(m), repr(m.pop(2))]
        del m[-1], m[0]
        return wrong, texts, repr(m), len(m), list(m.state_dict())

    same(run)


def test_module_dict() -> None:
    def run(T: Any) -> Any:
        n = T.nn
        m = n.ModuleDict({"b": n.ReLU(), "a": n.Linear(1, 1)})
        m.update([("c", n.Tanh())])
        m["d"] = n.ELU()
        m.update(n.ModuleDict({"e": None}))
        wrong = [
            failure(call)
            for call in (
                lambda: m["x"],
                lambda: m.update(3),
                lambda: m.update([(1, 2, 3)]),
                lambda: m.update([3]),
                lambda: m.update({"keys": n.ReLU()}),
                lambda: m.update({3: n.ReLU()}),
            )
        ]
        facts = (
            repr(m),
            list(m),
            len(m),
            "a" in m,
            [k for k, _ in m.items()],
            list(m.keys()),
            len(list(m.values())),
        )
        popped = repr(m.pop("a"))
        del m["b"]
        left = list(m)
        m.clear()
        return wrong, facts, popped, left, len(m)

    same(run)


def test_parameter_list() -> None:
    def run(T: Any) -> Any:
        n = T.nn
        p = n.ParameterList([T.ones(2, 3), n.Parameter(T.tensor(1.0)), 3, "a"])
        p += [T.zeros(1)]
        p.append(T.ones(2)).extend([n.Parameter(T.ones(3))])
        p[0] = T.zeros(2)
        return (
            repr(p),
            len(p),
            repr(p[0:2]),
            list(p.state_dict()),
            p[-1],
            [type(value).__name__ for value in p],
            [failure(lambda: p[30]), failure(lambda: p(1)), failure(lambda: p.extend(3))],
            failure(lambda: p.extend(T.ones(2))),
        )

    same(run)


def test_parameter_dict() -> None:
    def run(T: Any) -> Any:
        n = T.nn
        p = n.ParameterDict({"b": T.ones(2, 3), "a": 3})
        p["c"] = T.zeros(1)
        p.update(OrderedDict([("z", T.ones(1)), ("y", T.ones(1))]))
        facts = [
            repr(p),
            list(p),
            list(reversed(p)),
            len(p),
            "a" in p,
            list(p.state_dict()),
            p.get("no", 7),
            p.b,
        ]
        facts += [p.setdefault("c", 5), p.setdefault("new", T.ones(1)), repr(p.copy()), repr(p | {"q": 1})]
        facts += [sorted({"q": 1} | p), repr(p.fromkeys(["r", "s"], 1)), p.popitem()[0], p.pop("b")]
        wrong = [
            failure(call)
            for call in (
                lambda: p["x"],
                lambda: p.update(3),
                lambda: p.update([(1,)]),
                lambda: p.update([3]),
                lambda: p(1),
                lambda: n.ParameterDict({3: 1}),
                lambda: n.ParameterDict({"keys": T.ones(1)}),
            )
        ]
        p |= {"m": T.ones(1)}
        del p["a"]
        left = list(p), [key for key, _ in p.items()], len(list(p.values()))
        p.clear()
        return facts, wrong, left, len(p)

    same(run)
