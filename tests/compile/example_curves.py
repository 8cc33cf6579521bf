"""Runs an example with `--compile` and prints the losses of its steps, one per line, after all that it prints.

    cleargrad run tests/compile/example_curves.py HOW EXAMPLE [ARGUMENTS...]

HOW is "compiled"; or "eager", where the steps that are to be compiled run as they are; or "rounded", which is eager
with one weight changed by the smallest amount there is: what training makes of that is what rounding may do.
tests/compile/test_examples.py compares the losses.
"""

import gc
import runpy
import sys

import numpy as np
import torch

import cleargrad

MARK = "losses of the steps"
true_compile = torch.compile
losses = []
functions = []


def note(result):
    """The loss is the first tensor of a step's result; of a network's output, the sum."""
    first = result[0] if isinstance(result, tuple) else result
    if first is not None:
        losses.append(first.detach().double().sum().item())
    return result


def disturb():
    """The first element of some weight moves by one unit in its last place, of the dtype that is computed in."""
    tensors = (thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor))
    weight = next(t for t in tensors if t.requires_grad and t.is_leaf and t.dim() > 1)
    first = weight.detach().numpy().reshape(-1)[:1]
    units = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
    first *= 1 + next((units[word] for word in sys.argv if word in units), np.finfo(first.dtype).eps)


def compile_as(how):
    def compile(function):
        if how == "rounded" and not functions:
            disturb()
        functions.append(true_compile(function) if how == "compiled" else function)
        step = functions[-1]
        if isinstance(function, torch.nn.Module):
            step.register_forward_hook(lambda module, args, result: note(result))
            return step
        return lambda *args: note(step(*args))

    return compile


def programs(function):
    """How many programs a compiled function or module has become."""
    compiled = function.__dict__.get("_compiled", function)
    return len(compiled.programs)


how, script, *arguments = sys.argv[1:]
torch.compile = cleargrad.compile = compile_as(how)  # one example asks for cleargrad by name
sys.argv = [script, *arguments, "--compile"]
runpy.run_path(script, run_name="__main__")
if how == "compiled":
    assert all(map(programs, functions)), "nothing was compiled"
print(MARK)
print("\n".join(map(repr, losses)))
