"""Writes random Python programs around a function: the same seed gives the same text.

A program is state that Python can reach in many ways, a function `step` of random statements that reads and changes
it, and a driver that calls the function and changes the state between the calls. It expects `torch`, a library with
PyTorch's API, `wrap`, which compiles a function or leaves it alone, and `note`, which writes to a log.
Half of the functions are quiet: they read state and change nothing but tensors, and are called alike for long.
"""

from __future__ import annotations

import random
import re
from functools import cache

STATE = {
    "G": ["G = 0.5"],
    "S": ["S = {'a': 0.5, 'b': -0.25, 'k': 2, 'on': True, 'seen': 0.0}"],
    "N": ["N = {'in': {'c': 0.75, 'd': -0.5}, 'deep': {'er': {'e': 0.3}}}"],
    "L": ["L = [0.25, -0.5, 0.75]"],
    "q": ["q = deque([0.5, 0.25], maxlen=4)"],
    "it": ["it = itertools.cycle([0.5, 0.5, 0.5, -0.25])"],
    "gen": [
        "def count_up():",
        "    for value in range(1, 1000):",
        "        yield value * 0.0625",
        "gen = count_up()",
    ],
    "h": [
        "class Holder:",
        "    b = 0.125",
        "    def __init__(self):",
        "        self.a, self.n, self.flag, self.name, self.seen = 0.5, 0, True, 'a', 0.0",
        "        self.buf = torch.tensor([0.3, -0.2, 0.1])",
        "    def scale(self):",
        "        return self.a if self.flag else self.b",
        "    def bump(self):",
        "        self.n += 1",
        "        return self.n",
        "    def __call__(self, t):",
        "        self.n += 1",
        "        return torch.tanh(t * self.a + self.b)",
        "    @property",
        "    def half(self):",
        "        return self.a / 2",
        "h = Holder()",
    ],
    "w": ["w = torch.tensor([0.4, -0.3, 0.2], requires_grad=GRAD)"],
    "M": ["M = torch.tensor([[0.3, -0.2, 0.1], [0.2, 0.4, -0.3], [-0.1, 0.2, 0.5]])"],
    "T": ["T = [torch.tensor([0.1, 0.2, 0.3]), torch.tensor([-0.3, 0.2, -0.1])]"],
    "D": ["D = {'t': torch.tensor([0.2, -0.1, 0.4]), 'u': torch.tensor([0.1, 0.5, -0.2])}"],
    "K": ["K = []"],
    "V": ["V = []"],
    "seen": ["seen = []"],
    "said": ["said = []"],
    "model": ["MODEL"],
    "opt": ["OPT"],
    "scaled": ["def scaled(t, k=0.5):", "    return torch.tanh(t * k) * G"],
}
MODELS = [
    "nn.Linear(3, 3)",
    "nn.Sequential(nn.Linear(3, 3), nn.Tanh())",
    "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))",
    "nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh())",
]
OPTIMIZERS = [
    "torch.optim.SGD(model.parameters(), lr=0.1)",
    "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)",
]

