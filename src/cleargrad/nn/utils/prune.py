"""torch.nn.utils.prune: parts of a module's tensor set to zero, by a mask that a hook applies before forward.

Pruning `weight` leaves three things on the module: the parameter `weight_orig`, the buffer `weight_mask` and the
attribute `weight`, their product. A method says which elements go; several on one tensor are kept together in a
PruningContainer. Read next: nn/utils/parametrize.py, which is the newer way to compute a weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.nn.utils.convert_parameters import parameters_to_vector
from cleargrad.ops.conversion import contiguous_format
from cleargrad.ops.creation import ones_like, zeros_like
from cleargrad.ops.random_tensors import rand, rand_like

# Methods ---------------------------------------------------------------------------------------------------


class BasePruningMethod(ABC):
    """A way to choose elements. A subclass gives `compute_mask` and says of which kind its choice is."""

    _tensor_name: str
    PRUNING_TYPE: str  # "unstructured", "structured" or "global"

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for `t`: zeros where elements go, of those that `default_mask` still has."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor, from the original and the mask that `apply` put on the module."""
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prunes a tensor of a module, on top of what was pruned before; scores stand in for its values."""
        earlier = take_method(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if earlier is not None:
            container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            rule = f"importance_scores should have the same shape as parameter {name}"
            raise error(AssertionError, "prune", rule, scores=importance_scores, parameter=original)
        if earlier is None:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            before = ones_like(original)
        else:
            before = getattr(module, name + "_mask").detach().clone(memory_format=contiguous_format)
        try:
            mask = method.compute_mask(importance_scores, default_mask=before)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if earlier is None:
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A pruned copy of a tensor that belongs to no module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            rule = "importance_scores should have the same shape as tensor t"
            raise error(AssertionError, "prune", rule, scores=importance_scores, t=t)
        before = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Makes the pruned values the parameter's own, and takes mask and original off the module."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        original.data = pruned.data  # type: ignore[union-attr]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """The methods that pruned one tensor, in order; the last one chooses among what the others left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        if not isinstance(method, BasePruningMethod):
            raise error(TypeError, "prune", f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            rule = "a container holds the methods of one tensor"
            raise error(ValueError, "prune", rule, container=self._tensor_name, method=method._tensor_name)
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method = self._pruning_methods[-1]
        left = self.left_by(method, default_mask)
        mask = default_mask.to(dtype=t.dtype).clone()
        chosen = method.compute_mask(t[left], default_mask=default_mask[left])
        mask[left] = chosen.to(dtype=mask.dtype)
        return mask

    def left_by(self, method: BasePruningMethod, mask: Tensor) -> Any:
        """What a method may choose from: elements that are left, slices of which something is left, or all."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        whole: list[Any] = [slice(None)] * mask.dim()
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % mask.dim()  # type: ignore[attr-defined]
            whole[dim] = mask.sum(dim=[k for k in range(mask.dim()) if k != dim]) != 0
        elif method.PRUNING_TYPE != "global":
            raise error(ValueError, "prune", f"unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        return tuple(whole)


class Identity(BasePruningMethod):
    """Prunes nothing, but sets up the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class Unstructured(BasePruningMethod):
    """Single elements: the `amount` of them with the smallest rank go."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        check_amount(amount)
        self.amount = amount

    @abstractmethod
    def choose(self, t: Tensor, count: int) -> Tensor:
        """The places of the elements that go, in the flattened tensor."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = number_to_prune(self.amount, t.numel())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            mask.view(-1)[self.choose(t, count)] = 0
        return mask


class RandomUnstructured(Unstructured):
    """Elements at random."""

    def choose(self, t: Tensor, count: int) -> Tensor:
        return rand_like(t).view(-1).topk(count).indices


class L1Unstructured(Unstructured):
    """The elements nearest to zero."""

    def choose(self, t: Tensor, count: int) -> Tensor:
        return t.abs().view(-1).topk(count, largest=False).indices


class Structured(BasePruningMethod):
    """Whole slices along `dim`, such as the channels of a convolution."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        check_amount(amount)
        self.amount = amount
        self.dim = dim

    @abstractmethod
    def keep(self, t: Tensor, count: int) -> Tensor:
        """The slices that stay when `count` go, as indices or as a mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        check_structured(t, self.dim)
        count = number_to_prune(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        kept: list[Any] = [slice(None)] * t.dim()
        kept[self.dim] = self.keep(t, count)
        mask = zeros_like(t)
        mask[tuple(kept)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(Structured):
    """Slices at random."""

    def keep(self, t: Tensor, count: int) -> Tensor:
        ranks = rand(t.shape[self.dim])
        return ranks > ranks.kthvalue(count).values


class LnStructured(Structured):
    """The slices with the smallest norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def keep(self, t: Tensor, count: int) -> Tensor:
        dims = [k for k in range(t.dim()) if k != self.dim % t.dim()]
        norms = t.norm(p=self.n, dim=dims)
        return norms.topk(t.shape[self.dim] - count).indices


class CustomFromMask(BasePruningMethod):
    """A mask of the caller's."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            rule = "the mask must have the shape of the tensor"
            raise error(AssertionError, "prune", rule, mask=self.mask, tensor=default_mask)
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# Functions -------------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Sets up mask and original without pruning anything."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes a share (float) or a number (int) of elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the elements nearest to zero."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the slices along `dim` with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes where the mask is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several tensors as if they were one."""
    if not isinstance(parameters, Iterable):
        raise error(TypeError, "global_unstructured", "global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        rule = "global_unstructured(): importance_scores must be of type dict"
        raise error(TypeError, "global_unstructured", rule)
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        rule = "Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`."
        raise error(TypeError, "global_unstructured", rule, found=method.PRUNING_TYPE)
    method._tensor_name = "all"
    tensors = [getattr(module, name) for module, name in pairs]
    ranks = [scores.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask", ones_like(tensor))
        for (module, name), tensor in zip(pairs, tensors, strict=True)
    ]
    container = PruningContainer(method)
    mask = container.compute_mask(parameters_to_vector(ranks), parameters_to_vector(masks))
    start = 0
    for (module, name), tensor in zip(pairs, tensors, strict=True):
        custom_from_mask(module, name, mask=mask[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def remove(module: Module, name: str) -> Module:
    """Ends the pruning of a tensor: the pruned values become the parameter's own."""
    method = take_method(module, name)
    if method is None:
        rule = f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        raise error(ValueError, "prune.remove", rule)
    method.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a tensor of the module or of one in it is pruned."""
    hooks = (hook for part in module.modules() for hook in part._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


# What they share -------------------------------------------------------------------------------------------


def take_method(module: Module, name: str) -> BasePruningMethod | None:
    """Takes the hook that prunes a tensor off its module; None when there is none."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            del module._forward_pre_hooks[number]
            return hook
    return None


def check_amount(amount: Any) -> None:
    """A share between 0 and 1, or a number of elements."""
    if not isinstance(amount, Real):
        raise error(TypeError, "prune", f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, Integral) and float(amount) > 1.0):
        rule = f"amount={amount} should either be a float in the range [0.0, 1.0] or a non-negative integer"
        raise error(ValueError, "prune", rule)


def number_to_prune(amount: Any, size: int) -> int:
    if not isinstance(amount, Integral):
        return round(amount * size)
    if int(amount) > size:
        rule = f"amount={amount} should be smaller than the number of parameters to prune={size}"
        raise error(ValueError, "prune", rule)
    return int(amount)


def check_structured(t: Tensor, dim: int) -> None:
    if t.dim() <= 1:
        rule = "Structured pruning can only be applied to multidimensional tensors."
        raise error(ValueError, "prune", rule, tensor=t)
    if dim >= t.dim():
        raise error(IndexError, "prune", f"Invalid index {dim} for tensor of size {tuple(t.shape)}", tensor=t)
