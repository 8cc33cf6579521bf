"""torch.utils._pytree: nested lists, tuples and dictionaries taken apart into leaves and put together again.

A `TreeSpec` remembers the form. Classes of the program's own are leaves until `register_pytree_node` says how to
take them apart. Read next: utils/benchmark/__init__.py.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    """How a kind of container is taken apart, into (children, context), and put together."""

    type: type
    flatten_fn: Callable[[Any], tuple[list, Any]]
    unflatten_fn: Callable[[list, Any], Any]


@dataclass(frozen=True, eq=True)
class TreeSpec:
    """The form of a tree: the kind of container, what it needs besides its children, and their forms."""

    type: Any
    context: Any = None
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self.children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable) -> PyTree:
        return tree_unflatten(leaves, self)

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The form of a leaf."""

    def __init__(self) -> None:
        super().__init__(None)


class SequenceKey(NamedTuple):
    """A step of a path to a leaf: a place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


class MappingKey(NamedTuple):
    """A step of a path to a leaf: a key of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class GetAttrKey(NamedTuple):
    """A step of a path to a leaf: an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


def _dict_flatten(tree: Any) -> tuple[list, list]:
    return list(tree.values()), list(tree.keys())


def _dict_flatten_with_keys(tree: Any) -> tuple[list, list]:
    values, keys = _dict_flatten(tree)
    return [(MappingKey(key), value) for key, value in zip(keys, values, strict=True)], keys


def _dict_unflatten(values: Iterable, context: list) -> dict:
    return dict(zip(context, values, strict=True))


SUPPORTED_NODES: dict[Any, NodeDef] = {
    node.type: node
    for node in (
        NodeDef(list, lambda tree: (tree, None), lambda leaves, _: list(leaves)),
        NodeDef(tuple, lambda tree: (list(tree), None), lambda leaves, _: tuple(leaves)),
        NodeDef(dict, _dict_flatten, _dict_unflatten),
        NodeDef(OrderedDict, _dict_flatten, lambda leaves, keys: OrderedDict(zip(keys, leaves, strict=True))),
        NodeDef(
            defaultdict,
            lambda tree: (list(tree.values()), [tree.default_factory, list(tree.keys())]),
            lambda leaves, context: defaultdict(context[0], zip(context[1], leaves, strict=True)),
        ),
        NodeDef(deque, lambda tree: (list(tree), tree.maxlen), lambda leaves, length: deque(leaves, length)),
    )
}
NAMED_TUPLE = NodeDef(tuple, lambda tree: (list(tree), type(tree)), lambda leaves, kind: kind(*leaves))


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, **options: Any) -> None:
    """Makes a class a container."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def is_namedtuple(obj: Any) -> bool:
    kind = obj if isinstance(obj, type) else type(obj)
    return issubclass(kind, tuple) and kind is not tuple and getattr(kind, "_fields", None) is not None


def node_of(tree: Any) -> NodeDef | None:
    """How a tree's root is taken apart; None for a leaf."""
    if is_namedtuple(tree):
        return NAMED_TUPLE
    return SUPPORTED_NODES.get(type(tree))


def _get_node_type(tree: Any) -> Any:
    """The class a tree's root is registered as."""
    return namedtuple if is_namedtuple(tree) else type(tree)


def _is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or node_of(tree) is None


def tree_flatten(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> tuple[list, TreeSpec]:
    """The leaves in order, and the form."""
    node = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if node is None:
        return [tree], LeafSpec()
    children, context = node.flatten_fn(tree)
    leaves: list = []
    specs = []
    for child in children:
        found, spec = tree_flatten(child, is_leaf)
        leaves += found
        specs.append(spec)
    kind = type(tree) if node is NAMED_TUPLE else node.type
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The tree of a form with these leaves."""
    found = list(leaves)
    if len(found) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(found)} but the spec refers to a "
            f"pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return built(iter(found), treespec)


def built(leaves: Any, spec: TreeSpec) -> PyTree:
    if spec.is_leaf():
        return next(leaves)
    children = [built(leaves, child) for child in spec.children_specs]
    node = NAMED_TUPLE if is_namedtuple(spec.type) else SUPPORTED_NODES[spec.type]
    return node.unflatten_fn(children, spec.context)


def tree_leaves(tree: PyTree, is_leaf: Callable | None = None) -> list:
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable | None = None) -> Iterable:
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable | None = None) -> PyTree:
    """A tree of the same form, made leaf by leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [parts_like(rest, spec) for rest in rests]
    return tree_unflatten([func(*together) for together in zip(leaves, *others, strict=True)], spec)


def parts_like(tree: PyTree, spec: TreeSpec) -> list:
    """The parts of a tree at the places where a form has its leaves."""
    if spec.is_leaf():
        return [tree]
    node = node_of(tree)
    children = [] if node is None else node.flatten_fn(tree)[0]
    if len(children) != spec.num_children:
        raise ValueError(
            f"Node arity mismatch; expected {spec.num_children} children of {spec.type}: {tree!r}"
        )
    return [
        part
        for child, below in zip(children, spec.children_specs, strict=True)
        for part in parts_like(child, below)
    ]


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable | None = None) -> PyTree:
    """Calls a function on every leaf and gives the tree back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(kinds: Any) -> Callable:
    """A decorator: the function is called for leaves of some type, others stay."""

    def limit(func: Callable) -> Callable:
        return lambda x: func(x) if isinstance(x, kinds) else x

    return limit


def tree_map_only(kinds: Any, func: Callable, tree: PyTree, is_leaf: Callable | None = None) -> PyTree:
    return tree_map(map_only(kinds)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree: PyTree, is_leaf: Callable | None = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable, tree: PyTree, is_leaf: Callable | None = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def keys_below(tree: PyTree, count: int) -> list:
    """The steps from a tree's root to its children."""
    if is_namedtuple(tree):
        return [GetAttrKey(name) for name in tree._fields]
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    return [SequenceKey(place) for place in range(count)]


def tree_leaves_with_path(tree: PyTree, is_leaf: Callable | None = None) -> list[tuple[tuple, Any]]:
    """Every leaf with the steps that lead to it."""
    if _is_leaf(tree, is_leaf):
        return [((), tree)]
    node = node_of(tree)
    children = [] if node is None else list(node.flatten_fn(tree)[0])
    return [
        ((step, *path), leaf)
        for step, child in zip(keys_below(tree, len(children)), children, strict=True)
        for path, leaf in tree_leaves_with_path(child, is_leaf)
    ]


def tree_flatten_with_path(tree: PyTree, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable | None = None
) -> PyTree:
    """A tree of the same form, made leaf by leaf by a function that also sees the steps to the leaf."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [parts_like(rest, spec) for rest in rests]
    made = [func(path, leaf, *more) for (path, leaf), *more in zip(found, *others, strict=True)]
    return tree_unflatten(made, spec)


def keystr(kp: tuple) -> str:
    """A path as Python writes it: `[0]['weight'].name`."""
    return "".join(map(str, kp))