# What a placeholder may become. x: [rows, 3], v: [3], s: [], m: [3, 3]; pure: a number that no tensor has touched.
RULES = {
    "pure": """
        S['a'] | S.get('b', 0.5) | S.get('zz', 0.25) | N['in']['c'] | N['deep']['er']['e'] | L[0] |
        L[-1] | L[S['k'] % len(L)] | len(L) * 0.1 | h.a | h.b | getattr(h, 'b') | getattr(h, h.name) |
        getattr(h, 'extra', 0.5) | h.scale() | h.half | c | d | e[0] | G | q[0] | q[-1] | next(it) |
        next(gen) | sum(L) / len(L) | max(L) | min(S['a'], S['b']) | (0.5 if S['on'] else -0.5) |
        math.sin(h.a) | h.n * 0.1 | i * 0.1 | (h.n % 3) * 0.5 | float(S['on']) | vars(h)['a'] |
        globals().get('G', 0.25) | sum(N['in'].values()) | {'p': 0.5, 'q': G}['q'] | h.bump() * 0.05 |
        len(said) * 0.1 | max(q, default=0.5) | (lambda k: k * 0.5)(G) | [n * 0.5 for n in L][1] |
        (S['a'], L[0])[S['k'] % 2] | 0.5 | -0.75 | 2 | next(iter(N['in'].values())) | abs(L[0]) |
        L.index(L[-1]) * 0.1 | hash(S['k']) * 0.1
    """,
    "number": """
        <pure> | <pure> | <pure> | <pure> | S['seen'] | h.seen | clip(<s>.item()) |
        clip(float(<v>.sum())) | x.shape[0] * 0.1 | len(x) * 0.1 | x.size(1) * 0.1 | x.dim() * 0.25 |
        w[0].item() | len(seen) * 0.05 | clip(<v>.tolist()[1]) | len(K) * 0.05 | <v>.numel() * 0.1 |
        clip(float(<x>.detach().numpy().max())) | opt.param_groups[0]['lr'] | int(<s> > 0.0371) * 0.5
    """,
    "flag": """
        S['on'] | h.flag | not h.flag | G > 0.55 | len(L) > 4 | 'zz' in S | i % 3 == 0 | i > 5 | h.n % 2 |
        x.shape[0] > 2 | w.requires_grad | w.grad is None | w.grad is not None | model.training |
        L and L[0] > 0 | isinstance(S['a'], int) | N['in'].get('flag') | x.requires_grad |
        torch.is_grad_enabled() | c > 0.55 | hasattr(h, 'extra') | len(q) == 4 |
        S['a'] is not None and S['k'] == 2 | d > 0.4 | h.name == 'a' | K and K[-1].shape == x.shape |
        any(n > 0.8 for n in L) | h.buf is T[0] | x.is_contiguous() | K
    """,
    "test": """
        <s> > 0.0371 | <x>.sum() > 0.0371 | <s>.item() > 0.0371 | bool((<v> > 0.3713).any()) |
        (<x>.max() > 0.7371).item() | torch.all(<v> < 0.4371) | float(<x>.mean()) > 0.0371 |
        <v>[0] < <v>[2] + 0.01 | <s> * 1.7 < 0.1371 | int(<v>.argmax()) == 2 |
        <x>.detach().numpy().sum() > 0.0371 | S['seen'] > 0.0371
    """,
    "x": """
        <x> * <number> | <x> + <number> | <number> - <x> | <x> / (<number> + 4) | <x> + <x> | <x> * <x> |
        <x> + <v> | <x> * <v> | <x> @ <m> | torch.tanh(<x>) | torch.relu(<x>) | torch.sigmoid(<x>) |
        torch.exp(-<x>.abs()) | <x> - <x>.mean(0) | torch.where(<x> > 0.0371, <x>, <x> * <number>) |
        <x>.clamp(-0.7, 0.8) | torch.stack([<x>, <x>]).mean(0) | torch.cat([<x>, <x>])[: len(x)] |
        <x>.t().reshape(x.shape) | <x>.reshape(-1).view(x.shape) | <x>.flip(0) | <x>[:] | <x>.t().t() |
        <x>.view_as(x) | <x>.detach() | <x>.clone() | F.dropout(<x>, 0.5, training=h.flag) | model(<x>) |
        model(<x>) | scaled(<x>) | scaled(<x>, <number>) | (lambda t: t * <number>)(<x>) | h(<x>) |
        sum([t * <number> for t in (<x>, <x>)]) | torch.stack([r * <number> for r in <x>]) |
        torch.zeros_like(<x>) | (<x> if <flag> else <x> * 0.5) | <x> * <s> |
        torch.ones(x.shape) * <number> | <x>.masked_fill(<x> > 0.5, 0.1) |
        torch.tanh(<x> * <number> + <v>) | torch.tanh(<x> @ <m>) | <v>.expand(x.shape) |
        <x>.to(torch.float64).float() | torch.cat([<x>[:, 1:], <x>[:, :1]], 1) |
        torch.addmm(<v>, <x>, <m>) | torch.full_like(<x>, <number>) |
        max(<x>, <x>, key=lambda t: float(t.sum())) | F.linear(<x>, <m>, <v>) | (-<x>).contiguous()
    """,
    "v": """
        <x>.sum(0) * 0.3 | <x>.mean(0) | <x>[0] | <x>[-1] | w | w | <m>[1] | M.diagonal() | h.buf | T[0] |
        torch.tensor((L * 3)[:3]) | torch.tensor([<pure>, <number>, 0.5]) | torch.full((3,), <number>) |
        <v> * <number> | sum(T) | torch.stack(T).mean(0) | sum(t * n for t, n in zip(T, L)) |
        torch.stack([t + G for t in T])[0] | <v> + <v> | torch.tanh(<v>) | D['t'] | D.get('u') |
        w.detach() | <v>.clone() | <v> @ <m> | torch.tanh(<m> @ <v>) | torch.cat([<v>[:1], <v>[1:]]) |
        (w.grad if w.grad is not None else w) | <v>.flip(0) | T[S['k'] % len(T)] |
        torch.cat([t[:1] for t in T] + [w[:1]]) | (V[0] if V else w) | getattr(h, 'buf') | torch.rand(3) |
        torch.arange(3) * <number> | <v>.unsqueeze(0)[0] | torch.as_tensor([<pure>] * 3) | [*T, w][-1]
    """,
    "s": """
        <x>.sum() | <x>.mean() | <v> @ <v> | (<x> ** 2).mean() | <v>[1] | <x>[0, 1] | <v>.pow(2).sum() |
        <x>.max() | torch.tensor(<number>) | <m>.trace() | F.mse_loss(<x>, <x>) |
        sum([t.sum() for t in T]) | <s> * <number> | (<x> @ <v>).tanh().sum() |
        <x>.reshape(-1)[::2].sum() | torch.stack([<s>, <s>]).mean() | next(iter(<v>))
    """,
    "m": """
        M | M | M.t() | torch.outer(<v>, <v>) | <x>.t() @ <x> * 0.2 | torch.diag(<v>) | M * <number>
    """,
    "count": """
        1 | 2 | 2 | len(L) % 3 | S['k'] | h.n % 3 | x.shape[0] % 3 | int(G * 3) % 3 | len(q) % 3
    """,
    "own": """
        <X>.add_(<number>) | <X>.mul_(<number>) | <X> += <x> | <X> *= <number> | <X>[0] = <number> |
        <X>[:, 1] *= <number> | <X>.view(-1)[0] += <number> | <X>.t()[0].add_(<number>) | <X>.zero_() |
        <X>.clamp_(-0.9, 0.8) | <X>[0].copy_(<v>) | <X>.data.mul_(0.5) | <X>[<X> > 0.5] = 0.25 |
        <X>.relu_() | <X>.tanh_() | <X>[-1] += <v> | <X>.sub_(<x>, alpha=0.5) | <X>[:1, ::2] = <number> |
        <X>.copy_(<x>) | <X>.requires_grad_() | <X>.select(1, 2).fill_(<number>) |
        <X>.fill_(0.5).add_(<number>)
    """,
    "kept": """
        w.add_(<v>, alpha=0.1) | w.mul_(0.9) | w[0] = <number> | w.copy_(torch.tanh(<v>)) |
        M[1].mul_(0.9) | M.t()[0].tanh_() | M[0] = torch.tanh(<v>) | h.buf.lerp_(torch.tanh(<v>), 0.3) |
        h.buf.mul_(0.9) | T[0].mul_(0.8) | T[-1].copy_(torch.tanh(<v>)) | D['t'].sub_(0.01) |
        M.diagonal().mul_(0.9) | h.buf[:2] = w[1:] | w.data = w.data * 0.9 |
        w.sub_(w.grad * 0.1 if w.grad is not None else 0.01) | w.view(-1)[1:].neg_() |
        V[0].mul_(0.9) if V else None | h.buf.numpy()[0] = <pure> | torch.tanh(<v>, out=h.buf)
    """,
    "effect": """
        S['a'] += 0.125 | S['n'] = S.get('n', 0) + 1 | L.append(<pure> % 1.0) | L[0] = <pure> % 1.0 |
        h.n += 1 | L.pop() if len(L) > 3 else None | h.a = -h.a | h.bump() | N['in']['c'] *= 0.5 |
        q.append(<pure> % 1.0) | q.rotate(1) | G += 0.125 | c = 0.75 - c | S.setdefault('zz', 0.25) |
        S.pop('zz', None) | S.update(a=0.3) | said.append(f"{ <pure>:.3f} {x.shape} {len(L)}") |
        setattr(h, 'extra', <pure> % 1.0) | h.__dict__['a'] = 0.25 | seen.append(<s>.item()) |
        seen.append(clip(<s>.item())) | K.append(<x>) | K.append(<x>.detach()) | K.append(<X>) |
        K.append(<v>.clone()) | V.append(w[:2].detach()) | V.append(M.t()[1]) | V.append(w.detach()) |
        e[0] = <pure> % 1.0 | S['seen'] = clip(<s>.item()) | h.seen = clip(float(<v>[0])) |
        seen.append(float(<x>.detach().numpy().sum())) | h.buf = torch.tanh(h.buf + <v>).detach() |
        T[0] = <v>.detach() | T.append(<v>.detach()) | D['u'] = <v>.detach() |
        T.pop() if len(T) > 2 else None | h.last = <x>.detach() | h.flag = not h.flag | S['on'] = <flag> |
        L.reverse() | N['in'] = dict(N['in'], c=<pure> % 1.0) | h.name = 'b' if h.name == 'a' else 'a' |
        L.sort() | said.append(str(<flag>)) | said.append('%s %d' % (tuple(<v>.shape), h.n)) |
        S['k'] = (S['k'] + 1) % 3 | L.insert(0, <pure> % 1.0) | seen.extend(<v>.tolist()) |
        w.grad = None | L[:] = L[-3:] | N['in'].update({'x': <pure> % 1.0}) |
        D['u'], D['t'] = D['t'], D['u'] | said.append(repr(<X>.shape) + str(<X>.requires_grad)) |
        seen.append(<v>.detach().numpy().copy()) | h.last = <X> | model.train(bool(<flag>)) |
        h.buf, T[0] = T[0], h.buf | seen.append(<v>.detach().numpy()) | next(it) | Holder.b = 0.25
    """,
    "mistake": """
        <X> = <x> + torch.ones(7) | S['nothing'] | L[99] | G / 0 | int('q') | x.nothing | <X> @ <X> |
        w.view(7) | <v>.item() | next(iter([])) | raise ValueError(f"{ <pure>}") |
        torch.ones(3).backward() | assert <flag> | torch.cat([<x>, <v>]) | None + <x> |
        <v>.reshape(2, 2) | raise KeyError(<X>.shape) | torch.stack([<v>, <x>])
    """,
    "result": """
        <X> | <x> | <x> | (<X>, <s>.item()) | {'y': <X>, 'n': h.n} | [<X>, <v>] | <s> | <v> | <X>[:1] |
        <X>.t() | (<X>, <X>) | <x>, <pure> | <s>.item() | x | [<x>, f"{ <pure>:.4f}"] |
        {'x': <x>, 'w': w} | <X>.detach() | w[1:] | (<x>, L, S) | (<X>, (<v>, [<s>])) |
        <x>.sum(), len(L) | <x>.tolist() | (r for r in [<pure>]) | <x> > 0.0371
    """,
}

