"""SummaryWriter: what was written is read back from the event files."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef

import cleargrad as cg
from cleargrad.utils.tensorboard import SummaryWriter


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(folder: Path) -> list[Any]:
    """All events of the files in a folder, with their checksums checked."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        rest = path.read_bytes()
        while rest:
            (length,) = struct.unpack("<Q", rest[:8])
            body = rest[12 : 12 + length]
            assert struct.unpack("<I", rest[8:12])[0] == masked(rest[:8])
            assert struct.unpack("<I", rest[12 + length : 16 + length])[0] == masked(body)
            found.append(Event.FromString(body))
            rest = rest[16 + length :]
    return found


def values(folder: Path) -> dict[str, tuple[int, Any]]:
    return {value.tag: (event.step, value) for event in events(folder) for value in event.summary.value}


def test_curves(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", cg.tensor(step / 2, requires_grad=True), step)
        writer.add_scalar("lr", 0.5, global_step=cg.tensor(7))
        writer.add_scalars("run/both", {"a": cg.tensor(1.0), "b": 2}, 5)
    points = [(e.step, v.simple_value) for e in events(tmp_path) for v in e.summary.value if v.tag == "loss"]
    assert points == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert values(tmp_path)["lr"][0] == 7
    step, value = values(tmp_path / "run_both_b")["run/both"]
    assert (step, value.simple_value) == (5, 2.0)


def test_histograms(tmp_path: Path) -> None:
    data = cg.tensor([1.0, 2.0, 2.0, 5.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", data, 1)
        writer.add_histogram("half", data.bfloat16(), 1, bins="auto")
    histogram = values(tmp_path)["weights"][1].histo
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (1.0, 5.0, 4, 10.0)
    assert sum(histogram.bucket) == 4
    assert values(tmp_path)["half"][1].histo.num == 4


def test_images(tmp_path: Path) -> None:
    picture = cg.arange(2 * 4 * 5 * 3, dtype=cg.float32).reshape(2, 3, 4, 5) / 120
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", picture[0], 1)
        writer.add_image("bytes", cg.full((4, 5, 3), 200, dtype=cg.uint8), 1, dataformats="HWC")
        writer.add_images("grid", picture, 1)
    one = values(tmp_path)["one"][1].image
    shown = np.asarray(Image.open(io.BytesIO(one.encoded_image_string)))
    assert (one.height, one.width) == (4, 5)
    assert np.abs(shown.transpose(2, 0, 1) - picture[0].numpy() * 255).max() <= 1
    assert values(tmp_path)["grid"][1].image.width == 10
    assert (
        np.asarray(Image.open(io.BytesIO(values(tmp_path)["bytes"][1].image.encoded_image_string)))[0, 0, 0]
        == 200
    )


def test_text_settings_points_and_curves_of_classifiers(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("notes", "hello", 2)
        writer.add_hparams(
            {"lr": 0.1, "name": "sgd", "big": True}, {"accuracy": cg.tensor(0.5)}, run_name="run"
        )
        writer.add_embedding(cg.arange(6.0).reshape(3, 2), metadata=["a", "b", "c"], tag="words")
        writer.add_pr_curve("pr", cg.tensor([0, 1, 1]), cg.tensor([0.1, 0.8, 0.6]), 3)
        writer.flush()
        assert values(tmp_path)["notes/text_summary"][1].tensor.string_val == [b"hello"]
        assert writer.get_logdir() == str(tmp_path)
    assert values(tmp_path)["pr"][1].tensor.tensor_shape.dim[0].size == 6
    run = values(tmp_path / "run")
    assert run["accuracy"][1].simple_value == 0.5
    assert b"sgd" in run["_hparams_/session_start_info"][1].metadata.plugin_data.content
    assert "words" in (tmp_path / "projector_config.pbtxt").read_text()
    with pytest.raises(TypeError, match="should be dictionary"):
        SummaryWriter(str(tmp_path)).add_hparams([], {})


def test_the_graph_of_a_model(tmp_path: Path) -> None:
    model = cg.nn.Sequential(cg.nn.Linear(3, 4), cg.nn.Dropout(), cg.nn.ReLU())
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, cg.ones(2, 3))
    assert model.training and not model[0]._forward_hooks
    (graph,) = [GraphDef.FromString(event.graph_def) for event in events(tmp_path) if event.graph_def]
    nodes = {node.name: node for node in graph.node}
    assert {"input/0", "output/0", "Sequential/0/weight"} <= set(nodes)
    assert any(name.startswith("Sequential/Linear[0]/") for name in nodes)
    assert all(operand in nodes for node in graph.node for operand in node.input)
    sizes = [dim.size for dim in nodes["output/0"].attr["_output_shapes"].list.shape[0].dim]
    assert sizes == [2, 4]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"tensorboardX, which is not installed[\s\S]*pip install"):
        SummaryWriter("somewhere")
