"""Correct programs, however unusual, stay without a word, on both engines."""

from __future__ import annotations

import pytest

from tests.doctor.programs import ENGINES, examine, found

GAN = """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_G = torch.optim.Adam(G.parameters(), lr=0.01)
opt_D = torch.optim.Adam(D.parameters(), lr=0.01)
def judged(z, target):
    return ((D(z) - target) ** 2).mean()
"""

CORRECT = {
    "the usual loop": """
        for _ in range(4):
            optimizer.zero_grad()
            loss_of(model).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """,
    "zero_grad at the end of the loop": """
        for _ in range(4):
            loss_of(model).backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "model.zero_grad to zeros": """
        for _ in range(4):
            model.zero_grad(set_to_none=False)
            loss_of(model).backward()
            optimizer.step()
        """,
    "gradients set to None by hand": """
        for _ in range(4):
            for p in model.parameters():
                p.grad = None
            loss_of(model).backward()
            optimizer.step()
        """,
    "gradients zeroed by hand, old style": """
        for _ in range(40):
            loss_of(model).backward()
            optimizer.step()
            for p in model.parameters():
                p.grad.data.zero_()
        """,
    "gradients zeroed in place": """
        for _ in range(4):
            loss_of(model).backward()
            optimizer.step()
            for p in model.parameters():
                p.grad.zero_()
        """,
    "accumulation": """
        for i in range(12):
            (loss_of(model) / 4).backward()
            if (i + 1) % 4 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        """,
    "accumulation with its tail stepped": """
        loader = data.DataLoader(data.TensorDataset(torch.randn(14, 4), torch.randn(14, 1)), batch_size=2)
        for epoch in range(3):
            for i, (a, b) in enumerate(loader):
                (loss_of(model, a, b) / 3).backward()
                if (i + 1) % 3 == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
        """,
    "accumulation with its tail stepped after the loop": """
        loader = data.DataLoader(data.TensorDataset(torch.randn(14, 4), torch.randn(14, 1)), batch_size=2)
        for epoch in range(3):
            for i, (a, b) in enumerate(loader):
                (loss_of(model, a, b) / 3).backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "sum of losses, then gradients divided": """
        for _ in range(3):
            optimizer.zero_grad()
            for k in range(4):
                loss_of(model).backward()
            for p in model.parameters():
                p.grad /= 4
            optimizer.step()
        """,
    "two steps per iteration, each with its own backward": """
        for _ in range(3):
            for k in range(2):
                optimizer.zero_grad()
                loss_of(model).backward()
                optimizer.step()
        """,
    "LBFGS": """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss
        for _ in range(3):
            optimizer.step(closure)
        """,
    "a closure for SGD": """
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss
        for _ in range(3):
            optimizer.step(closure)
        """,
    "SAM": """
        def both():
            optimizer.zero_grad()
            loss_of(model).backward()
        for _ in range(5):
            both()
            with torch.no_grad():
                moves = [p.grad * 0.05 for p in model.parameters()]
                for p, e in zip(model.parameters(), moves): p.add_(e)
            both()
            with torch.no_grad():
                for p, e in zip(model.parameters(), moves): p.sub_(e)
            optimizer.step()
        """,
    "PCGrad: gradients assigned": """
        for _ in range(3):
            grads = []
            for task in range(2):
                optimizer.zero_grad()
                loss_of(model).backward()
                grads.append([p.grad.clone() for p in model.parameters()])
            for p, a, b in zip(model.parameters(), *grads):
                p.grad = a + b
            optimizer.step()
        """,
    "gradients from autograd.grad": """
        for _ in range(3):
            grads = torch.autograd.grad(loss_of(model), list(model.parameters()))
            for p, g in zip(model.parameters(), grads):
                p.grad = g
            optimizer.step()
        """,
    "MAML": """
        for _ in range(3):
            optimizer.zero_grad()
            w = model[0].weight
            (g,) = torch.autograd.grad((F.linear(x, w, model[0].bias) ** 2).mean(), (w,), create_graph=True)
            (model[2](torch.tanh(F.linear(x, w - 0.1 * g, model[0].bias))) ** 2).mean().backward()
            optimizer.step()
        """,
    "one optimizer per layer": """
        optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model[0], model[2])]
        for _ in range(3):
            for o in optimizers: o.zero_grad()
            loss_of(model).backward()
            for o in optimizers: o.step()
        """,
    "optimizer in a backward hook": """
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
        def step_and_clear(p):
            optimizers[p].step()
            optimizers[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step_and_clear)
        for _ in range(3):
            loss_of(model).backward()
        """,
    "attack on inputs": """
        for _ in range(4):
            images = x.clone().requires_grad_()
            for k in range(3):
                loss_of(model, images).backward()
                images = (images + 0.01 * images.grad.sign()).detach().requires_grad_()
                model.zero_grad()
            optimizer.zero_grad()
            loss_of(model, images.detach()).backward()
            optimizer.step()
        """,
    "FGM": """
        for _ in range(4):
            optimizer.zero_grad()
            loss_of(model).backward()
            kept = model[0].weight.data.clone()
            model[0].weight.data.add_(0.1 * model[0].weight.grad)
            loss_of(model).backward()
            model[0].weight.data = kept
            optimizer.step()
        """,
    "PGD on weights": """
        for _ in range(4):
            loss_of(model).backward()
            kept = model[0].weight.data.clone()
            grads = [p.grad.clone() for p in model.parameters()]
            for t in range(3):
                model[0].weight.data.add_(0.1 * model[0].weight.grad)
                if t != 2:
                    model.zero_grad()
                else:
                    for p, g in zip(model.parameters(), grads): p.grad = g
                loss_of(model).backward()
            model[0].weight.data = kept
            optimizer.step()
            model.zero_grad()
        """,
    "moving average of weights": """
        import copy
        average = copy.deepcopy(model)
        for _ in range(4):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters()):
                    a.mul_(0.9).add_(p, alpha=0.1)
        """,
    "hand-written SGD": """
        for _ in range(4):
            loss_of(model).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
        """,
    "validation loop": """
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                loss_of(model).item()
        """,
    "retain_graph": """
        for _ in range(3):
            optimizer.zero_grad()
            out = model(x)
            out.mean().backward(retain_graph=True)
            (out ** 2).mean().backward()
            optimizer.step()
        """,
    "weight tying": """
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
                self.b.weight = self.a.weight
            def forward(self, x):
                return self.b(torch.tanh(self.a(x)))
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
        """,
    "unfreezing with add_param_group": """
        for p in model[0].parameters(): p.requires_grad = False
        optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
        for i in range(6):
            if i == 3:
                for p in model[0].parameters(): p.requires_grad = True
                optimizer.add_param_group({"params": list(model[0].parameters())})
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        """,
    "frozen parameters handed to the optimizer": """
        for p in model[0].parameters(): p.requires_grad = False
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(4):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        """,
    "experts, each with an optimizer": """
        experts = [nn.Linear(4, 1) for _ in range(3)]
        optimizers = [torch.optim.SGD(e.parameters(), lr=0.1) for e in experts]
        for i in range(9):
            for o in optimizers: o.zero_grad()
            loss_of(experts[i % 3]).backward()
            for o in optimizers: o.step()
        """,
    "GradScaler": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
        for _ in range(4):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """,
    "GradScaler that skips its first steps": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 127)
        for _ in range(8):
            optimizer.zero_grad()
            scaler.scale(loss_of(model) * 4).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    "GradScaler with accumulation": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 4)
        for i in range(8):
            (scaler.scale(loss_of(model)) / 4).backward()
            if (i + 1) % 4 == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """,
    "one GradScaler, two optimizers": """
        other = nn.Linear(4, 1)
        opt = torch.optim.SGD(other.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 4)
        for i in range(4):
            optimizer.zero_grad(); opt.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
            scaler.scale(loss_of(other)).backward()
            scaler.step(opt)
            scaler.update()
        """,
    "a disabled GradScaler": """
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """,
    "the norm for a log, after the step": """
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        """,
    "a step before training, to please a scheduler": """
        optimizer.zero_grad()
        optimizer.step()
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        """,
    "bad batches left out": """
        for i in range(12):
            optimizer.zero_grad()
            loss_of(model).backward()
            if i % 5 == 1:
                continue
            optimizer.step()
        """,
    "a wrapper around an optimizer": """
        class Lookahead(torch.optim.Optimizer):
            def __init__(self, inner):
                self.inner = inner
                super().__init__([p for g in inner.param_groups for p in g["params"]], {})
            def step(self, closure=None):
                return self.inner.step(closure)
        optimizer = Lookahead(optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        """,
    "checkpointing": """
        from importlib import import_module
        checkpoint = import_module(torch.__name__ + ".utils.checkpoint").checkpoint
        for reentrant in (True, False):
            for _ in range(3):
                optimizer.zero_grad()
                hidden = checkpoint(model[0], x.clone().requires_grad_(), use_reentrant=reentrant)
                (model[2](torch.tanh(hidden)) ** 2).mean().backward()
                optimizer.step()
        """,
}