# What the driver does between calls to the state; and to the arguments, the results and the library.
CHANGES = """
    S['a'] = 0.25 | S['a'] += 0.5 | S['b'] = 1 | S['a'] = 1 | S['zz'] = 0.6 | S.pop('zz', None) |
    S['on'] = not S['on'] | S['k'] += 1 | S = dict(S) | N['in']['c'] = -0.3 |
    N['in'] = {'c': 0.1, 'd': 0.2} | N['deep']['er']['e'] = 0.6 | N['in']['flag'] = True |
    N['in'] = dict(reversed(N['in'].items())) | L.append(0.9) | L[0] = -0.6 | L.insert(1, 0.4) |
    L = [0.3, 0.2, 0.1] | L.reverse() | del L[1:] | L[-1] = 1 | h.a = 0.8 | h.a = 1 |
    h.flag = not h.flag | h.name = 'b' | h.extra = 0.7 | h.n += 5 | h.scale = lambda: 0.33 |
    Holder.b = 0.6 | Holder.scale = lambda self: 0.44 | del h.a; h.a = 0.3 | h = Holder() |
    h.buf = torch.tensor([0.1, 0.1, 0.9]) | h.buf.mul_(0.5) | h.buf = T[0] | G = -0.4 | G = 1 |
    G += 0.25 | q.append(0.1) | q.appendleft(-0.2) | q.rotate(1) | next(it) | next(gen) |
    it = iter([0.1] * 500) | gen = count_up() | w = torch.tensor([0.1, 0.2, -0.3]) |
    w = w.detach().clone().requires_grad_() | with torch.no_grad(): w.mul_(-0.8) |
    with torch.no_grad(): w[1] = 0.45 | w.requires_grad_(not w.requires_grad) | w.grad = None |
    w.grad = torch.ones(3) * 0.1 | w.data = torch.tensor([0.2, 0.2, 0.3]) |
    w.detach().numpy()[2] = -0.35 | w.grad.zero_() if w.grad is not None else None | M = M.t() |
    M = M.clone() | M[0, 1] = 0.6 | M.mul_(0.7) | M = M.t().contiguous() | M = M + 0.01 | M.t_() |
    T[0] = torch.tensor([0.3, 0.3, 0.3]) | T.append(torch.tensor([0.2, 0.1, -0.4])) | T[-1].mul_(0.5) |
    T.reverse() | T[0] = T[1] | T[0] = T[0].double() | D['t'] = torch.tensor([0.7, 0.1, 0.1]) |
    D['t'], D['u'] = D['u'], D['t'] | D['u'].neg_() | D['u'] = D['t'] | K.clear() | K = [] |
    K.append(torch.ones(2, 3) * 0.2) | V.clear() | seen.append(0.25) | seen.clear() |
    said.append('here') | model.train(not model.training) | model.eval() | model.requires_grad_(False) |
    model.requires_grad_(True) | model.zero_grad() |
    with torch.no_grad(): next(model.parameters()).mul_(0.8) |
    next(model.parameters()).requires_grad_(False) | model = copy.deepcopy(model) |
    for p in model.parameters(): p.grad = None |
    for p in model.parameters(): p.grad = torch.ones_like(p) * 0.1 | model.register_forward_hook(hook) |
    opt.param_groups[0]['lr'] = 0.05 | opt.param_groups[0]['lr'] *= 0.5 | opt.zero_grad() |
    opt.param_groups[0]['weight_decay'] = 0.1 | opt.step() | opt.state.clear() |
    opt.load_state_dict(copy.deepcopy(opt.state_dict())) | scaled = lambda t, k=0.5: t * k * 0.9 |
    scaled.__defaults__ = (0.7,) | set_c(0.2) | set_c(1) | raw.__defaults__[1][0] = 0.65 |
    raw.__defaults__ = (0.6, *raw.__defaults__[1:])
"""
ALWAYS = """
    rows = 5 | rows = 1 | extra = (0.8,) | extra = () | named = {'d': 0.9} | named = {} | made = flat |
    made = plain | made = turned | made = sliced | made = wanting | made = plain | made = doubled |
    made = plain | torch.manual_seed(5) | r = write(r) | made = lambda i, rows: chain(r, i, rows) |
    torch.rand(2) | back(r) | results.clear() | gc.collect(1)
"""

