"""Module: parameters, buffers and submodules under one name each, and a forward that uses them.

Hooks stand in nn/hooks.py, the state dictionary in nn/state.py. Read next: nn/modules/container.py.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from cleargrad.autograd.modes import no_grad
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import structure
from cleargrad.core.tensor import Tensor
from cleargrad.core.watch import watch
from cleargrad.errors import error, user_place
from cleargrad.nn import hooks
from cleargrad.nn.hooks import Hooked, call_uncompiled, call_with_hooks
from cleargrad.nn.parameter import Buffer, Parameter, is_lazy
from cleargrad.nn.state import Stateful
from cleargrad.ops.creation import empty_like


def fresh_fields() -> dict[str, Any]:
    """What every module holds from the start."""
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_backward_pre_hooks": OrderedDict(),
        "_backward_hooks": OrderedDict(),
        "_is_full_backward_hook": None,
        "_forward_hooks": OrderedDict(),
        "_forward_hooks_with_kwargs": OrderedDict(),
        "_forward_hooks_always_called": OrderedDict(),
        "_forward_pre_hooks": OrderedDict(),
        "_forward_pre_hooks_with_kwargs": OrderedDict(),
        "_state_dict_hooks": OrderedDict(),
        "_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_post_hooks": OrderedDict(),
        "_modules": {},
    }


def check_moves(t: Tensor, place: devices.device) -> None:
    """Refuses to take values from where there are none."""
    if t.is_meta and place.type != "meta":
        rule = "Cannot copy out of meta tensor; no data!"
        fix = "use to_empty() instead of to() when moving a module from meta to another device"
        raise error(NotImplementedError, "to", rule, fix=fix)


class Module(Hooked, Stateful):
    """Base of all networks and layers: subclasses set parameters and submodules and define forward."""

    dump_patches = False
    call_super_init = False  # whether __init__ goes on to the next class of a multiple inheritance
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if not self.call_super_init and kwargs:
            unknown = next(iter(kwargs))
            rule = f"{name}.__init__() got an unexpected keyword argument '{unknown}'"
            raise error(TypeError, name, rule)
        if not self.call_super_init and args:
            rule = f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            raise error(TypeError, name, rule)
        self.__dict__.update(fresh_fields())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """What the module computes; every subclass defines it."""
        rule = f'Module [{type(self).__name__}] is missing the required "forward" function'
        raise error(NotImplementedError, "forward", rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # Registration ------------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter, or the place of one that is absent."""
        self._check_new("parameter", name, "_parameters")
        structure.version += 1
        if param is not None:
            check_parameter(name, param)
            param = hooks.registered(hooks.global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not trained; without `persistent` the state dictionary leaves it out."""
        self._check_new("buffer", name, "_buffers")
        structure.version += 1
        if tensor is not None and not isinstance(tensor, Tensor):
            rule = (
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
            raise error(TypeError, "register_buffer", rule)
        if tensor is not None:
            tensor = hooks.registered(hooks.global_buffer_registration_hooks, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a submodule under a name."""
        if not isinstance(module, Module) and module is not None:
            raise error(TypeError, "add_module", f"{type(module).__name__} is not a Module subclass")
        self._check_new("module", name, "_modules")
        structure.version += 1
        self._modules[name] = hooks.registered(hooks.global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as add_module."""
        self.add_module(name, module)

    def _check_new(self, kind: str, name: Any, table: str) -> None:
        """A name for a parameter, buffer or module: a string without dots that is not taken."""
        if table not in self.__dict__:
            rule = f"cannot assign {kind} before Module.__init__() call"
            raise error(AttributeError, type(self).__name__, rule, fix="call super().__init__() first")
        op = f"{type(self).__name__}.{kind}"
        if not isinstance(name, str):
            raise error(TypeError, op, f"{kind} name should be a string. Got {type(name).__name__}")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise error(KeyError, op, f"attribute '{name}' already exists")
        if "." in name:
            raise error(KeyError, op, f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise error(KeyError, op, f'{kind} name can\'t be empty string ""')

    # Attributes --------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if "_modules" in fields:  # else Module.__init__ was not called
            if name in (table := fields["_parameters"]):
                return table[name]
            if name in (table := fields["_modules"]):
                return table[name]
            if name in (table := fields["_buffers"]):
                return table[name]
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError(text, name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        structure.version += 1
        fields = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_modules")
            if "_modules" not in fields:
                rule = "cannot assign module before Module.__init__() call"
                raise error(AttributeError, type(self).__name__, rule, fix="call super().__init__() first")
            value = hooks.registered(hooks.global_module_registration_hooks, self, name, value)
            fields["_modules"][name] = value
        elif isinstance(value, Buffer):
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in fields.get("_parameters", ()):
            self._replace("_parameters", name, value, None, "parameter", "torch.nn.Parameter or None")
        elif name in fields.get("_modules", ()):
            self._replace("_modules", name, value, None, "child module", "torch.nn.Module or None")
        elif name in fields.get("_buffers", ()):
            words = "torch.nn.Buffer, torch.Tensor or None"
            self._replace("_buffers", name, value, Tensor, "buffer", words)
        else:
            super().__setattr__(name, value)

    def _replace(self, table: str, name: str, value: Any, kind: type | None, what: str, words: str) -> None:
        """Another value for a registered name: None always, else one of the right kind."""
        if value is not None and (kind is None or not isinstance(value, kind)):
            rule = f"cannot assign '{type(value).__name__}' as {what} '{name}' ({words} expected)"
            raise error(TypeError, type(self).__name__, rule)
        if table == "_buffers" and value is not None:
            value = hooks.registered(hooks.global_buffer_registration_hooks, self, name, value)
        self.__dict__[table][name] = value

    def _forget(self, name: str, kept: str) -> None:
        """Takes a name out of every table but one, so that it stands for one thing."""
        fields = self.__dict__
        fields.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != kept and table in fields:
                fields[table].pop(name, None)
        if kept != "_buffers" and "_non_persistent_buffers_set" in fields:
            fields["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        structure.version += 1
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update({**fresh_fields(), **state})

    # Walking over parts ------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with names."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """The members that a function names in each module, with dotted names."""
        seen = set()
        modules: Iterable[tuple[str, Module]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names, those that are shared once."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters; what an optimizer takes."""
        modules = modules_within(self) if recurse else None
        if modules is None or getattr(self.named_parameters, "__func__", None) is not Module.named_parameters:
            for _, parameter in self.named_parameters(recurse=recurse):
                yield parameter
            return
        seen = set()
        for module in modules:
            for value in module._parameters.values():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise error(
                    AttributeError, "get_submodule", f"{module._get_name()} has no attribute `{name}`"
                )
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise error(AttributeError, "get_submodule", f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path; with `strict` there must be one already."""
        if target == "":
            raise error(ValueError, "set_submodule", "Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            rule = f"`module` is not an nn.Module, found {type(module)}"
            raise error(ValueError, "set_submodule", rule)
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise error(AttributeError, "set_submodule", f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise error(AttributeError, "set_submodule", f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        _, name, value = self._find(target)
        if not isinstance(value, Parameter):
            raise error(AttributeError, "get_parameter", f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        owner, name, value = self._find(target)
        if name not in owner._buffers:
            raise error(AttributeError, "get_buffer", f"`{name}` is not a buffer")
        return value

    def _find(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise error(AttributeError, "get", f"{owner._get_name()} has no attribute `{name}`")
        return owner, name, getattr(owner, name)

    # Changing all of it ------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Calls a function on every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Training mode for dropout, batch norm and the like, here and below."""
        if not isinstance(mode, bool):
            raise error(ValueError, "train", "training mode is expected to be boolean")
        if self.training != mode:
            self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Evaluation mode: the same as train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether gradients are recorded for the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Takes the gradients of all parameters away, or fills them with zeros."""
        if set_to_none:
            watch.cleared = user_place()
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
                continue
            grad = parameter.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Converts every parameter, gradient and buffer with a function; parameters stay the same objects."""
        structure.version += 1
        if recurse:
            for module in self.children():
                module._apply(fn, recurse)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            with no_grad():
                parameter.data = fn(parameter.data if is_lazy(parameter) else parameter)
                if parameter._grad is not None:
                    parameter._grad.data = fn(parameter._grad)
        for name, buffer in self._buffers.items():
            if buffer is not None and is_lazy(buffer):
                buffer.data = fn(buffer.data)
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(
        self,
        *args: Any,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        non_blocking: bool = False,
        tensor: Tensor | None = None,
        memory_format: Any = None,
    ) -> Self:
        """Converts parameters and buffers in place: to a dtype, a device, both as a tensor has them."""
        for arg in args:
            if isinstance(arg, dtypes.dtype):
                dtype = arg
            elif isinstance(arg, Tensor):
                tensor = arg
            elif isinstance(arg, (str, int, devices.device)) and not isinstance(arg, bool):
                device = arg
            elif arg is not None and not isinstance(arg, bool):
                rule = f"expected a dtype, a device or a tensor, got {type(arg).__name__}"
                raise error(TypeError, "to", rule)
        dtype = tensor.dtype if tensor is not None else dtype
        if dtype is not None and dtype.category < dtypes.FLOAT:
            rule = (
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
            raise error(TypeError, "to", rule)
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, "
                "and some modules might not work as expected when using complex tensors as parameters "
                "or buffers.",
                stacklevel=2,
            )
        place = None if device is None else devices.device(device)

        def convert(t: Tensor) -> Tensor:
            if place is not None:
                check_moves(t, devices.check(place))
                t = t.to(place)
            if memory_format is not None and t.dim() in (4, 5):
                t = t.contiguous(memory_format=memory_format)
            return t.to(dtype) if dtype is not None and t.dtype.category >= dtypes.FLOAT else t

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """New memory on a device, without its values."""
        return self._apply(lambda t: empty_like(t, device=devices.check(device)), recurse=recurse)

    def type(self, dst_type: Any) -> Self:
        """Every parameter and buffer as one type."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Floating-point parameters and buffers as float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Floating-point parameters and buffers as float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Floating-point parameters and buffers as float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Floating-point parameters and buffers as bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """Parameters and buffers on the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Parameters and buffers on a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self) -> Self:
        """Moves parameters and buffers to memory that processes started later see as well."""
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles this module's call in place, as torch.compile does for a copy."""
        import importlib

        compiler = importlib.import_module("cleargrad.compile")
        self.__dict__["_compiled_call_impl"] = compiler.compile(self._call_impl, *args, **kwargs)
        self._hooked = True

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call as it is without compilation."""
        return call_uncompiled(self, args, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}

    # Text --------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses of the module's text; to be overridden."""
        return ""

    def __repr__(self) -> str:
        text = self.extra_repr()
        extra = text.split("\n") if text else []
        children = [f"({name}): {indented(repr(module), 2)}" for name, module in self._modules.items()]
        if len(extra) == 1 and not children:
            return f"{self._get_name()}({extra[0]})"
        if not extra and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra + children) + "\n)"

    def _repr_html_(self) -> str:
        """What a notebook shows: one row per module, with the number of its own parameters."""
        from cleargrad import notebook

        rows, size = [], 0
        seen: set[int] = set()
        for path, module in self.named_modules():
            # A parameter that two modules share is counted where it is met first.
            own = [
                p
                for p in module._parameters.values()
                if p is not None and not is_lazy(p) and id(p) not in seen
            ]
            seen.update(map(id, own))
            size += sum(p.nbytes for p in own)
            depth = path.count(".") + 1 if path else 0
            text = f"{module._get_name()}({module.extra_repr()})"
            counts = [
                sum(p.numel() for p in own if p.requires_grad or not wanted) for wanted in (False, True)
            ]
            rows.append((depth, path.rpartition(".")[2], text, *counts))
        return notebook.module(rows, size)


def modules_within(root: Module) -> list[Module] | None:
    """A module and all below it, in the order of `named_modules`; None if one of them has its own way to walk."""
    found: dict[Module, None] = {}
    return [*found] if walk_modules(root, found) else None


def walk_modules(module: Module, found: dict[Module, None]) -> bool:
    """Adds a module and all below it. A function of its own: a closure that calls itself would keep them alive."""
    if module in found:
        return True
    if getattr(module.named_modules, "__func__", None) is not Module.named_modules:
        return False
    found[module] = None
    return all(walk_modules(each, found) for each in module._modules.values() if each is not None)


def indented(text: str, spaces: int) -> str:
    """A text whose lines behind the first stand further right."""
    return text.replace("\n", "\n" + " " * spaces)


def check_parameter(name: str, param: Any) -> None:
    if not isinstance(param, Parameter):
        rule = (
            f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
            "(torch.nn.Parameter or None required)"
        )
        raise error(TypeError, "register_parameter", rule)
    if not is_lazy(param) and param.grad_fn is not None:
        rule = f"Cannot assign non-leaf Tensor to parameter '{name}'. It must be created explicitly"
        fix = f"to express '{name}' as a function of another Tensor, compute the value in forward()"
        raise error(ValueError, "register_parameter", rule, fix=fix)
