"""Versions under the names of `tf.version`."""

from __future__ import annotations

import platform as _platform
from typing import Final

from aioexec.graph.io.graphdef_export import (
    GRAPH_DEF_VERSION as GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER,
)

VERSION: Final = "1.15.5"
"""The version of TensorFlow whose names these are, for programs that compare it; that of the package is
`aioexec.__version__`."""

GIT_VERSION: Final = "unknown"
"""As of a TensorFlow that was not built from a repository."""

COMPILER_VERSION: Final = _platform.python_compiler()
"""The compiler of the interpreter; kernels are compiled by LLVM."""
