"""`aioexec explain`, `aioexec trace` and `aioexec warm` on graphs in files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import aioexec as ax
from aioexec import cli
from aioexec.devices.jit import usual_kernels
from aioexec.graph.kernels.kernel import ElementwiseKernel
from aioexec.inspection.models import results


@pytest.fixture
def trained(tmp_path) -> Path:
    """A meta graph: a product with a variable, an update of it, and an op without a native kernel."""
    with ax.Graph().as_default():
        x = ax.placeholder(ax.float32, [None, 3], name="x")
        w = ax.get_variable("w", initializer=ax.constant([[1.0], [2.0], [3.0]]))
        y = ax.matmul(x, w, name="y")
        ax.train.GradientDescentOptimizer(0.1).minimize(ax.reduce_mean(ax.square(y)), name="train")
        ax.as_string(y, name="shown")
        ax.train.export_meta_graph(str(tmp_path / "model.meta"))
    return tmp_path / "model.meta"


@pytest.mark.slow
def test_explain_as_json_has_items_rows_costs_and_breaks(trained, capsys):
    status = cli.main(
        ["explain", str(trained), "--fetch", "y", "train", "shown", "--feed", "x=4,3", "--json"]
    )

    plan = json.loads(capsys.readouterr().out)
    (partition,) = plan["partitions"]
    programs = [program for item in partition["items"] for program in item["programs"]]
    rows = [row for program in programs for row in program["rows"]]
    products = [row for row in rows if row["kind"] == "kernel" and "MatMul" in row["ops"]]
    assert (status, plan["feeds"], plan["fetches"], plan["targets"]) == (0, 1, 2, 1)
    assert plan["breaks_by_op"] == {"AsString": 1}
    assert 0.5 < plan["native_share"] < 1
    assert partition["jit"] == "eager"
    assert any(item["writes"] == ["w"] for item in partition["items"])
    assert "y" in [name for row in products for name in row["nodes"]]
    assert all(row["cost_ns"] > 0 for row in products)
    assert [row["reason"] for row in rows if row["kind"] == "break"] == ["no native kernel"]


@pytest.mark.slow
def test_explain_prints_a_table(trained, capsys):
    status = cli.main(["explain", str(trained), "--fetch", "y", "--feed", "x=4,3"])

    shown = capsys.readouterr().out
    assert status == 0
    assert "1 feeds, 1 fetches, 0 targets;" in shown
    assert "100.0% of them native" in shown
    assert "arena" in shown
    assert any(line.split()[1:4] == ["kernel", "MatMul", "y"] for line in shown.splitlines())


@pytest.mark.slow
def test_trace_writes_rows_by_thread_for_each_step(trained, tmp_path, capsys):
    path = tmp_path / "trace.json"

    status = cli.main(
        ["trace", str(trained), "--fetch", "train", "--feed", "x=4,3", "--steps", "2", "-o", str(path)]
    )

    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    nodes = [(event["args"]["step"], event["args"]["name"]) for event in events if event.get("cat") == "Op"]
    assert status == 0
    assert [event["name"] for event in events if event.get("cat") == "Step"] == ["step 0", "step 1"]
    assert {"y", "train/update_w/ApplyGradientDescent"} <= {name for step, name in nodes if step == 1}
    assert "2 steps" in capsys.readouterr().out


def test_what_is_wrong_is_said_in_a_line(trained, capsys):
    status = cli.main(["explain", str(trained), "--fetch", "y"])

    assert status == 1
    assert capsys.readouterr().err.startswith(
        "aioexec explain: InvalidArgumentError: the step needs x:0, of shape (?, 3)"
    )


@pytest.mark.parametrize("wrong", [["--feed", "x"], ["--steps", "0"]])
def test_arguments_that_mean_nothing_are_refused(trained, capsys, wrong):
    with pytest.raises(SystemExit) as left:
        cli.main(["trace", str(trained), "--fetch", "y", "-o", "nowhere", *wrong])

    assert left.value.code == 2
    assert "usage" in capsys.readouterr().err


# warm


def warm(arguments: list[str], cache: Path) -> str:
    """What `aioexec warm` prints in a process of its own."""
    environment = {**os.environ, "AIOEXEC_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "aioexec.cli", "warm", *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_warm_compiles_the_kernels_of_a_model_once(trained, tmp_path):
    arguments = [str(trained), "--fetch", "y", "--feed", "x=4,3"]
    pattern = r"kernels: (\d+) came with the package, (\d+) were in the cache, (\d+) compiled, 0 failed"

    first = re.fullmatch(pattern, warm(arguments, tmp_path / "cache").strip())
    second = re.fullmatch(pattern, warm(arguments, tmp_path / "cache").strip())

    assert first is not None
    assert second is not None
    assert sum(map(int, first.groups())) > 0
    assert int(first[2]) == 0
    assert int(second[3]) == 0
    assert int(second[2]) == int(first[3])


@pytest.mark.slow
def test_warm_without_a_model_compiles_the_usual_kernels_that_are_not_shipped(tmp_path, monkeypatch, capsys):
    body = "z = x * x + 0.123456"
    kernel = ElementwiseKernel(body, (("x", "float32"),), (("z", "float32"),), "vv")
    monkeypatch.setattr(usual_kernels, "read", lambda: [kernel])
    monkeypatch.setenv("AIOEXEC_CACHE_DIR", str(tmp_path / "cache"))

    assert cli.main(["warm"]) == 0
    assert "1 usual kernels are in" in capsys.readouterr().out
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_the_results_of_a_graph_are_what_nothing_in_it_uses():
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2], name="x")
        y = ax.exp(x, name="y")
        first, second = ax.negative(y, name="first"), ax.sqrt(y, name="second")

    assert results(graph) == [first, second]


def test_neither_initializers_nor_what_saves_and_restores_are_results_of_a_graph():
    with ax.Graph().as_default() as graph:
        y = ax.exp(ax.get_variable("v", [2]), name="y")
        ax.train.Saver()

    assert results(graph) == [y]


def test_a_graph_without_results_is_refused():
    with ax.Graph().as_default() as empty, pytest.raises(ax.errors.InvalidArgumentError, match="--fetch"):
        results(empty)
