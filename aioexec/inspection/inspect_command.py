"""`aioexec inspect`: shows what a model or checkpoint in files consists of, without running it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from aioexec.checkpoint_tools.command import show_tensors
from aioexec.checkpoint_tools.stored_tensors import open_tensors
from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import byte_size, print_json, print_table, shape_text
from aioexec.errors import OpError
from aioexec.formats.protos import MetaGraphDef
from aioexec.inspection.graph_files import read_message
from aioexec.inspection.summary import GraphSummary, ParameterSummary, TensorSummary, summarize_graph
from aioexec.saved_model.model_files import contains_saved_model, read_saved_model

_SHOWN = 20
"""The most ops and parameters in a table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=Path,
        help="a SavedModel's folder, a file with a GraphDef or MetaGraphDef, or a checkpoint",
    )
    add_json(parser)
    add_examples(
        parser,
        """
inputs, outputs, ops and sizes of a SavedModel
aioexec inspect exports/1
which ops of a frozen graph aioexec lacks
aioexec inspect frozen.pb --json | jq '.graphs[].unsupported'
the tensors of a checkpoint
aioexec inspect model.ckpt-1000
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the model and return the exit status."""
    path: Path = arguments.model
    if (not contains_saved_model(path) and not path.is_file()) or _is_checkpoint_file(path):
        with open_tensors(os.fspath(path)) as found:
            show_tensors(found, as_json=arguments.json)
        return 0
    kind, graphs = _graphs(path)
    if arguments.json:
        print_json({"path": os.fspath(path), "kind": kind, "graphs": graphs})
        return 0
    print(f"{path}: {kind}")
    for graph in graphs:
        _show(graph)
    return 0


def _is_checkpoint_file(path: Path) -> bool:
    return path.suffix in (".index", ".safetensors") or ".data-" in path.name


def _graphs(path: Path) -> tuple[str, list[GraphSummary]]:
    """The kind of a model, and its graphs.

    Raises:
        DataLossError: the file holds none.
    """
    if contains_saved_model(path):
        model = read_saved_model(path)
        return "SavedModel", [
            summarize_graph(each.graph_def, each.meta_info_def.tags, each.signature_def)
            for each in model.meta_graphs
        ]
    try:
        message = read_message(path)
    except OpError:
        if path.name in ("saved_model.pb", "saved_model.pbtxt"):
            return _graphs(path.parent)
        raise
    if isinstance(message, MetaGraphDef):
        return "MetaGraphDef", [
            summarize_graph(message.graph_def, message.meta_info_def.tags, message.signature_def)
        ]
    return "GraphDef", [summarize_graph(message)]


def _show(graph: GraphSummary) -> None:
    parameters, size = graph.parameters
    print(
        f"\ngraph {graph.tags or ''}: {graph.nodes} nodes, {graph.functions} functions, "
        f"{parameters:,} parameters, {byte_size(size)}".replace("graph :", "graph:")
    )
    if graph.unsupported:
        print(f"ops that aioexec lacks: {', '.join(graph.unsupported)}")
    for name, signature in graph.signatures.items():
        print(f"\nsignature {name} ({signature.method or 'no method'})")
        _show_tensors({"input": signature.inputs, "output": signature.outputs})
    if not graph.signatures:
        print()
        _show_tensors({"input": graph.inputs, "output": graph.outputs})
    print()
    ops = list(graph.ops.items())
    print_table(["op", "nodes"], ([op, str(count)] for op, count in ops[:_SHOWN]), right=["nodes"])
    _say_more(len(ops), "ops")
    both = [*graph.variables, *graph.constants]
    if both:
        print()
        _show_parameters(sorted(both, key=lambda each: -each.bytes))


def _show_tensors(tensors: dict[str, list[TensorSummary]]) -> None:
    rows = (
        [role, each.key, each.tensor, each.dtype, shape_text(each.shape)]
        for role, found in tensors.items()
        for each in found
    )
    print_table(["", "name", "tensor", "dtype", "shape"], rows)


def _show_parameters(found: list[ParameterSummary]) -> None:
    rows = (
        [
            each.name,
            each.kind,
            each.dtype,
            shape_text(each.shape),
            f"{each.parameters:,}",
            byte_size(each.bytes),
        ]
        for each in found[:_SHOWN]
    )
    print_table(["name", "", "dtype", "shape", "parameters", "size"], rows, right=["parameters", "size"])
    _say_more(len(found), "variables and constants")


def _say_more(count: int, what: str) -> None:
    if count > _SHOWN:
        print(f"and {count - _SHOWN} more {what}: --json has all")
