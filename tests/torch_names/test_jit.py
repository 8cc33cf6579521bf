"""torch.jit as plain Python; torch.onnx, fx, export, quantization and the compiler's switches."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import cleargrad as cg
from tests.oracle import same


def test_scripts_and_traces_compute_the_same() -> None:
    def run(T: Any) -> Any:
        class Net(T.nn.Module):
            scale: T.jit.Final[int] = 2

            def __init__(self) -> None:
                super().__init__()
                self.layer = T.nn.Linear(2, 2)

            @T.jit.ignore
            def unseen(self) -> int:
                return 3

            @T.jit.unused
            def unused(self) -> int:
                return 4

            @T.jit.export
            def twice(self, x):  # the compiler reads annotations, and takes these for tensors
                return self.layer(x) * 2

            def forward(self, x):
                return self.layer(x)

        T.manual_seed(0)
        net = Net()
        traced = T.jit.trace(net.eval(), T.ones(1, 2))
        return traced(T.ones(1, 2)), list(traced.state_dict()), net.unseen(), T.jit.is_scripting()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(run)


def test_small_things() -> None:
    assert cg.jit.annotate(list[int], [1]) == [1]
    assert cg.jit.wait(cg.jit.fork(lambda x: x + 1, 1)) == 2
    assert cg.jit.isinstance(1, int) and not cg.jit.isinstance(1, str)
    model = cg.nn.Linear(1, 1)
    assert cg.jit.script(model) is model
    with pytest.raises(RuntimeError, match="eval mode"):
        cg.jit.freeze(model)
    with pytest.raises(NotImplementedError, match="TorchScript"):
        cg.jit.save(model, "model.pt")


@pytest.mark.parametrize(
    "use",
    [
        lambda: cg.onnx.export(cg.nn.Linear(1, 1), cg.ones(1, 1), "model.onnx"),
        lambda: cg.fx.symbolic_trace(cg.nn.Linear(1, 1)),
        lambda: cg.export.export(cg.nn.Linear(1, 1), (cg.ones(1, 1),)),
        lambda: cg.quantization.quantize_dynamic(cg.nn.Linear(1, 1)),
        lambda: cg.ao.quantization.prepare(cg.nn.Linear(1, 1)),
        lambda: cg.sparse_coo_tensor(cg.ones(1), cg.ones(1)),
        lambda: cg.ones(2).to_sparse(),
        lambda: cg.utils.cpp_extension.load("name", []),
    ],
)
def test_what_is_not_there_says_so_when_used(use: Any) -> None:
    with pytest.raises(NotImplementedError, match="cleargrad does not"):
        use()


def test_stand_ins_can_be_derived_from_and_tested_for() -> None:
    class Mine(cg.fx.Tracer):
        pass

    assert not isinstance(cg.nn.Linear(1, 1), cg.fx.GraphModule)
    with pytest.raises(NotImplementedError, match=r"torch\.fx\.Tracer: cleargrad does not trace modules"):
        Mine()


def test_switches_of_the_compiler() -> None:
    cg._dynamo.config.suppress_errors = True
    cg._dynamo.config.any_name_at_all = 1
    cg._inductor.config.coordinate_descent_tuning = True
    cg._dynamo.reset()
    cg.compiler.reset()
    assert not cg.compiler.is_compiling()
    assert cg.compiler.disable(len) is len and cg.compiler.disable()(len) is len
    cg._C._jit_set_profiling_executor(False)
    assert cg._VF.tanh is cg.tanh
    assert not cg.overrides.has_torch_function((cg.ones(1),))
    assert cg.overrides.is_tensor_like(cg.ones(1)) and not cg.overrides.is_tensor_like(1)
