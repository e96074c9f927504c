"""`python -m bench NAME… [--cases …] [--runs N] [--peers …] [--json F] [--quick]`: runs benchmarks and prints their tables.

`python -m bench targets F…` judges the runs in files together; `python -m bench chart F… -o SVG` draws them.
"""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from bench import chart, report
from bench.harness import QUICK, Effort, run
from bench.peers import BEFORE, PEERS, machine

ALL = "all"
QUESTIONS = [
    "step_overhead",
    "chain",
    "black_scholes",
    "wide",
    "mlp_inference",
    "mlp_training",
    "cnn",
    "whole_graphs",
    "networks",
    "monitored_step",
    "loop_lag",
    "concurrent",
    "partial_run",
    "queues",
    "input_pipeline",
    "two_devices",
    "remote_step",
    "cross_worker",
    "transfer",
    "cluster_scale",
    "kserve",
    "http_serving",
    "while_loop",
    "recurrent",
    "summaries",
    "graph_building",
    "graph_import",
    "planning",
    "checkpoints",
    "model_loading",
    "cold_start",
    "first_rounds",
    "memory",
    "import_time",
]

ON_DEMAND = ["packaged_networks", "programs"]
"""Benchmarks that run only if they are named: they need packages from PyPI, or take half an hour."""


def main() -> int:
    """Run the chosen benchmarks; return 1 if a peer failed or its results differed."""
    if sys.argv[1:2] in (["targets"], ["chart"]):
        return _look_at_files(sys.argv[1], sys.argv[2:])
    parser = _parser()
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {*QUESTIONS, *ON_DEMAND, ALL}:
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; see --list")
    if arguments.list:
        for name in [*QUESTIONS, *ON_DEMAND]:
            print(f"{name:17} {import_module(f'bench.{name}').QUESTION}")
        return 0
    effort = QUICK if arguments.quick else Effort()
    peers = arguments.peers
    if arguments.before is not None:
        os.environ[BEFORE] = str(arguments.before.resolve())
        peers = [*peers, "aioexec_before"] if peers else []
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    names = QUESTIONS if ALL in arguments.names or not arguments.names else arguments.names
    runs, is_well = [], True
    for number in range(arguments.runs):
        if arguments.runs > 1:
            print(f"run {number + 1} of {arguments.runs}")
        reports = []
        for name in names:
            reports.append(run(name, peers, effort, arguments.cases))
            report.show(reports[-1])
        is_well = is_well and not any(report.failures(each) for each in reports)
        runs.append(report.as_run(reports))
        if arguments.json is not None:  # after each run: what is there stays if the next one is interrupted
            report.write(arguments.json, runs, effort)
    report.show_verdicts(runs)
    return 0 if is_well else 1


def _look_at_files(what: str, words: list[str]) -> int:
    """Judge or draw the runs in files."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {what}")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what --json has written")
    if what == "chart":
        parser.add_argument("-o", "--output", type=Path, required=True, metavar="SVG")
    arguments = parser.parse_args(words)
    runs = report.read(arguments.files)
    if what == "chart":
        arguments.output.write_text(chart.draw(runs), encoding="utf-8")
    else:
        report.show_verdicts(runs)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="aioexec beside its peers, in one run"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{ALL!r}, or nothing: all of them")
    parser.add_argument(
        "--peers", nargs="+", choices=PEERS, default=[], help="default: all that are installed"
    )
    parser.add_argument(
        "--cases", nargs="+", default=[], metavar="PART", help="only cases whose name contains one of these"
    )
    parser.add_argument(
        "--before", type=Path, metavar="TREE", help="also measure the aioexec of another source tree"
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=1,
        metavar="N",
        help="so often, each with peers started afresh; the spread is shown",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    parser.add_argument("--quick", action="store_true", help="a rough look: few and short rounds")
    parser.add_argument("--list", action="store_true", help="list the questions")
    return parser


if __name__ == "__main__":
    sys.exit(main())
