"""`aioexec bench` measures steps of several callers."""

import json

import pytest

import aioexec as ax
from aioexec import cli


@pytest.fixture
def frozen(tmp_path):
    with ax.Graph().as_default() as graph:
        ax.reduce_sum(ax.placeholder(ax.float32, [None], name="x"), name="y")
    (tmp_path / "frozen.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return str(tmp_path / "frozen.pb")


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4])
def test_latencies_and_throughput_are_printed_as_json(frozen, capsys, concurrency):
    status = cli.main(
        ["bench", frozen, "--feed", "x=4", "--seconds", "0.05", "--concurrency", str(concurrency), "--json"]
    )

    found = json.loads(capsys.readouterr().out)
    assert status == 0
    assert found["concurrency"] == concurrency
    assert found["steps"] >= concurrency
    assert found["steps_per_second"] == pytest.approx(found["steps"] / found["seconds"])
    assert 0 < found["min_ms"] <= found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert set(found["loop_lag"]) == {"p50_ms", "p99_ms", "max_ms", "beats"}


@pytest.mark.slow
def test_latencies_are_printed_for_a_person(frozen, capsys):
    assert cli.main(["bench", frozen, "--feed", "x=4", "--seconds", "0.01"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "steps a second" in lines[0]
    assert lines[1].startswith("latency: min ")
    assert lines[2].startswith("loop lag: p50 ")


@pytest.mark.parametrize("wrong", [["--seconds", "0"], ["--concurrency", "0"]])
def test_arguments_that_mean_nothing_are_usage_errors(frozen, capsys, wrong):
    with pytest.raises(SystemExit) as left:
        cli.main(["bench", frozen, *wrong])

    assert left.value.code == 2
    assert "expected a positive" in capsys.readouterr().err
