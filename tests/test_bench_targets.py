"""Targets refer to existing benchmarks; verdicts and the chart show the results of runs."""

from importlib import import_module
from xml.etree import ElementTree

import pytest

from bench import chart, networks, report
from bench.__main__ import QUESTIONS
from bench.harness import Effort
from bench.peers import PEERS
from bench.targets import TARGETS, verdicts


def run_of(benchmark: str, **cases: dict[str, float]) -> dict:
    """A run of one benchmark: for each case the seconds of peers."""
    return {
        benchmark: {
            "cases": {
                case.replace("_", " "): {
                    "peers": {peer: {"minimum_s": seconds} for peer, seconds in peers.items()}
                }
                for case, peers in cases.items()
            }
        }
    }


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.workload}-{target.peer}")
def test_a_target_names_a_case_and_a_peer_there_are(target):
    module = import_module(f"bench.{target.benchmark}")

    assert target.benchmark in QUESTIONS
    assert {target.case, target.less or target.case} <= {case.name for case in module.CASES}
    assert not target.peer or (target.peer in PEERS and hasattr(module, target.peer))
    assert (target.ratio > 0) != (target.limit > 0)
    assert (target.peer != "") == (target.ratio > 0)


def test_a_ratio_is_that_of_one_run_and_the_median_run_decides():
    runs = [
        run_of("mlp_training", SGD={"aioexec": 1.0, "tensorflow": ratio, "jax": 1.0})
        for ratio in (1.2, 2, 1.5)
    ]

    tensorflow, jax = verdicts(runs)

    assert (tensorflow.target.peer, tensorflow.shown, tensorflow.is_met) == (
        "tensorflow",
        [1.2, 2, 1.5],
        True,
    )
    assert (jax.target.peer, jax.median, jax.is_met) == ("jax", 1.0, False)


def test_the_price_of_something_is_the_difference_of_two_cases():
    run = run_of(
        "monitored_step",
        plain_step={"aioexec": 10e-6, "tensorflow": 100e-6},
        **{"monitored,_3_stock_hooks": {"aioexec": 20e-6, "tensorflow": 180e-6}},
    )

    (verdict,) = verdicts([run])

    assert verdict.shown == [pytest.approx(8.0)]


def test_a_limit_is_kept_by_what_aioexec_shows_itself():
    peers = {"aioexec": {"median_s": 0.0015, "lag max ms": 12.0}}
    run = {"loop_lag": {"cases": {"100 small steps a turn": {"peers": peers}}}}

    p99, most = verdicts([run])

    assert (p99.shown, p99.is_met) == ([1.5], True)
    assert (most.shown, most.is_met) == ([12.0], False)


def test_a_new_version_may_move_the_p99_by_a_tenth():
    peers = {"aioexec": {"minimum_s": 0.003, "p99 moved %": 12.5}}
    run = {"http_serving": {"cases": {"a version loads, 300 requests/s": {"peers": peers}}}}

    (verdict,) = verdicts([run])

    assert (verdict.shown, verdict.is_met, verdict.target.unit) == ([12.5], False, "%")


def test_a_load_is_held_against_tensorflow_and_its_first_answer_against_a_second():
    peers = {
        "aioexec": {"minimum_s": 0.25, "first answer ms": 90.0},
        "tensorflow": {"minimum_s": 0.3, "first answer ms": 170.0},
    }
    run = {"model_loading": {"cases": {"tf.saved_model.save": {"peers": peers}}}}

    load, answer = verdicts([run])

    assert load.shown == [pytest.approx(1.2)]
    assert load.is_met
    assert (answer.shown, answer.is_met) == ([90.0], True)


def run_of_network(case: str, peak: float) -> dict:
    peers = {
        "aioexec": {"minimum_s": 1.0, "resident MiB": 200.0, "not native %": 2.0, "lag p99 ms": 0.5},
        "tensorflow": {"minimum_s": 1.1, "resident MiB": 300.0},
        "peak": {"minimum_s": peak},
    }
    return {"networks": {"cases": {case: {"peers": peers}}}}


@pytest.mark.parametrize(("peak", "word"), [(0.84, "NO"), (0.87, "at 87% of the peak"), (1.1, "NO")])
def test_a_network_near_the_peak_but_not_beyond_meets_its_ratio_and_says_so(peak, word, capsys):
    run = run_of_network("U-Net, batch 1", peak)

    report.show_verdicts([run])

    assert [verdict.is_met for verdict in verdicts([run]) if verdict.target.is_of_times] == [word != "NO"]
    assert word in capsys.readouterr().out


def test_memory_and_the_native_share_are_judged_whatever_the_peak_is_and_are_not_drawn():
    run = run_of_network("U-Net, batch 1", 1.0)

    found = {verdict.target.figure: verdict for verdict in verdicts([run])}

    assert (found["resident MiB"].shown, found["resident MiB"].is_met) == ([1.5], True)
    assert (found["not native %"].shown, found["not native %"].is_met) == ([2.0], False)
    assert (found["lag p99 ms"].shown, found["lag p99 ms"].is_met) == ([0.5], True)
    assert "memory" not in chart.draw([run])


def test_every_network_must_be_faster_than_tensorflow():
    least = {
        target.case: target.ratio
        for target in TARGETS
        if target.benchmark == "networks" and target.peer == "tensorflow" and target.is_of_times
    }

    assert {*least} == {case.name for case in networks.CASES}
    assert min(least.values()) == 1.2


def test_what_failed_or_did_not_run_shows_nothing():
    run = run_of("mlp_training", SGD={"aioexec": 1.0})
    run["mlp_training"]["cases"]["SGD"]["peers"]["jax"] = {"error": "results differ"}

    assert verdicts([run]) == []


def test_runs_are_written_and_read_and_drawn(tmp_path, capsys):
    run = run_of("wide", **{"256_branches": {"aioexec": 1.0, "tensorflow": 0.5, "jax": 1000.0}})
    report.write(tmp_path / "one.json", [run], Effort())
    report.write(tmp_path / "two.json", [run, run], Effort())

    runs = report.read([tmp_path / "one.json", tmp_path / "two.json"])
    report.show_verdicts(runs)
    drawn = ElementTree.fromstring(chart.draw(runs))

    assert runs == [run] * 3
    assert "1 of 2 targets met" in capsys.readouterr().out
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"256 branches, joined", "TensorFlow", "JAX", "0.5", "1e+03"} <= {*texts}
    bars = [float(bar.attrib["width"]) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert bars == [pytest.approx(chart._x(1) - chart._x(0.5)), pytest.approx(chart._x(128) - chart._x(1))]
