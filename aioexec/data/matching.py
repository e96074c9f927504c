"""Names of files that match patterns."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.identity import identity
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.math.arithmetic import add
from aioexec.ops.math.comparison import greater
from aioexec.ops.math.extremes import maximum
from aioexec.ops.strings.functions import reduce_join


def matching_files(file_pattern: Any) -> Tensor:
    """Return the names of files that match a pattern, or one of several; a step that finds none fails."""
    pattern = convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
    names = apply_op("MatchingFiles", pattern)
    condition = greater(shape(names)[0], 0, name="match_not_empty")
    message = add("No files matched pattern: ", reduce_join(pattern, separator=", "), name="message")
    check = Assert(condition, [message], summarize=1, name="assert_not_empty")
    with get_default_graph().control_dependencies([check]):
        found: Tensor = identity(names)
        return found


def count_of(names: Tensor) -> Tensor:
    """Return the number of names, at least 1."""
    return maximum(shape(names, out_type=dtypes.int64)[0], 1)
