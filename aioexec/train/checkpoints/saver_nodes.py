"""Finds the nodes of savers in a GraphDef: each saver has a scope of its own, with a node that saves or restores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aioexec.graph.io.sub_graphs import node_of_input

if TYPE_CHECKING:
    from aioexec.formats.protos import GraphDef, SaverDef

_SAVING: Final = frozenset({"Save", "SaveSlices", "SaveV2", "Restore", "RestoreSlice", "RestoreV2"})


def extraneous_saver_nodes(graph_def: GraphDef, saver_def: SaverDef | None) -> set[str]:
    """The names of the nodes in the scopes of savers other than that of `saver_def`."""
    savers = {_scope(node.name) for node in graph_def.node if node.op in _SAVING}
    if saver_def is not None:
        savers -= {_scope(node_of_input(saver_def.save_tensor_name)), _scope(saver_def.restore_op_name)}
    others = tuple(f"{scope}/" for scope in savers if scope)
    return {node.name for node in graph_def.node if node.name.startswith(others)}


def _scope(name: str) -> str:
    return name.rpartition("/")[0]
