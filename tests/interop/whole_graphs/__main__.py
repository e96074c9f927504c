"""`python -m tests.interop.whole_graphs PROGRAM FILE`: build a program with TensorFlow and write its typical run to a file.

The file is NumPy's (`.npz`): `graph_def`, the bytes; `init` and `targets`, names of operations; `fetches` and `feeds`, names of
tensors; `feed0`, `feed1`, …, their values. Reading it does not need TensorFlow.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.interop.whole_graphs.running import PROGRAMS, recorded_without_results


def main() -> None:
    import tensorflow

    program, file = sys.argv[1:]
    found = recorded_without_results(tensorflow.compat.v1, PROGRAMS[program])
    init, run = found.runs[0], found.runs[found.typical]
    np.savez(
        file,
        graph_def=np.frombuffer(found.graph_def.SerializeToString(), np.uint8),
        init=np.array(init.targets, str),
        targets=np.array(run.targets, str),
        fetches=np.array(run.fetches, str),
        feeds=np.array(list(run.feeds), str),
        **{f"feed{k}": value for k, value in enumerate(run.feeds.values())},
    )


if __name__ == "__main__":
    main()
