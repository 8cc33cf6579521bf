"""A library with PyTorch's interface, watched: hooks where it has them, patches where it has none.

Hooks: steps of all optimizers, registration of parameters and modules. Patched and put back afterwards: autograd's
backward and grad, zero_grad, clipping, GradScaler, schedulers, DataLoader, modes and copies of modules. Every call
is passed on unchanged: a watched run computes what an unwatched one does. torch_adapter.py and cleargrad_adapter.py
say what the two libraries differ in. Read next: torch_adapter.py.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cleargrad.doctor.observers.modules import Observer
from cleargrad.doctor.patches import Patches
from cleargrad.doctor.places import PACKAGE, caller_place
from cleargrad.doctor.quick_calls import step_hooks, watched_backward, watched_zero

MOST_HANDS = 4096  # lines that set gradients and are remembered until gradients are compared
NODES_BEHIND = 12  # nodes behind a loss that are looked through for a scaler's product


class LibraryObserver(Observer):
    """Observes a library from `attach` to `detach`."""

    engine: str  # the library's name, "torch" or "cleargrad"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.patches = Patches()
        self.forward_patches = Patches()  # those that are there for a while only
        self.hand_patches = Patches()  # these as well
        self.read_patches = Patches()  # and these
        self.inside: set[str] = set()  # calls under way whose inner calls are part of them

    def is_compiling(self) -> bool:
        """Whether a compiler is reading the program, rather than running it."""
        return False

    def is_traced(self) -> bool:
        """The same, for calls that are made thousands of times: only whether a compiler reads this very line."""
        return self.is_compiling()

    def part(self, name: str) -> Any:
        """A module of the library."""
        return importlib.import_module(f"{self.engine}.{name}")

    def attach(self, objects: Iterable[Any]) -> None:
        self.tensor = importlib.import_module(self.engine).Tensor
        self.own_code = (os.path.dirname(sys.modules[self.engine].__file__ or "") + os.sep, PACKAGE)
        self.module = self.part("nn").Module
        self.optimizer = self.part("optim").Optimizer
        self.watch_modules(self.part("nn.modules.module"), self.part("nn").Parameter)
        self.watch_autograd(self.part("autograd"))
        self.watch_optimizers(self.part("optim.optimizer"))
        self.watch_clipping(self.part("nn.utils"))
        self.watch_scaler(self.part("amp").GradScaler)
        self.watch_schedulers(self.part("optim.lr_scheduler"))
        self.watch_loaders(self.part("utils.data.dataloader"))
        self.watch_forward(True)
        self.hands_watched = True
        self.watch_hands(True)
        for thing in objects:
            self.see(thing)

    def detach(self) -> None:
        self.expected = None  # should somebody have wrapped our patches: they count no more
        self.forward_patches.restore()
        self.read_patches.restore()
        self.hand_patches.restore()
        self.patches.restore()

    def onlooks(self, patches: Patches, register: Callable, hook: Callable) -> None:
        """Registers a hook that hears of everything and changes nothing."""
        patches.handle(register(hook))

    def existing(self) -> list[Any]:
        """Models and optimizers that the program has made before the watch began."""
        kinds = with_subclasses(self.part("nn").Module) | with_subclasses(self.part("optim").Optimizer)
        # Objects refer to their classes. A list of all objects would take longer, and hold on to tuples that other
        # threads are just making, which then cannot be finished.
        return [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]

    def see(self, thing: Any) -> None:
        if isinstance(thing, self.module):
            self.module_seen(thing)
        elif isinstance(thing, self.optimizer) and "param_groups" in vars(thing):
            self.optimizer_made(thing)

    # Patches -----------------------------------------------------------------------------------------------

    def watch_autograd(self, autograd: Any) -> None:
        backward, grad = autograd.backward, autograd.grad

        @functools.wraps(grad)
        def watched_grad(*args: Any, **kwargs: Any) -> Any:
            result = grad(*args, **kwargs)
            if self.is_compiling():
                return result
            self.grad_called(bool(kwargs.get("create_graph", args[4] if len(args) > 4 else False)))
            return result

        self.patches.function(backward, watched_backward(self, backward))
        self.patches.function(grad, watched_grad)

    def watch_optimizers(self, module: Any) -> None:
        step_begins, step_ends = step_hooks(self)
        self.onlooks(self.patches, module.register_optimizer_step_pre_hook, step_begins)
        self.onlooks(self.patches, module.register_optimizer_step_post_hook, step_ends)
        self.after(module.Optimizer, "__init__", lambda made, *_: self.optimizer_made(made))
        self.after(module.Optimizer, "add_param_group", self.group_added)
        self.patches.method(
            module.Optimizer, "zero_grad", functools.partial(watched_zero, self, self.zeroed_by_optimizer)
        )

    def group_added(self, optimizer: Any, *_: Any) -> None:
        if id(optimizer) in self.registry.optimizer_numbers.by_id:
            self.optimizer_made(optimizer)

    def watch_clipping(self, utils: Any) -> None:
        for name, how in (("clip_grad_norm_", "norm"), ("clip_grad_value_", "value")):
            self.watch_clip(getattr(utils, name), how)

    def watch_clip(self, clip: Callable, how: str) -> None:
        tensor = self.tensor

        @functools.wraps(clip)
        def watched_clip(parameters: Any, limit: Any = None, *args: Any, **kwargs: Any) -> Any:
            if self.is_compiling():
                return clip(parameters, *(() if limit is None else (limit,)), *args, **kwargs)
            if limit is None:
                limit = kwargs.pop("max_norm" if how == "norm" else "clip_value")
            # A generator would be empty after the first look; PyTorch warns of an empty one, but not of a list.
            given = [parameters] if isinstance(parameters, tensor) else list(parameters)
            self.clip_begin(given)
            passed = given if given or isinstance(parameters, (tensor, list, tuple)) else nothing()
            result = clip(passed, limit, *args, **kwargs)
            self.clip_end(given, how, float(limit))
            return result

        self.patches.function(clip, watched_clip)

    def watch_scaler(self, scaler: Any) -> None:
        def scaled(scaler: Any, outputs: Any, *_: Any) -> None:
            if scaler.is_enabled():
                self.scale_called(scaler, outputs)

        def made(scaler: Any, *_: Any) -> None:
            if scaler.is_enabled():
                self.scaler_made(scaler)

        def updated(scaler: Any, *_: Any) -> None:
            if scaler.is_enabled():
                self.scaler_updated(scaler)

        self.after(scaler, "__init__", made)
        self.after(scaler, "scale", scaled)
        self.after(scaler, "update", updated)
        self.around_scaler(scaler, "unscale_", self.unscale_begin, self.unscale_end)
        self.around_scaler(scaler, "step", self.scaler_step_begin, self.scaler_step_end)

    def around_scaler(self, scaler: Any, name: str, begin: Callable, end: Callable) -> None:
        def make(original: Callable) -> Callable:
            @functools.wraps(original)
            def watched(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                if not self.is_enabled():
                    return original(self, optimizer, *args, **kwargs)
                inner = getattr(optimizer, "optimizer", optimizer)  # Accelerate's wrapper holds the real one
                begin(self, inner)
                try:
                    return original(self, optimizer, *args, **kwargs)
                finally:
                    end(self, inner)

            return watched

        self.patches.method(scaler, name, make)

    def watch_schedulers(self, module: Any) -> None:
        for kind in with_own(module.LRScheduler, "step"):
            self.patches.method(kind, "step", self.watched_scheduler_step)

    def watched_scheduler_step(self, original: Callable) -> Callable:
        inside = self.inside

        @functools.wraps(original)
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            first = getattr(scheduler, "_step_count", 1) == 0  # made by the constructor
            if first or "scheduler" in inside or self.is_compiling():
                return original(scheduler, *args, **kwargs)
            inside.add("scheduler")
            try:
                result = original(scheduler, *args, **kwargs)
            finally:
                inside.discard("scheduler")
            self.scheduler_stepped(scheduler)
            return result

        return step

    def watch_loaders(self, module: Any) -> None:
        def begun(loader: Any, iterator: Any, *_: Any) -> None:
            self.epoch_began(loader, vars(iterator).get("_iterator", iterator))

        def watched_next(original: Callable) -> Callable:
            @functools.wraps(original)
            def fetch(iterator: Any) -> Any:
                try:
                    batch = original(iterator)
                except StopIteration:
                    self.epoch_ended(iterator)
                    raise
                self.batch_fetched(iterator)
                return batch

            return fetch

        self.after(module.DataLoader, "__iter__", begun)
        self.patches.method(module._BaseDataLoaderIter, "__next__", watched_next)

    def watch_modules(self, hooks: Any, parameter: Any) -> None:
        kind = self.module
        self.patches.handle(hooks.register_module_parameter_registration_hook(self.parameter_registered))
        self.patches.handle(hooks.register_module_module_registration_hook(self.submodule_registered))
        self.patches.method(kind, "zero_grad", functools.partial(watched_zero, self, self.zeroed_by_module))
        self.after(kind, "train", self.module_mode_changed, outermost="train")
        self.after(kind, "requires_grad_", self.module_frozen, outermost="freeze")
        self.after(parameter, "requires_grad_", self.parameter_frozen, outermost="freeze")
        self.patches.method(parameter, "requires_grad", self.watched_flag)
        self.after(parameter, "__deepcopy__", lambda old, new, *_: self.parameter_copied(old, new))

        tell = self.module_flagged
        self.patches.method(kind, "requires_grad", lambda _: FlagOfModule(tell), absent_is_fine=True)

    def module_flagged(self, module: Any, flag: bool) -> None:
        self.frozen(list(module.parameters()), bool(flag), False)

    def parameter_frozen(self, tensor: Any, _: Any, args: tuple, kwargs: dict) -> None:
        self.frozen([tensor], bool(kwargs.get("requires_grad", args[0] if args else True)), True)

    def watched_flag(self, original: Any) -> property:
        """`parameter.requires_grad`, heard when it is set."""
        inside, frozen = self.inside, self.frozen

        def change(tensor: Any, flag: bool) -> None:
            original.__set__(tensor, flag)
            if "freeze" not in inside:
                frozen([tensor], bool(flag), True)

        return property(original.__get__, change)

    def watch_forward(self, on: bool) -> None:
        if not on:
            self.forward_patches.restore()
            return
        library = importlib.import_module(self.engine)
        is_grad_enabled, compiling = library.is_grad_enabled, self.is_compiling

        def runs(module: Any, _: Any) -> None:
            if compiling():
                return
            if is_grad_enabled():
                self.forward_ran(module)
            else:
                self.ran_unrecorded(module)

        hooks = self.part("nn.modules.module")
        self.onlooks(self.forward_patches, hooks.register_module_forward_pre_hook, runs)
        for name, how in (("detach", "detach"), ("item", "item"), ("tolist", "item"), ("__float__", "item")):
            self.forward_patches.method(self.tensor, name, functools.partial(self.watched_cut, how))
        self.forward_patches.method(self.tensor, "data", self.watched_data)
        self.forward_patches.function(library.tensor, self.watched_tensor(library.tensor))

    def watch_hands(self, on: bool) -> None:
        if not on:
            self.watch_reads(False)  # which lies above
            self.hand_patches.restore()
            return
        self.hand_patches.method(self.part("nn").Parameter, "grad", self.watched_slot)
        self.hand_patches.method(self.tensor, "zero_", self.watched_zero)
        for name in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad"):
            self.hand_patches.method(self.tensor, name, self.watched_listening)

    def watched_slot(self, original: Any) -> property:
        """`parameter.grad`, whose setting is noted with its line where that is the user's."""
        hands = self.hands

        def change(tensor: Any, grad: Any) -> None:
            original.__set__(tensor, grad)
            place = caller_place(2)
            if place is not None and len(hands) < MOST_HANDS:
                hands[id(tensor)] = place

        return property(original.__get__, change, original.__delete__)

    def watched_listening(self, original: Callable) -> Callable:
        """A method by which the program asks for gradients of a tensor."""

        @functools.wraps(original)
        def listen(tensor: Any, *args: Any) -> Any:
            self.listens = self.listens or not self.calls_itself(2)
            return original(tensor, *args)

        return listen

    def calls_itself(self, depth: int) -> bool:
        """Whether a caller is the watched library's own code, or the doctor's."""
        return sys._getframe(depth).f_code.co_filename.startswith(self.own_code)

    def watch_reads(self, on: bool) -> None:
        self.reads_watched = on
        if on:
            self.read_patches.method(self.part("nn").Parameter, "grad", self.watched_reading)
            self.read_patches.method(self.tensor, "grad", self.watched_reading)
        else:
            self.read_patches.restore()

    def watched_reading(self, original: Any) -> property:
        """`tensor.grad`, of which the line that reads it is noted where that is the user's."""

        def read(tensor: Any) -> Any:
            if not self.calls_itself(2):
                self.has_read = True
                place = caller_place(2)
                if place is not None and self.hand_steps is not None and tensor.requires_grad:
                    self.hand_steps.reads[id(tensor)] = place
            return original.__get__(tensor)

        return property(read, original.__set__, original.__delete__)

    def watched_zero(self, original: Callable) -> Callable:
        hands = self.hands

        @functools.wraps(original)
        def zero(tensor: Any) -> Any:
            place = caller_place(2)
            if place is not None and len(hands) < MOST_HANDS:
                hands[id(tensor)] = self.last_hand = place
            return original(tensor)

        return zero

    def watched_cut(self, how: str, original: Callable) -> Callable:
        @functools.wraps(original)
        def taken_out(tensor: Any) -> Any:
            if tensor.grad_fn is not None or (how == "detach" and tensor.requires_grad):
                self.cut(how, caller_place(2), tensor)
            return original(tensor)

        return taken_out

    def watched_data(self, original: Any) -> property:
        def get(tensor: Any) -> Any:
            if tensor.requires_grad:
                self.cut("data", caller_place(2), tensor)
            return original.__get__(tensor)

        return property(get, original.__set__)

    def watched_tensor(self, original: Callable) -> Callable:
        kind = self.tensor

        @functools.wraps(original)
        def tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
            parts = data if isinstance(data, (list, tuple)) else (data,)
            cut = [part for part in parts if isinstance(part, kind) and part.grad_fn is not None]
            if cut:
                self.cut("tensor", caller_place(2), cut[0])
            elif kwargs.get("requires_grad"):
                self.cut("leaf", caller_place(2))
            return original(data, *args, **kwargs)

        return tensor

    def submodule_registered(self, module: Any, name: str, submodule: Any) -> None:
        self.submodule_seen(module, name, submodule)

    def module_mode_changed(self, module: Any, _: Any, args: tuple, kwargs: dict) -> None:
        self.mode_changed(module, kwargs.get("mode", args[0] if args else True))

    def module_frozen(self, module: Any, _: Any, args: tuple, kwargs: dict) -> None:
        flag = bool(kwargs.get("requires_grad", args[0] if args else True))
        self.frozen(list(module.parameters()), flag, True)

    def after(self, owner: Any, name: str, tell: Callable, outermost: str | None = None) -> None:
        """Patches a method so that `tell(self, result, args, kwargs)` is called after it."""
        inside, compiling = self.inside, self.is_compiling

        def make(original: Callable) -> Callable:
            @functools.wraps(original)
            def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
                if outermost in inside or compiling():
                    return original(self, *args, **kwargs)
                if outermost is None:
                    result = original(self, *args, **kwargs)
                else:
                    inside.add(outermost)
                    try:
                        result = original(self, *args, **kwargs)
                    finally:
                        inside.discard(outermost)
                tell(self, result, args, kwargs)
                return result

            return watched

        self.patches.method(owner, name, make)


