"""torch.func: derivatives of functions as functions, and modules as functions of their parameters.

Arguments and results may be dictionaries, lists and tuples of tensors. All of it is built on autograd.grad;
`vmap` runs the function once per element and stacks. Read next: utils/checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cleargrad import autograd
from cleargrad.autograd.modes import enable_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.nn.utils.stateless import call_with, merged
from cleargrad.ops.joining import stack

# Trees of tensors ------------------------------------------------------------------------------------------


def leaves_of(tree: Any) -> list:
    """The tensors (and other things) in nested dictionaries, lists and tuples, in order."""
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in leaves_of(part)]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [tree]


def mapped(function: Callable, tree: Any, *others: Any) -> Any:
    """A tree of the same form, made leaf by leaf."""
    if isinstance(tree, dict):
        return type(tree)((key, mapped(function, tree[key], *[o[key] for o in others])) for key in tree)
    if isinstance(tree, (list, tuple)):
        parts = [mapped(function, *zipped) for zipped in zip(tree, *others, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree, *others)


def filled(tree: Any, leaves: Sequence) -> Any:
    """A tree of this form with other leaves."""
    queue = iter(leaves)
    return mapped(lambda _: next(queue), tree)


def needs_grad(trees: Any) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves_of(trees))


def fresh(x: Any) -> Any:
    """A tensor that gradients can be asked for; inside another derivative it stays tied to that one."""
    if not isinstance(x, Tensor):
        return x
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_(True)


# Derivatives -----------------------------------------------------------------------------------------------


def chosen(name: str, args: tuple, argnums: int | tuple[int, ...]) -> tuple[list[int], Any]:
    """The positions to differentiate by, and those arguments: one, or a tuple."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if any(not -len(args) <= number < len(args) for number in numbers):
        raise error(RuntimeError, name, f"got argnums={argnums}, but only {len(args)} positional inputs")
    numbers = [number % len(args) for number in numbers]
    return numbers, args[numbers[0]] if isinstance(argnums, int) else tuple(args[n] for n in numbers)


def run(
    name: str, func: Callable, args: tuple, kwargs: dict, argnums: Any, has_aux: bool
) -> tuple[Any, list, Any, Any]:
    """The function at fresh arguments: the tree of those, its leaves, the output and the rest of it."""
    numbers, tree = chosen(name, args, argnums)
    tree = mapped(fresh, tree)
    parts = (tree,) if isinstance(argnums, int) else tree
    given = list(args)
    for number, part in zip(numbers, parts, strict=True):
        given[number] = part
    output = func(*given, **kwargs)
    aux = None
    if has_aux:
        if not isinstance(output, tuple) or len(output) != 2:
            raise error(RuntimeError, name, "with has_aux=True the function must return (output, aux)")
        output, aux = output
    return tree, leaves_of(tree), output, aux


def slopes(outputs: list, leaves: list, vectors: list | None, create: bool) -> list:
    """Gradients of some outputs, zeros where nothing depends on a leaf."""
    live = [k for k, out in enumerate(outputs) if out.requires_grad]
    if not live:
        return [leaf.new_zeros(leaf.shape) for leaf in leaves]
    starts = None if vectors is None else [vectors[k] for k in live]
    found = autograd.grad(
        [outputs[k] for k in live], leaves, starts, retain_graph=True, create_graph=create, allow_unused=True
    )
    return [leaf.new_zeros(leaf.shape) if g is None else g for g, leaf in zip(found, leaves, strict=True)]


def released(tree: Any, nested: bool) -> Any:
    """What leaves a derivative: tied to the derivative around it, or to nothing."""
    return tree if nested else mapped(lambda x: x.detach() if isinstance(x, Tensor) else x, tree)