HEAD = """
import collections, copy, functools, gc, itertools, math
from collections import deque
nn, F = torch.nn, torch.nn.functional
def clip(number):
    return max(-1.0, min(1.0, number))
""".strip()
MAKERS = {
    "plain": "def plain(i, rows): return torch.sin(torch.arange(rows * 3) * 0.7 + i % PERIOD).reshape(rows, 3)",
    "flat": "def flat(i, rows): return torch.full((rows, 3), 0.25)",
    "turned": "def turned(i, rows): return plain(i, rows).reshape(3, rows).t()",
    "sliced": "def sliced(i, rows): return plain(i, rows * 2)[::2]",
    "wanting": "def wanting(i, rows): return plain(i, rows).requires_grad_()",
    "doubled": "def doubled(i, rows): return plain(i, rows).double()",
    "hook": "def hook(module, inputs, output): return output * 0.5",
    "chain": """
def chain(r, i, rows):
    fits = isinstance(r, torch.Tensor) and r.shape == (rows, 3) and r.dtype == torch.float32
    return torch.tanh(r.detach()) if fits else plain(i, rows)
""".strip(),
    "write": """
def write(r):
    if isinstance(r, torch.Tensor) and r.dtype == torch.float32:
        with torch.no_grad():
            r.mul_(0.5)
    return r
""".strip(),
    "back": """
def back(r):
    if isinstance(r, torch.Tensor) and r.requires_grad:
        r.sum().backward()
""".strip(),
}
LOOKS = {
    "h": "vars(h)",
    "model": "[*model.parameters(), model.training]",
    "opt": "[opt.param_groups[0]['lr'], [opt.state[p] for p in model.parameters()]]",
    "it": "next(it)",
    "gen": "next(gen)",
}
# What a quiet function does without: effects, looks at values, and what no proof follows.
LOUD = re.compile(
    r"next\(|bump|globals|vars\(|hash|lambda|\b(q|said|seen|K|V|gen|it)\b|item\(|tolist|numpy|clip|rand|"
    r"dropout|iter\(|\bh\(|hasattr|"
    r"\.grad\b|extra|\.data\b|out=|requires_grad_|index\(| for r in |int\(<|\] [+*]?= |model\.train\("
)
SILENT = ("scaled", "it", "gen")  # not looked at after calls