GANS = {
    "real and fake": """
        for _ in range(4):
            z = torch.randn(5, 2)
            opt_D.zero_grad()
            judged(torch.randn(5, 4), 1).backward()
            judged(G(z).detach(), 0).backward()
            opt_D.step()
            opt_G.zero_grad()
            judged(G(z), 1).backward()
            opt_G.step()
        """,
    "in epochs, with one helper for backward": """
        def go(loss):
            loss.backward()
        for epoch in range(3):
            for (real,) in data.DataLoader(data.TensorDataset(torch.randn(8, 4)), batch_size=4):
                z = torch.randn(4, 2)
                opt_D.zero_grad()
                go(judged(real, 1))
                go(judged(G(z).detach(), 0))
                opt_D.step()
                opt_G.zero_grad()
                go(judged(G(z), 1))
                opt_G.step()
        """,
    "several critics per generator, with a penalty": """
        for i in range(9):
            opt_D.zero_grad()
            real = torch.randn(5, 4, requires_grad=True)
            (g,) = torch.autograd.grad(D(real).sum(), real, create_graph=True)
            (judged(real, 1) + judged(G(torch.randn(5, 2)).detach(), 0) + (g.norm() - 1) ** 2).backward()
            opt_D.step()
            if i % 3 == 2:
                opt_G.zero_grad()
                judged(G(torch.randn(5, 2)), 1).backward()
                opt_G.step()
        """,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CORRECT)
def test_correct(name: str, engine: str) -> None:
    assert found(examine(engine, CORRECT[name])) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", GANS)
def test_correct_gan(name: str, engine: str) -> None:
    assert found(examine(engine, GANS[name], GAN)) == []
