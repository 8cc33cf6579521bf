"""The graph of a model for TensorBoard: its ops as the recorder sees them, under the modules that call them.

A model and an example of its input go in; an event with a GraphDef comes out. Read next: hub.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.nn.module import Module
from cleargrad.ops.record import Graph, Recorder, Value


class Scopes:
    """Which module every recorded call belongs to, by hooks around the modules' calls."""

    def __init__(self, model: Module, graph: Graph):
        self.graph = graph
        self.now = [type(model).__name__]
        self.of_call: list[str] = []
        self.handles = []
        for name, module in model.named_modules():
            if name:
                label = f"{type(module).__name__}[{name.rpartition('.')[2]}]"
                self.handles.append(module.register_forward_pre_hook(self.entering(label)))
                self.handles.append(module.register_forward_hook(self.leaving, always_call=True))

    def note(self) -> None:
        """Calls since the last look belong to the module that is running."""
        missing = len(self.graph.calls) - len(self.of_call)
        self.of_call += ["/".join(self.now)] * missing

    def entering(self, label: str) -> Any:
        def enter(*_: Any) -> None:
            self.note()
            self.now.append(label)

        return enter

    def leaving(self, *_: Any) -> None:
        self.note()
        self.now.pop()

    def close(self) -> None:
        self.note()
        for handle in self.handles:
            handle.remove()


def recorded(model: Module, inputs: Any) -> tuple[Graph, list[str]]:
    """The graph of one call, and the module of each of its ops."""
    given = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    training = model.training
    recorder = Recorder()
    before = mode.set(grad=False)
    scopes = Scopes(model, recorder.graph)
    try:
        model.eval()
        with recorder:
            output = model(*[recorder.input(x) if isinstance(x, Tensor) else x for x in given])
            outputs = output if isinstance(output, (list, tuple)) else [output]
            graph = recorder.finish([x for x in outputs if isinstance(x, Tensor)])
    finally:
        scopes.close()
        mode.set(**before)
        model.train(training)
    return graph, scopes.of_call


def graph_event(model: Module, inputs: Any) -> Any:
    """The event that TensorBoard draws as a graph."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.versions_pb2 import VersionDef

    graph, modules = recorded(model, inputs)
    names: dict[int, str] = {}
    nodes = []
    parameters = {id(tensor): name for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    for k, value in enumerate(graph.inputs):
        names[value.index] = f"input/{k}"
        nodes.append(node(names[value.index], "IO Node", [], value))
    for k, (value, tensor) in enumerate(graph.outside):
        place = parameters.get(id(tensor), f"tensor.{k}").replace(".", "/")
        names[value.index] = f"{type(model).__name__}/{place}"
        nodes.append(node(names[value.index], "prim::GetAttr", [], value))
    for k, (call, scope) in enumerate(zip(graph.calls, modules, strict=False)):
        name = f"{scope}/{call.op.name}_{k}"
        operands = [names[x.index] for x in call.operands if isinstance(x, Value) and x.index in names]
        names.update({value.index: name for value in call.results})
        nodes.append(node(name, f"aten::{call.op.name}", operands, *call.results))
    for k, value in enumerate(graph.outputs):
        nodes.append(node(f"output/{k}", "IO Node", [names[value.index]], value))
    definition = GraphDef(node=nodes, versions=VersionDef(producer=22))
    return Event(graph_def=definition.SerializeToString())


def node(name: str, op: str, operands: list[str], *results: Value) -> Any:
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    shapes = [
        TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in value.spec.shape])
        for value in results
    ]
    attributes = {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=shapes))}
    return NodeDef(name=name, op=op, input=operands, attr=attributes)
