"""Operations that initialize a loaded model, under the names of `tf.saved_model.main_op`."""

from __future__ import annotations

from typing import Any

from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.lookup.lookup_tables import tables_initializer
from aioexec.ops.state.initialization import global_variables_initializer, local_variables_initializer


def main_op() -> Operation:
    """Make an operation that initializes all variables and tables of the default graph."""
    return group(global_variables_initializer(), local_variables_initializer(), tables_initializer())


def main_op_with_restore(restore_op_name: Any) -> Operation:
    """Make an operation that initializes all variables and tables, and then runs the restore operation.

    Args:
        restore_op_name: the restore operation, or its name.
    """
    graph = get_default_graph()
    with graph.control_dependencies([main_op()]):
        restore = (
            graph.as_graph_element(restore_op_name) if isinstance(restore_op_name, str) else restore_op_name
        )
        return group(restore)
