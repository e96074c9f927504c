"""The programs, with the steps for which they are run, and what they return with TensorFlow."""

import json
from pathlib import Path

from tests.programs.running import Program

EXPECTED: dict[str, list[float]] = json.loads(
    Path(__file__).with_name("expected.json").read_text(encoding="utf-8")
)
"""What `main` of each program returns; written by `python -m tests.programs.record`, or by hand if TensorFlow cannot run it."""

PROGRAMS = [
    Program("linear_regression", 4),
    Program("logistic_regression", 12),
    Program("mlp", 12),
    Program("convnet", 8),
    Program("dqn", 8),
]
