"""Mistakes that training loops are known for, and what each does."""

import torch
from torch import nn, optim

torch.manual_seed(9)


def attempt(name, function):
    try:
        print(f"{name}: {function()}")
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        kinds = (RuntimeError, TypeError, ValueError, AttributeError, IndexError)
        print(f"{name}: {[kind.__name__ for kind in kinds if isinstance(error, kind)]}")


def backward_twice():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    loss.backward()


def backward_twice_retained():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return x.grad


def hidden_state_not_detached():
    cell, state = nn.RNNCell(2, 2), torch.zeros(1, 2)
    for _ in range(2):
        state = cell(torch.ones(1, 2), state)
        state.sum().backward()


def changed_after_use():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def detached():
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).detach().sum().backward()


def with_item():
    loss = nn.Linear(2, 1)(torch.ones(1, 2)).sum().item()
    loss.backward()


def stale_optimizer():
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    model.weight = nn.Parameter(torch.ones(1, 2))
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model.weight


def step_before_backward():
    weight = nn.Parameter(torch.ones(2))
    optimizer = optim.Adam([weight], lr=1.0)
    optimizer.step()
    return weight, len(optimizer.state)


def cleared_between_backward_and_step():
    weight = nn.Parameter(torch.ones(2))
    optimizer = optim.SGD([weight], lr=1.0)
    weight.sum().backward()
    optimizer.zero_grad()
    optimizer.step()
    return weight


def frozen_layer():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    model(torch.ones(1, 2)).sum().backward()
    return [p.grad is None for p in model.parameters()]


def dropout_left_on():
    model = nn.Dropout(0.5)
    return model(torch.ones(6)), model.eval()(torch.ones(6))


def broadcast_loss():
    return nn.functional.l1_loss(torch.arange(3.0).view(3, 1), torch.arange(3.0).view(3, 1)), torch.arange(
        3.0
    ) - (torch.arange(3.0).view(3, 1))


attempt("backward twice", backward_twice)
attempt("backward twice, retained", backward_twice_retained)
attempt("hidden state not detached", hidden_state_not_detached)
attempt("changed after use", changed_after_use)
attempt("detached", detached)
attempt("with item", with_item)
attempt("backward of a vector", lambda: torch.ones(3, requires_grad=True).exp().backward())
attempt("in place on a leaf", lambda: torch.ones(3, requires_grad=True).add_(1))
attempt("stale optimizer", stale_optimizer)
attempt("step before backward", step_before_backward)
attempt("cleared between backward and step", cleared_between_backward_and_step)
attempt("frozen layer", frozen_layer)
attempt("dropout left on", dropout_left_on)
attempt("broadcast loss", broadcast_loss)
attempt("wrong shape", lambda: nn.Linear(3, 2)(torch.ones(4, 4)))
attempt("wrong dtype", lambda: nn.Linear(3, 2)(torch.ones(4, 3, dtype=torch.int64)))
attempt("class out of range", lambda: nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 3])))
attempt("float classes", lambda: nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0.0, 1.0])))
attempt("no parameters", lambda: optim.SGD([], lr=0.1))
attempt("not a leaf", lambda: optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1))
attempt("negative lr", lambda: optim.Adam([nn.Parameter(torch.ones(2))], lr=-1.0))
attempt("None is no number", lambda: nn.Parameter(torch.ones(2)).grad.norm())
attempt("truth of a vector", lambda: bool(torch.ones(2)))
attempt("numpy of a graph", lambda: torch.ones(2, requires_grad=True).numpy())