def parts(text: str) -> list[str]:
    """The rules that a text lists."""
    return re.split(r" \|\s+", text.strip())


class Writer:
    """Writes one program: a part of the rules is drawn first, so that programs differ in kind."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, random.Random(seed)
        share = self.random.choice([0.15, 0.3, 0.6])
        self.rules = {kind: self.some(parts(text), share) for kind, text in RULES.items()}
        self.known = {"x": ["x"], "v": [], "s": [], "m": [], "pure": []}
        self.names = 0
        self.risky = self.random.random() < 0.3  # whether there may be mistakes that nothing catches
        self.trains = self.random.random() < 0.3
        self.by_value = self.random.random() < 0.6
        self.quiet = random.Random(f"quiet {seed}").random() < 0.5
        if self.quiet:
            self.risky = self.by_value = False
            for kind, text in RULES.items():
                silent = [rule for rule in parts(text) if not LOUD.search(rule)]
                self.rules[kind] = [rule for rule in self.rules[kind] if rule in silent] or silent[:4]

    def some(self, rules: list[str], share: float) -> list[str]:
        """A part of the rules, at least four."""
        return self.random.sample(rules, min(len(rules), max(4, round(share * len(rules)))))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def fill(self, text: str, depth: int = 2) -> str:
        """The text with its placeholders filled."""
        return re.sub(r"<(\w+)>", lambda match: self.draw(match[1], depth), text)

    def draw(self, kind: str, depth: int = 2) -> str:
        """An expression of a kind: a variable, or what a rule gives."""
        if kind == "X":
            return self.random.choice(self.known["x"])
        known = self.known.get(kind, [])
        if known and (depth <= 0 or self.chance(0.5)):
            return self.random.choice(known)
        if depth <= 0:
            shallow = {"v": "w", "s": "x.sum()", "m": "M", "number": "0.5", "pure": "G", "flag": "True"}
            flat = [rule for rule in self.rules[kind] if "<" not in rule]
            return self.random.choice(flat) if flat else shallow[kind]
        text = self.fill(self.random.choice(self.rules[kind]), depth - 1)
        return f"({text})" if kind in "xvsm" and re.search(r" [-+*/@>] |^-", text) else text

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def block(self, depth: int, count: int | None = None) -> list[str]:
        """Some statements; names that they give are forgotten behind them."""
        before = {kind: list(names) for kind, names in self.known.items()}
        lines = [line for _ in range(count or self.random.randint(1, 2)) for line in self.statement(depth)]
        if depth:
            self.known = before
        return lines

    def statement(self, depth: int) -> list[str]:
        """One random statement."""
        kinds = {
            "assign": 8,
            "effect": 5,
            "own": 2.5,
            "kept": 1.5,
            "train": 3 * self.trains,
            "learn": 0.7,
            "delete": 0.5,
        }
        if self.quiet:
            kinds = {"assign": 8, "train": 6 * self.trains, "own": 0.3, "kept": 0.5}
            if depth < 2:
                kinds |= {"choose": 2.5, "loop": 2, "mode": 0.8, "leave": 0.5}
        elif depth < 3:
            kinds |= {"choose": 2.5, "loop": 2, "attempt": 1.2, "mode": 0.8, "leave": 0.8}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        return getattr(self, kind)(depth)

    def assign(self, depth: int) -> list[str]:
        kind = self.random.choices("xvsm", [6, 3, 1, 0.5])[0]
        value = self.draw(kind)
        old = [name for name in self.known[kind] if name != "x"]
        if old and self.chance(0.4):
            return [f"{self.random.choice(old)} = {value}"]
        name = self.name(kind)
        self.known[kind].append(name)
        return [f"{name} = {value}"]

    def effect(self, depth: int) -> list[str]:
        return [self.draw("effect")]

    def own(self, depth: int) -> list[str]:
        return [self.draw("own")]

    def kept(self, depth: int) -> list[str]:
        return ["with torch.no_grad():", f"    {self.draw('kept')}"]

    def train(self, depth: int) -> list[str]:
        """A training step of the model."""
        self.trains = False
        clear = self.random.choice(
            ["opt.zero_grad()", "opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "h.n += 1"]
        )
        if self.quiet:
            clear = "opt.zero_grad()"
        loss = self.name("s")
        lines = [
            clear,
            f"{loss} = (model({self.draw('x', 1)}) - {self.draw('x', 1)}).pow(2).mean()",
            f"{loss}.backward()",
        ]
        if self.chance(0.3):
            lines.append(f"nn.utils.clip_grad_norm_(model.parameters(), {self.draw('pure')} % 1.0 + 0.1)")
        if self.chance(0.2) and not self.quiet:
            lines.append("seen.append([p.grad is None for p in model.parameters()])")
        update = ["opt.step()"]
        if self.chance(0.2):
            update = [f"if {self.draw('flag')}:", "    opt.step()"]
        elif self.chance(0.2):
            update = [
                "with torch.no_grad():",
                "    for p in model.parameters():",
                "        p -= 0.1 * p.grad",
            ]
        self.known["s"].append(loss)
        last = self.random.choice(
            [[], [], ["opt.param_groups[0]['lr'] *= 0.9"], [f"seen.append({loss}.item())"]]
        )
        return lines + update + ([] if self.quiet else last)

    def learn(self, depth: int) -> list[str]:
        """A gradient of one tensor."""
        loss = self.name("s")
        lines = [
            f"{loss} = ({self.draw('x')} * w).tanh().sum()",
            f"if {loss}.requires_grad:",
            f"    {loss}.backward()",
        ]
        if self.chance(0.5):
            lines += [
                "if w.grad is not None:",
                "    with torch.no_grad():",
                f"        w -= {self.draw('pure')} * 0.1 * w.grad",
            ]
        if self.chance(0.5):
            lines.append("w.grad = None")
        return lines

    def delete(self, depth: int) -> list[str]:
        """Deletes a variable."""
        own = [name for name in self.known["x"] + self.known["v"] if name != "x"]
        if depth or not own:
            return self.assign(depth)
        name = self.random.choice(own)
        self.known = {kind: [other for other in names if other != name] for kind, names in self.known.items()}
        return [f"del {name}"]

    def condition(self) -> str:
        return self.draw("test" if self.by_value and self.chance(0.35) else "flag")

    def choose(self, depth: int) -> list[str]:
        lines = [f"if {self.condition()}:", *indented(self.block(depth + 1))]
        if self.chance(0.3):
            lines += [f"elif {self.condition()}:", *indented(self.block(depth + 1))]
        if self.chance(0.5):
            lines += ["else:", *indented(self.block(depth + 1))]
        return lines

    def loop(self, depth: int) -> list[str]:
        before = {kind: list(names) for kind, names in self.known.items()}
        kind, name, other = self.random.randrange(7), self.name("k"), self.name("v")
        first = []
        if kind == 0:
            head = [f"{name} = 0", f"while {name} < {self.draw('count')}:"]
            first = [f"{name} += 1"]
        elif kind == 1 and self.by_value:
            head = [f"{name} = 0", f"while {name} < 3 and ({self.draw('test')}):"]
            first = [f"{name} += 1"]
        elif kind == 2:
            head = [f"for {name} in L[:2]:"]
            self.known["pure"].append(name)
        elif kind == 3:
            head = [f"for {name}, {other} in zip(L, T[:2]):"]
            self.known["pure"].append(name)
            self.known["v"].append(other)
        elif kind == 4:
            head = [f"for {name}, {other} in N['in'].items():"]
            self.known["pure"].append(other)
        elif kind == 5:
            head = [f"for {name}, {other} in enumerate({self.draw('x', 1)}):"]
            self.known["v"].append(other)
        else:
            head = [f"for {name} in range({self.draw('count')}):"]
        body = first + self.block(depth + 1)
        if self.chance(0.2):
            body += [
                f"if {self.condition()}:",
                f"    {self.random.choice(['break', 'continue'])}",
                *self.block(depth + 1, 1),
            ]
        self.known = before
        return [*head, *indented(body)]

    def attempt(self, depth: int) -> list[str]:
        caught = self.random.choice(
            ["Exception", "(RuntimeError, TypeError, ArithmeticError, LookupError)", "Exception as error"]
        )
        body = [*self.block(depth + 1), self.draw("mistake", 1)]
        lines = ["try:", *indented(body), f"except {caught}:"]
        lines += ["    said.append(type(error).__name__)"] if caught.endswith("error") else []
        lines += indented(self.block(depth + 1))
        return lines + (["finally:", *indented(self.effect(depth))] if self.chance(0.2) else [])

    def mode(self, depth: int) -> list[str]:
        modes = ["no_grad()", "no_grad()", "enable_grad()"]
        modes += [] if self.quiet else [f"set_grad_enabled(bool({self.draw('flag')}))"]
        return [f"with torch.{self.random.choice(modes)}:", *indented(self.block(depth + 1))]

    def leave(self, depth: int) -> list[str]:
        """Leaves early, mostly by returning."""
        if self.risky and self.chance(0.3):
            return [f"if {self.condition()}:", f"    {self.draw('mistake', 1)}"]
        return [f"if {self.condition()}:", f"    return {self.draw('result')}"]

    def step(self) -> list[str]:
        """The function, alone or with a cell around it."""
        body = self.block(0, self.random.randint(2, 4) if self.quiet else self.random.randint(3, 7))
        result = self.draw("result")
        if self.quiet and self.known["s"] and self.chance(0.5):
            result = self.random.choice(self.known["s"])
        body.append(f"return {result}")
        text = "\n".join(body)
        outer = [f"global {name}" for name in STATE if re.search(rf"^ *{name} [-+*]?= ", text, re.M)]
        cell = used("c", text)
        outer += ["nonlocal c"] if re.search(r"^ *c = ", text, re.M) else []
        step = ["def step(x, i, d=0.3, e=[0.5]):", *indented(outer + body)]
        if not cell:
            return [*step, "raw = step"]
        setter = ["def set_c(value):", "    nonlocal c", "    c = value", "return step, set_c"]
        return ["def make():", *indented(["c = 0.5", *step, *setter]), "raw, set_c = make()"]

    def changes(self, text: str) -> list[str]:
        """What happens between the calls: sometimes nothing, mostly a few things that concern the function."""
        names = [name for name in (*STATE, "set_c", "e", "d") if used(name, text)]
        fitting = [c for c in parts(CHANGES) if names_in(c) & set(names) and self.fits(c, text)]
        lines = []
        for _ in range(self.random.choice([0, 1, 1, 2, 3, 4])):
            change = self.random.choice(parts(ALWAYS) if not fitting or self.chance(0.2) else fitting)
            call = self.random.randrange(6 if self.quiet else 2, self.calls)
            condition = self.random.choice(
                [f"i == {call}", f"i == {call}", f"i % 4 == {call % 4}", f"i in ({call}, {call - 2})"]
            )
            if self.quiet:
                condition = f"i == {call}"
            lines += [f"if {condition}:", f"    {change}"]
        return lines

    def fits(self, change: str, text: str) -> bool:
        """Whether everything that a change names is there."""
        names = [*STATE, "set_c", "count_up", "Holder"]
        there = text + (" Holder" if used("h", text) else "") + (" count_up" if used("gen", text) else "")
        return all(used(name, there) for name in names if used(name, change))

    def program(self) -> str:
        """The whole text."""
        step = self.step()
        self.calls = self.random.randint(12, 16) if self.quiet else self.random.randint(8, 10)
        text = "\n".join(step)
        changes = self.changes(text)
        text = "\n".join([text, *changes])
        grad, model, opt = (
            self.random.choice(["True", "False", "False", "False"] if self.quiet else ["True", "False"]),
            self.random.choice(MODELS[:3] if self.quiet and self.chance(0.8) else MODELS),
            self.random.choice(OPTIMIZERS),
        )
        needed = {name: True for name in STATE if used(name, text)} | (
            {"model": True} if used("opt", text) else {}
        )
        needed |= ({"G": True} if "scaled" in needed else {}) | ({"h": True} if used("Holder", text) else {})
        state = [line for name in STATE if name in needed for line in STATE[name]]
        made = {"MODEL": f"model = {model}", "OPT": f"opt = {opt}"}
        state = [made.get(line, line).replace("GRAD", grad) for line in state]
        if "scaled" in needed and self.chance(0.3) and "__defaults__" not in text:
            state.append("scaled = wrap(scaled)")
        makers = [
            text
            for name, text in MAKERS.items()
            if name in ("plain", "chain") or used(name, "\n".join(changes))
        ]
        makers = [text.replace("PERIOD", self.random.choice(["1", "3", "50"])) for text in makers]
        head = [HEAD, *state, *makers, *step, "step = wrap(raw)"]
        return "\n".join([*head, *self.driver(changes, [name for name in STATE if name in needed])]) + "\n"

    def driver(self, changes: list[str], names: list[str]) -> list[str]:
        """The calls, and what is looked at: after every call, after some, or in the end."""
        looks = [f"note({name!r}, {LOOKS.get(name, name)})" for name in names if name not in SILENT]
        last = [f"note({name!r}, {LOOKS[name]})" for name in names if name in ("it", "gen")]
        often = self.random.choice(["True", "i % 3 == 2", "False"])
        share = 0.6 if self.quiet and "model" in names else 0.15
        mode = "with torch.no_grad(): " if self.chance(share) and "opt" not in names else ""
        call = [
            "try:",
            f"    {mode}r = step(x, {'i // 9' if self.quiet else 'i'}, *extra, **named)",
            "except Exception as error:",
            "    r = type(error).__name__",
        ]
        seen = ["results.append(r)", "note('same', [r is x, *(r is other for other in results[:-1])])"]
        watch = [f"if {often}:", "    note('call', i, r, x)", *indented(looks)] if often != "False" else []
        start = [
            "results, extra, named, rows, made, r = [], (), {}, ROWS, plain, None".replace(
                "ROWS", self.random.choice("24")
            )
        ]
        if self.chance(0.3):
            call = ["if i == 0 or i > 5:", "    x = made(i, rows)", *call]  # one tensor for several calls
        else:
            call = ["x = made(i, rows)", *call]
        end = ["note('end', results)", *looks, *last, "note('random', torch.rand(1))"]
        return [*start, f"for i in range({self.calls}):", *indented([*changes, *call, *seen, *watch]), *end]


def written(seed: int) -> str:
    return Writer(seed).program()


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.split("\n")]


def used(name: str, text: str) -> bool:
    """Whether a name stands in a text, not as an attribute or in quotes."""
    return name in names_in(text)


@cache
def names_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*(?![\w'\"])", text))
