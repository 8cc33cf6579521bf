"""autocast against PyTorch's: the dtype of every function's result, regions, the cache of weights."""

import threading
import warnings

import pytest
import torch

import cleargrad as cg
from cleargrad.core import dtype as dtypes
from cleargrad.ops.record import Recorder, replay
from tests.ops.cases import call, cases, tensors_in, to_ours, to_torch

# Composites in PyTorch that are ops of their own here, or the other way round; our results are the wider ones
# except for inner (of two vectors) and local_response_norm.
DIFFERENT = {"inner", "linalg.pinv", "nn.functional.l1_loss", "nn.functional.local_response_norm", "lstm"}
BOTH = pytest.mark.parametrize("lib", [torch, cg], ids=["torch", "cleargrad"])


def kinds(value):
    return [str(tensor.dtype) for tensor in tensors_in(value)]


def with_reference():
    return [case for case in cases() if case.reference is not None and case.name not in DIFFERENT]


@pytest.mark.parametrize("part", range(8))
def test_dtype_of_every_function(part):
    """The table of policies gives PyTorch's dtypes, for float32 and for bfloat16 operands."""
    wrong = []
    for case in with_reference()[part::8]:
        for kind in (dtypes.float32, dtypes.bfloat16):
            for sample in case.good()[:4]:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        with torch.autocast("cpu"):
                            theirs = kinds(call(case.reference, sample, to_torch, kind=kind)[0])
                    except (RuntimeError, TypeError, ValueError, NotImplementedError):
                        continue
                    with cg.autocast("cpu"):
                        ours = kinds(call(case.function, sample, to_ours, kind=kind)[0])
                if ours != theirs:
                    wrong.append((case.name, kind.name, sample, ours, theirs))
    assert not wrong


@BOTH
def test_regions(lib):
    x = lib.ones(3, 3)
    seen = [str((x @ x).dtype)]
    with lib.autocast("cpu") as region:
        assert isinstance(region, lib.autocast)
        seen += [str((x @ x).dtype), lib.is_autocast_enabled("cpu"), str(lib.get_autocast_dtype("cpu"))]
        with lib.autocast("cpu", enabled=False):
            seen += [str((x @ x).dtype), lib.is_autocast_enabled("cpu")]
        with lib.amp.autocast("cpu", dtype=lib.float16):
            seen += [str((x @ x).dtype), str(lib.get_autocast_dtype("cpu"))]
        seen += [str((x @ x).dtype), str(lib.get_autocast_dtype("cpu"))]
        seen += [str((x.double() @ x.double()).dtype), str(lib.mm(x, x, out=lib.empty(3, 3)).dtype)]
        seen += [str(lib.exp(x).dtype), str(lib.nn.functional.mse_loss((x @ x), x).dtype)]
        seen += [str(x.matmul(x[0]).dtype), str(x.mv(x[0]).dtype), str(lib.cat([x, x.bfloat16()]).dtype)]
    seen += [str((x @ x).dtype), lib.is_autocast_enabled("cpu"), lib.is_autocast_enabled()]
    assert seen == [
        "torch.float32", "torch.bfloat16", True, "torch.bfloat16", "torch.float32", False, "torch.float16",
        "torch.float16", "torch.bfloat16", "torch.bfloat16", "torch.float64", "torch.float32", "torch.float32",
        "torch.float32", "torch.bfloat16", "torch.float32", "torch.float32", "torch.float32", False, False,
    ]  # fmt: skip


@BOTH
def test_an_error_leaves_the_region(lib):
    with pytest.raises(ZeroDivisionError), lib.autocast("cpu"):
        _ = 1 / 0
    assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype is lib.float32


@BOTH
def test_decorator(lib):
    @lib.autocast("cpu", dtype=lib.float16)
    def product(x):
        """doc"""
        return x @ x

    assert product.__name__ == "product" and product.__doc__ == "doc"
    assert product(lib.ones(2, 2)).dtype is lib.float16
    assert not lib.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match="requires a callable, but got int"):
        lib.autocast("cpu")(3)


def test_a_decorated_function_may_recurse():
    @cg.autocast("cpu")  # PyTorch stays in the region afterwards
    def product(x, depth):
        return product(x @ x, depth - 1) if depth else x @ x

    assert product(cg.ones(2, 2), 2).dtype is cg.bfloat16
    assert not cg.is_autocast_enabled("cpu")


@BOTH
def test_other_threads_are_outside(lib):
    seen = []
    with lib.autocast("cpu"):
        worker = threading.Thread(target=lambda: seen.append((lib.ones(2, 2) @ lib.ones(2, 2)).dtype))
        worker.start()
        worker.join()
    assert seen == [lib.float32]


@BOTH
def test_arguments(lib):
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        lib.autocast(3)
    with pytest.raises(RuntimeError, match=r"device type at start of device string: nowhere"):
        lib.autocast("nowhere")
    with pytest.warns(UserWarning, match="the target dtype is not supported. Disabling autocast"):
        region = lib.autocast("cpu", dtype=lib.float32)
    with region:
        assert not lib.is_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="CUDA is not available or torch_xla is imported. Disabling"):
        region = lib.autocast("cuda")
    with region:
        assert not lib.is_autocast_enabled("cuda") and (lib.ones(2, 2) @ lib.ones(2, 2)).dtype is lib.float32
    assert lib.amp.is_autocast_available("cpu") and str(lib.get_autocast_dtype("cuda")) == "torch.float16"


