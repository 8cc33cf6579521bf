"""torch.profiler: events of ops, of vjps and of named stretches; schedules; the numbers add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cleargrad as cg
from tests.oracle import same

model = cg.nn.Sequential(cg.nn.Linear(4, 8), cg.nn.ReLU(), cg.nn.Linear(8, 2))


def train_once() -> None:
    with cg.profiler.record_function("forward"):
        loss = model(cg.ones(3, 4)).square().mean()
    loss.backward()
    cg.optim.SGD(model.parameters(), lr=0.1).step()


def test_what_is_measured() -> None:
    with cg.profiler.profile(activities=[cg.profiler.ProfilerActivity.CPU], record_shapes=True) as measured:
        train_once()
    rows = {row.key: row for row in measured.key_averages()}
    assert rows["aten::linear"].count == 2
    assert rows["aten::relu"].count == 1
    assert rows["AddmmBackward0"].count == 2
    assert rows["forward"].cpu_time_total >= rows["aten::linear"].cpu_time_total > 0
    assert rows["forward"].self_cpu_time_total < rows["forward"].cpu_time_total
    shapes = {str(row.input_shapes) for row in measured.key_averages(group_by_input_shape=True)}
    assert "[[8], [3, 4], [8, 4]]" in shapes
    times = [row.self_cpu_time_total for row in measured.key_averages()]
    assert measured.key_averages().self_cpu_time_total == pytest.approx(sum(times))


def test_the_table() -> None:
    with cg.autograd.profiler.profile() as measured:
        train_once()
    rows = measured.key_averages()
    lines = rows.table(sort_by="cpu_time_total", row_limit=3).splitlines()
    assert lines[1].split("  ")[-1].strip() == "# of Calls"
    assert lines[3].split()[0] == max(rows, key=lambda row: row.cpu_time_total).key
    assert len(lines) == 3 + 3 + 2
    assert lines[-1].startswith("Self CPU time total: ")


def test_measuring_changes_no_numbers() -> None:
    def gradient(measured: bool) -> Any:
        cg.manual_seed(0)
        model = cg.nn.Sequential(
            cg.nn.Conv2d(1, 2, 3), cg.nn.BatchNorm2d(2), cg.nn.Flatten(), cg.nn.Linear(8, 3)
        )
        with cg.autograd.profiler.profile(enabled=measured):
            model(cg.randn(2, 1, 4, 4)).exp().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    for with_profile, without in zip(gradient(True), gradient(False), strict=True):
        assert cg.equal(with_profile, without)


def test_schedule() -> None:
    def run(T: Any) -> Any:
        schedules = [
            {"wait": 1, "warmup": 1, "active": 2},
            {"wait": 1, "warmup": 1, "active": 2, "repeat": 1, "skip_first": 2},
            {"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1},
        ]
        return [[T.profiler.schedule(**each)(step).name for step in range(12)] for each in schedules]

    same(run)


def test_steps_and_traces(tmp_path: Path) -> None:
    ready: list = []

    def keep(measured: Any) -> None:
        ready.append((measured.step_num, len(measured.events()) > 0))
        cg.profiler.tensorboard_trace_handler(str(tmp_path))(measured)

    schedule = cg.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with cg.profiler.profile(schedule=schedule, on_trace_ready=keep) as measured:
        for _ in range(12):
            train_once()
            measured.step()
    assert ready == [(4, True), (8, True)]
    traces = [json.loads(path.read_text()) for path in tmp_path.glob("*.pt.trace.json")]
    assert len(traces) == 2
    assert {"aten::linear", "forward"} <= {event["name"] for event in traces[0]["traceEvents"]}


def test_a_name_without_a_profile_costs_nothing() -> None:
    @cg.autograd.profiler.record_function("mine")
    def double(x: Any) -> Any:
        return x * 2

    assert double(cg.ones(1)).item() == 2
    with cg.autograd.profiler.profile() as measured:
        double(cg.ones(1))
    assert [event.key for event in measured.events() if event.is_user_annotation] == ["mine"]
