"""A function rewritten so that a witness sees everything it reads, calls and decides.

The text of a function is its source, once that has been compiled again and found to be the very code that runs. In
the copy, every name from outside, attribute, item, call, condition and loop goes through the witness; what happens
between them is Python's own. Text that does more than that, such as storing into an object, is not rewritten:
`Unproven` says what it is. Read next: compile/proofs/guards.py.
"""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
import sys
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

WITNESS = "__witness__"
LARGEST = 40_000  # lines of a file that is read
# What depends on the frame that calls it.
FRAMES = {"locals", "globals", "vars", "dir", "eval", "exec", "super", "breakpoint"}
FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


class Unproven(Exception):
    """Why Python has to run at every call: a reason, and the line it is about."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


def rewritten(function: types.FunctionType) -> types.CodeType:
    """The code of a function whose outside is reached through the variable `__witness__` of a cell."""
    return rewritten_code(function.__code__)


@lru_cache(maxsize=512)
def rewritten_code(code: types.CodeType) -> types.CodeType:
    if code.co_flags & (0x20 | 0x80 | 0x100 | 0x200):
        raise Unproven("generators and coroutines are not looked into", code.co_firstlineno)
    node = copy.deepcopy(tree_of(code))
    check_names(node)
    arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    rewriter = Rewriter(arguments | stored_names(node))
    if isinstance(node, ast.Lambda):
        returned = ast.copy_location(ast.Return(rewriter.visit(node.body)), node.body)
        body: list[ast.stmt] = [returned]
    else:
        body = [rewriter.visit(each) for each in node.body]
    name = "function"
    # Defaults come from the function object; here they only have to be as many.
    signature = ast.arguments(
        posonlyargs=bare(node.args.posonlyargs),
        args=bare(node.args.args),
        vararg=bare_one(node.args.vararg),
        kwonlyargs=bare(node.args.kwonlyargs),
        kw_defaults=[None] * len(node.args.kwonlyargs),
        kwarg=bare_one(node.args.kwarg),
        defaults=[],
    )
    made = ast.copy_location(ast.FunctionDef(name=name, args=signature, body=body, decorator_list=[]), node)
    if sys.version_info >= (3, 12):
        made.type_params = []
    around = ast.FunctionDef(name="around", args=only(WITNESS), body=[made], decorator_list=[])
    if sys.version_info >= (3, 12):
        around.type_params = []
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(around, node)], []))
    try:
        compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as failure:
        raise Unproven(f"its copy cannot be compiled: {failure}", code.co_firstlineno) from None
    outer = next(each for each in compiled.co_consts if isinstance(each, types.CodeType))
    found = next(each for each in outer.co_consts if isinstance(each, types.CodeType))
    if found.co_freevars not in ((), (WITNESS,)):
        raise Unproven("it has variables of a kind that is not looked into", code.co_firstlineno)
    return found.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def bare(arguments: list[ast.arg]) -> list[ast.arg]:
    return [ast.arg(each.arg) for each in arguments]


def only(name: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(name)], None, [], [], None, [])


def bare_one(argument: ast.arg | None) -> ast.arg | None:
    return None if argument is None else ast.arg(argument.arg)


# The text ---------------------------------------------------------------------------------------------------


def tree_of(code: types.CodeType) -> Any:
    """The syntax tree of a function, which is known to be its own."""
    first = code.co_firstlineno
    lines = tuple(linecache.getlines(code.co_filename))
    found = file_of(code.co_filename, lines, code.co_flags & FUTURES)
    if found is None:
        raise Unproven("its source is not to be had", first)
    nodes, codes = found
    if code not in codes:
        raise Unproven("its source is not what runs", first)
    candidates = [node for node in nodes.get(first, ()) if getattr(node, "name", "<lambda>") == code.co_name]
    if len(candidates) != 1:
        raise Unproven("several functions stand on its line", first)
    return candidates[0]


@lru_cache(maxsize=32)
def file_of(
    name: str, lines: tuple[str, ...], flags: int
) -> tuple[dict[int, list], set[types.CodeType]] | None:
    """The functions of a file by their first lines, and their codes."""
    if not lines or len(lines) > LARGEST:
        return None
    try:
        tree = ast.parse("".join(lines))
        whole = compile("".join(lines), name, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    nodes: dict[int, list] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", [])
            nodes.setdefault(min([node.lineno, *[each.lineno for each in decorators]]), []).append(node)
    return nodes, set(codes_in(whole))


def check_names(node: Any) -> None:
    """Names that mean something else in a copy: those that are private to a class, and what reads frames."""
    for each in ast.walk(node):
        for name in (getattr(each, field, None) for field in ("id", "arg", "attr")):
            if isinstance(name, str) and (name == WITNESS or (name[:2] == "__" and name[-2:] != "__")):
                raise Unproven(f"{name} is a private name of a class", node.lineno)
        if isinstance(each, ast.Name) and each.id in FRAMES:
            raise Unproven(f"{each.id} is not looked into", node.lineno)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield part
            yield from codes_in(part)


def stored_names(node: Any) -> set[str]:
    """The names that a function gives values to."""
    inner = [each for each in ast.walk(node) if isinstance(each, COMPREHENSIONS)]
    targets = {name for each in inner for part in each.generators for name in names_in(part.target)}
    stored = [
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
    ]
    for name in targets:
        used = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == name]
        within = [
            each
            for part in inner
            if name in {n for g in part.generators for n in names_in(g.target)}
            for each in ast.walk(part)
            if isinstance(each, ast.Name) and each.id == name
        ]
        if len({id(each) for each in within}) != len(used):
            raise Unproven(f"{name} is a name inside and outside of a comprehension", node.lineno)
    return set(stored)


def names_in(target: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


# Rewriting --------------------------------------------------------------------------------------------------

COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
# What is taken as it is, with its parts rewritten.
PLAIN = (
    ast.Return, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Raise, ast.Constant, ast.Tuple, ast.List,
    ast.comprehension, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.expr_context, ast.JoinedStr, ast.NamedExpr, ast.Delete, *COMPREHENSIONS,
)  # fmt: skip


class Rewriter(ast.NodeTransformer):
    """Puts the witness between a function and all that it sees."""

    def __init__(self, local: set[str]) -> None:
        self.local = local

    def visit(self, node: ast.AST) -> Any:
        own = getattr(self, "visit_" + type(node).__name__, None)
        if own is not None:
            return own(node)
        if not isinstance(node, PLAIN):
            words = " ".join(part.lower() for part in split_words(type(node).__name__))
            raise Unproven(f"there is a statement that is not looked into ({words})", node.lineno)  # type: ignore[attr-defined]
        return self.generic_visit(node)

    def ask(
        self, what: str, node: Any, *arguments: ast.expr, keywords: list[ast.keyword] | None = None
    ) -> Any:
        """A call of the witness in the place of a node."""
        method = ast.Attribute(ast.Name(WITNESS, ast.Load()), what, ast.Load())
        call = ast.Call(method, list(arguments), keywords or [])
        for each in (method.value, method, call):
            ast.copy_location(each, node)
        return call

    def constant(self, value: Any, node: Any) -> ast.expr:
        return ast.copy_location(ast.Constant(value), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id == "__class__":
            raise Unproven(f"{node.id} is not looked into", node.lineno)
        if not isinstance(node.ctx, ast.Load) or node.id in self.local:
            return node
        return self.ask("name", node, self.constant(node.id, node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            raise Unproven(f"the attribute {node.attr} of an object is set", node.lineno)
        return self.ask("attribute", node, self.visit(node.value), self.constant(node.attr, node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            raise Unproven("an item of an object is set", node.lineno)
        return self.ask("item", node, self.visit(node.value), self.visit(node.slice))

    def visit_Slice(self, node: ast.Slice) -> ast.expr:
        parts = [None if each is None else self.visit(each) for each in (node.lower, node.upper, node.step)]
        whole = [self.constant(None, node) if each is None else each for each in parts]
        return self.ask("cut", node, *whole)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.func = self.ask("callee", node, self.visit(node.func))
        node.args = [self.visit(each) for each in node.args]
        node.keywords = [self.visit(each) for each in node.keywords]
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        node.value = self.mapping(node.value) if node.arg is None else self.visit(node.value)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            node.value = self.ask("each", node, self.visit(node.value))
        return node

    def mapping(self, node: ast.expr) -> ast.expr:
        """What is unpacked by name."""
        return self.ask("mapping", node, self.visit(node))

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        node.values = [
            self.mapping(value) if key is None else self.visit(value)
            for key, value in zip(node.keys, node.values)
        ]
        node.keys = [None if key is None else self.plain(key) for key in node.keys]
        return node

    def visit_Set(self, node: ast.Set) -> ast.expr:
        node.elts = [
            self.visit(each) if isinstance(each, ast.Starred) else self.plain(each) for each in node.elts
        ]
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        node.generators = [self.visit(each) for each in node.generators]
        node.elt = self.ask("value", node.elt, self.visit(node.elt))  # so that it is known as a copy's own
        return node

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        node.generators = [self.visit(each) for each in node.generators]
        node.elt = self.plain(node.elt)
        return node

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        node.generators = [self.visit(each) for each in node.generators]
        node.key, node.value = self.plain(node.key), self.visit(node.value)
        return node

    def plain(self, node: ast.expr) -> ast.expr:
        return self.ask("plain", node, self.visit(node))

    def truth(self, node: ast.expr) -> ast.expr:
        return self.ask("truth", node, self.visit(node))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        node.left, node.right = self.plain(node.left), self.plain(node.right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        node.operand = self.truth(node.operand) if isinstance(node.op, ast.Not) else self.plain(node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values = [*map(self.truth, node.values[:-1]), self.visit(node.values[-1])]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if any(isinstance(each, (ast.Is, ast.IsNot)) for each in node.ops):
            if len(node.ops) > 1:
                raise Unproven("several objects are compared at once", node.lineno)
            same = self.ask("is_same", node, self.visit(node.left), self.visit(node.comparators[0]))
            if isinstance(node.ops[0], ast.Is):
                return same
            return ast.copy_location(ast.UnaryOp(ast.Not(), same), node)
        look = self.plain if len(node.ops) == 1 else self.number
        node.left, node.comparators = look(node.left), [look(each) for each in node.comparators]
        return node

    def number(self, node: ast.expr) -> ast.expr:
        """One of several that are compared: what two give is asked for its truth."""
        return self.ask("number", node, self.visit(node))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test, node.body, node.orelse = (
            self.truth(node.test),
            self.visit(node.body),
            self.visit(node.orelse),
        )
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        node.value = self.ask("shown", node.value, self.visit(node.value))
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        if node.is_async:
            raise Unproven("an asynchronous loop is not looked into")
        node.iter = self.each(node.iter, node.target)
        node.ifs = [self.truth(each) for each in node.ifs]
        return node

    # Statements --------------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.truth(node.test)
        return self.with_bodies(node)

    visit_While: Any = visit_If

    def visit_For(self, node: ast.For) -> Any:
        self.check_target(node.target)
        node.iter = self.each(node.iter, node.target)
        return self.with_bodies(node)

    def each(self, values: ast.expr, target: ast.expr) -> ast.expr:
        """What a loop goes through, and how its parts are unpacked."""
        shape = shape_of(target)
        more = [self.constant(shape, values)] if shape else []
        return self.ask("each", values, self.visit(values), *more)

    def with_bodies(self, node: Any) -> Any:
        node.body = [self.visit(each) for each in node.body]
        node.orelse = [self.visit(each) for each in node.orelse]
        return node

    def visit_With(self, node: ast.With) -> Any:
        for item in node.items:
            if item.optional_vars is not None:
                raise Unproven("a with statement gives a name", node.lineno)
            item.context_expr = self.ask("context", item.context_expr, self.visit(item.context_expr))
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        node.test = self.truth(node.test)
        node.msg = None if node.msg is None else self.visit(node.msg)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = self.visit(node.value)
        for target in node.targets:
            self.check_target(target)
            if shape := shape_of(target):
                node.value = self.ask("parts", node.value, node.value, self.constant(shape, node.value))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.check_target(node.target)
        value = None if node.value is None else self.visit(node.value)
        if value is None:
            return ast.copy_location(ast.Pass(), node)
        target = ast.copy_location(ast.Name(node.target.id, ast.Store()), node)  # type: ignore[union-attr]
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            raise Unproven("an object is changed", node.lineno)
        current = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        node.value = self.ask("added", node, current, self.visit(node.value))
        return node

    def check_target(self, target: ast.expr) -> None:
        for each in ast.walk(target):
            if isinstance(each, (ast.Attribute, ast.Subscript)):
                raise Unproven("an object is changed", target.lineno)


def shape_of(target: ast.expr) -> tuple:
    """How a target takes things apart: nothing for a name, the shapes of its parts for several."""
    return tuple(map(shape_of, target.elts)) if isinstance(target, (ast.Tuple, ast.List)) else ()


def split_words(name: str) -> list[str]:
    """`AsyncFor` is two words."""
    words = [""]
    for letter in name:
        words = [*words, letter] if letter.isupper() else [*words[:-1], words[-1] + letter]
    return [word for word in words if word]