def with_own(base: type, name: str) -> list[type]:
    """A class and all classes below it that define a method themselves."""
    return [kind for kind in with_subclasses(base) if name in vars(kind)]


def with_subclasses(base: type) -> set[type]:
    """A class and all classes below it."""
    found: set[type] = set()
    waiting = [base]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += kind.__subclasses__()
    return found


def nodes_behind(root: Any) -> Iterator[Any]:
    """The nodes next to a loss, nearest first: between it and a scaler's product there are few."""
    waiting = [root.grad_fn]
    for node in waiting:
        if node is not None:
            yield node
            if len(waiting) < NODES_BEHIND:
                waiting += [behind for behind, _ in node.next_functions]


def nothing() -> Iterator[Any]:
    """An empty generator: PyTorch warns of one, and of nothing else that is empty."""
    yield from ()


class FlagOfModule:
    """`module.requires_grad = flag` does nothing to the parameters; here it is at least heard."""

    def __init__(self, tell: Callable[[Any, bool], None]) -> None:
        self.tell = tell

    def __get__(self, module: Any, kind: type | None = None) -> Any:
        if type(module).__module__.startswith("torch._dynamo"):
            return None  # the compiler reads whatever `dir` lists
        if module is None or "requires_grad" not in vars(module):
            raise AttributeError("requires_grad")
        return vars(module)["requires_grad"]

    def __set__(self, module: Any, flag: Any) -> None:
        vars(module)["requires_grad"] = flag
        self.tell(module, flag)