@BOTH
def test_old_names(lib):
    import importlib

    with pytest.warns(
        DeprecationWarning, match=r"torch.is_autocast_cpu_enabled\(\) is deprecated. Please use"
    ):
        assert not lib.is_autocast_cpu_enabled()
    with pytest.warns(
        DeprecationWarning, match=r"torch.get_autocast_gpu_dtype\(\) is deprecated. Please use"
    ):
        assert lib.get_autocast_gpu_dtype() is lib.float16

    name = "torch" if lib is torch else "cleargrad"
    cuda, cpu = importlib.import_module(f"{name}.cuda.amp"), importlib.import_module(f"{name}.cpu.amp")
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.autocast\(args...\)` is deprecated"):
        region = cpu.autocast()
    with region:
        assert (lib.ones(2, 2) @ lib.ones(2, 2)).dtype is lib.bfloat16
    with pytest.warns(FutureWarning, match="Please use `torch.amp.autocast\\('cuda', args...\\)` instead"):
        cuda.autocast(enabled=False)
    with pytest.warns(FutureWarning, match="`torch.cuda.amp.GradScaler\\(args...\\)` is deprecated"):
        assert not cuda.GradScaler(enabled=False).is_enabled()
    with pytest.warns(FutureWarning, match="torch.cpu.amp.GradScaler"):
        assert cpu.GradScaler().is_enabled()


# Weights ----------------------------------------------------------------------------------------------------


def test_weights_are_cast_once_per_region():
    weight, x = cg.ones(3, 3, requires_grad=True), cg.ones(2, 3)
    with cg.autocast("cpu"):
        first, second = (x @ weight).grad_fn, (x @ weight).grad_fn
        assert first.next_functions[1][0] is second.next_functions[1][0]
    with cg.autocast("cpu"):
        assert (x @ weight).grad_fn.next_functions[1][0] is not first.next_functions[1][0]
    with cg.autocast("cpu", cache_enabled=False):
        first, second = (x @ weight).grad_fn, (x @ weight).grad_fn
        assert first.next_functions[1][0] is not second.next_functions[1][0]
    from cleargrad.amp.state import state

    assert not state.cache and not state.nesting


def test_a_forward_without_gradients_does_not_lose_later_ones():
    weight, x = cg.ones(3, 3, requires_grad=True), cg.ones(2, 3)
    with cg.autocast("cpu"):
        with cg.no_grad():
            assert not (x @ weight).requires_grad
        (x @ weight).sum().backward()
    assert weight.grad is not None and weight.grad.dtype is cg.float32
    assert weight.grad.tolist() == [[2.0] * 3] * 3


def test_a_weight_that_changes_inside_a_region_is_cast_again():
    weight, x = cg.ones(2, 2, requires_grad=True), cg.ones(1, 2)
    with cg.autocast("cpu"):
        assert (x @ weight).tolist() == [[2.0, 2.0]]
        with cg.no_grad():
            weight.mul_(3)
        assert (x @ weight).tolist() == [[6.0, 6.0]]


def test_two_backwards_in_one_region():
    grads = []
    for lib in (torch, cg):
        weight, x = lib.ones(3, 3, requires_grad=True), lib.ones(2, 3)
        with lib.autocast("cpu"):
            for _ in range(2):
                lib.nn.functional.linear(x, weight, lib.ones(3)).float().sum().backward()
        grads.append(weight.grad.tolist())
    assert grads[0] == grads[1]


def test_values_agree_with_torch():
    results = []
    for lib in (torch, cg):
        lib.manual_seed(0)
        x, w, v = (lib.randn(8, 8, requires_grad=True) for _ in range(3))
        with lib.autocast("cpu"):
            h = lib.nn.functional.relu(x @ w)
            loss = lib.nn.functional.mse_loss(lib.nn.functional.linear(h, v), lib.ones(8, 8))
        loss.backward()
        results.append([loss.item(), *(t.grad.flatten().tolist() for t in (x, w, v))])
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-2)
    for ours, theirs in zip(results[1][1:], results[0][1:], strict=True):
        assert ours == pytest.approx(theirs, rel=5e-2, abs=2e-2)


def test_recorded_calls_are_cast_as_well():
    x, w = cg.randn(3, 3), cg.randn(3, 3)
    with Recorder() as recorder, cg.autocast("cpu"):
        a, b = recorder.input(x), recorder.input(w)
        out = cg.nn.functional.linear(a, b, cg.ones(3))
        graph = recorder.finish([out])
    with cg.autocast("cpu"):
        eager = cg.nn.functional.linear(x, w, cg.ones(3))
    result = replay(graph, [x.numpy(), w.numpy()])[0]
    assert result.dtype == eager.numpy().dtype
    assert abs(result.astype("f4") - eager.float().numpy()).max() < 5e-2


# Functions of the user's own --------------------------------------------------------------------------------


def product_class(lib, **options):
    class Product(lib.autograd.Function):
        @staticmethod
        @lib.amp.custom_fwd(device_type="cpu", **options)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            ctx.seen = (str(a.dtype), lib.is_autocast_enabled("cpu"))
            return a.mm(b)

        @staticmethod
        @lib.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            ctx.seen += (str(grad.dtype), lib.is_autocast_enabled("cpu"))
            return grad.mm(b.t()), a.t().mm(grad)

    return Product


@BOTH
@pytest.mark.parametrize("cast", [None, "float32"])
def test_custom_functions(lib, cast):
    product = product_class(lib, **({"cast_inputs": lib.float32} if cast else {}))
    a, b = lib.ones(2, 2, requires_grad=True), lib.ones(2, 2, requires_grad=True)
    with lib.autocast("cpu"):
        out = product.apply(a, b.bfloat16()) if cast else product.apply(a, b)
    out.sum().backward()
    if cast:
        assert out.grad_fn.seen == ("torch.float32", False, "torch.float32", False)
    else:
        assert out.grad_fn.seen == ("torch.float32", True, "torch.bfloat16", True)
    assert a.grad.dtype is lib.float32 and a.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
