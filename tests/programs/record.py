"""Writes `expected.json`: runs all programs with TensorFlow, which has to be installed (the extra `interop`)."""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

from tests.programs.programs import EXPECTED, PROGRAMS
from tests.programs.running import run_tensorflow

TARGET = Path(__file__).with_name("expected.json")


def main(names: list[str]) -> None:
    """Record the named programs, or all."""
    import tensorflow

    found = dict(EXPECTED)
    for program in PROGRAMS:
        if not names or program.name in names:
            with tempfile.TemporaryDirectory() as folder:
                found[program.name] = run_tensorflow(tensorflow.compat.v1, program, Path(folder))
    lines = [
        f'"{program.name}": [{", ".join(format(value, ".7g") for value in found[program.name])}]'
        for program in PROGRAMS
        if program.name in found
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
