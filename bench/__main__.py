"""`python -m bench NAME… [--peers …] [--json F] [--quick]`: run benchmarks and print their tables."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from bench import report
from bench.harness import QUICK, Effort, run
from bench.peers import PEERS, machine

QUESTIONS = [
    "step_overhead",
    "chain",
    "black_scholes",
    "wide",
    "mlp_inference",
    "mlp_training",
    "cnn",
    "whole_graphs",
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
    "while_loop",
    "recurrent",
    "summaries",
    "graph_import",
    "planning",
    "checkpoints",
    "cold_start",
    "memory",
    "import_time",
]


def main() -> int:
    """Run the chosen benchmarks; return 1 if a peer failed or its results differed."""
    parser = _parser()
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(QUESTIONS):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; see --list")
    if arguments.list:
        for name in QUESTIONS:
            print(f"{name:15} {import_module(f'bench.{name}').QUESTION}")
        return 0
    effort = QUICK if arguments.quick else Effort()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    reports = []
    for name in arguments.names or QUESTIONS:
        reports.append(run(name, arguments.peers, effort))
        report.show(reports[-1])
    if arguments.json is not None:
        report.write(arguments.json, reports, effort)
    return 1 if any(report.failures(each) for each in reports) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="aioexec beside its peers, in one run"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument(
        "--peers", nargs="+", choices=PEERS, default=[], help="default: all that are installed"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    parser.add_argument("--quick", action="store_true", help="a rough look: few and short rounds")
    parser.add_argument("--list", action="store_true", help="list the questions")
    return parser


if __name__ == "__main__":
    sys.exit(main())