def grad_and_value(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """The function that returns the gradient of a scalar function, and its value."""

    def derivative(*args: Any, **kwargs: Any) -> tuple:
        nested = needs_grad((args, kwargs))
        with enable_grad():
            tree, leaves, output, aux = run("grad", func, args, kwargs, argnums, has_aux)
            if not isinstance(output, Tensor):
                rule = f"expected f(*args) to return only a Tensor, got {type(output).__name__}"
                raise error(RuntimeError, "grad", rule)
            if output.dim() != 0:
                raise error(
                    RuntimeError, "grad", "expected f(*args) to return a scalar tensor", output=output
                )
            grads = filled(tree, slopes([output], leaves, None, nested))
        value = (output, aux) if has_aux else output
        return released(grads, nested), released(value, nested)

    return derivative


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """The function that returns the gradient of a scalar function."""
    both = grad_and_value(func, argnums, has_aux)

    def derivative(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return derivative


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """The output, and the function that pulls vectors back through func (and aux)."""
    nested = needs_grad(primals)
    with enable_grad():
        tree, leaves, output, aux = run("vjp", func, primals, {}, tuple(range(len(primals))), has_aux)
    outputs = leaves_of(output)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> tuple:
        vectors = leaves_of(cotangents)
        inside = nested or needs_grad(vectors)
        with enable_grad():
            return released(filled(tree, slopes(outputs, leaves, vectors, inside)), inside)

    shown = released(output, nested)
    return (shown, pull, released(aux, nested)) if has_aux else (shown, pull)


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """The output, and the derivative of func in the direction of the tangents (and aux)."""
    nested = needs_grad((primals, tangents))
    with enable_grad():
        _, leaves, output, aux = run("jvp", func, tuple(primals), {}, tuple(range(len(primals))), has_aux)
        outputs = leaves_of(output)
        # The vjp is linear in its vectors: its own derivative by them, along the tangents, is the jvp.
        vectors = [out.new_zeros(out.shape).requires_grad_(True) for out in outputs]
        pulled = slopes(outputs, leaves, vectors, True)
        moved = slopes(
            pulled, vectors, [t.detach() if not nested else t for t in leaves_of(tangents)], nested
        )
    result = released(output, nested), released(filled(output, moved), nested)
    return (*result, released(aux, nested)) if has_aux else result


def jacrev(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """The function that returns the Jacobian, for each output and input of shape (*output, *input)."""

    def derivative(*args: Any, **kwargs: Any) -> Any:
        nested = needs_grad((args, kwargs))
        with enable_grad():
            tree, leaves, output, aux = run("jacrev", func, args, kwargs, argnums, has_aux)
            found = mapped(lambda out: filled(tree, rows_of(out, leaves, nested)), output)
        return (released(found, nested), released(aux, nested)) if has_aux else released(found, nested)

    return derivative


def rows_of(out: Tensor, leaves: list, create: bool) -> list:
    """The Jacobian of one output by every leaf: one gradient for each element."""
    rows = [slopes([element], leaves, None, create) for element in out.reshape(-1).unbind(0)]
    if not rows:
        return [leaf.new_zeros((*out.shape, *leaf.shape)) for leaf in leaves]
    columns = zip(*rows, strict=True)
    return [stack(list(c)).reshape(*out.shape, *leaf.shape) for c, leaf in zip(columns, leaves, strict=True)]


def jacfwd(
    func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """The same as jacrev; it differs in cost only."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that returns the Hessian: the Jacobian of the Jacobian."""
    return jacrev(jacrev(func, argnums), argnums)


def linearize(func: Callable, *primals: Any) -> tuple:
    """The output at the primals, and the function that maps tangents to the derivative along them."""
    output = func(*primals)
    return output, lambda *tangents: jvp(func, primals, tangents)[1]


# One call per element --------------------------------------------------------------------------------------


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """The function over one more dimension: called for each element along `in_dims`, results stacked."""
    if randomness not in ("error", "different", "same"):
        rule = f"expected randomness to be 'error', 'different' or 'same', got {randomness!r}"
        raise error(RuntimeError, "vmap", rule)

    def batched(*args: Any, **kwargs: Any) -> Any:
        dims = dims_for(in_dims, args)
        sizes = {
            x.shape[dim] for x, dim in zip(leaves_of(args), leaves_of(dims), strict=True) if dim is not None
        }
        if not sizes:
            raise error(ValueError, "vmap", "at least one input must have a dimension to map over")
        if len(sizes) > 1:
            raise error(
                ValueError, "vmap", f"expected all mapped dimensions to have one size, got {sorted(sizes)}"
            )

        def at(position: int) -> Any:
            def pick(x: Any, dim: int | None) -> Any:
                return x if dim is None else x.select(dim, position)

            named = mapped(lambda x: x[position] if isinstance(x, Tensor) else x, kwargs)
            return func(*mapped(pick, args, dims), **named)

        results = [at(position) for position in range(sizes.pop())]
        if not results:
            raise error(RuntimeError, "vmap", "got an empty dimension to map over")
        dims = dims_for(out_dims, results[0])
        return mapped(
            lambda dim, *parts: parts[0] if dim is None else stack(list(parts), dim), dims, *results
        )

    return batched


def dims_for(dims: Any, tree: Any) -> Any:
    """Dimensions in the form of `tree`, from a form that may stop early; None for what is no tensor."""
    if isinstance(dims, int) or dims is None:
        return mapped(lambda x: dims if isinstance(x, Tensor) else None, tree)
    if isinstance(tree, dict):
        return {key: dims_for(dims[key], tree[key]) for key in tree}
    if not isinstance(tree, (list, tuple)):
        return dims[0]
    if len(dims) != len(tree):
        raise error(ValueError, "vmap", f"in_dims or out_dims has {len(dims)} entries for {len(tree)} values")
    return type(tree)(dims_for(dim, part) for dim, part in zip(dims, tree, strict=True))


# Modules as functions --------------------------------------------------------------------------------------


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with the given tensors in place of its parameters and buffers."""
    return call_with(module, merged(parameter_and_buffer_dicts), args, kwargs, tie_weights, strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several models of one kind, stacked: for vmap over models."""
    models = list(models)
    if not models:
        raise error(RuntimeError, "stack_module_state", "Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        rule = "Expected all models to have the same training/eval mode."
        raise error(RuntimeError, "stack_module_state", rule)
    if len({type(model) for model in models}) > 1:
        raise error(RuntimeError, "stack_module_state", "Expected all models to be of the same class.")

    def stacked(tables: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        found = {}
        for name, first in tables[0].items():
            found[name] = (
                stack([table[name] for table in tables]).detach().requires_grad_(first.requires_grad)
            )
        return found

    parameters = stacked([dict(model.named_parameters()) for model in models])
    return parameters, stacked([dict(model.named_buffers()) for model in models])


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Lets batch norms use the batch's statistics alone, so that a call changes no buffer."""
    from cleargrad.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
