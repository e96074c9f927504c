"""`aioexec saved-model`: shows what a SavedModel holds, and runs a signature, as TensorFlow's saved_model_cli does."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import print_json
from aioexec.errors import AlreadyExistsError, NotFoundError
from aioexec.saved_model.command_inputs import expression_inputs, file_inputs
from aioexec.saved_model.constants import INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY
from aioexec.saved_model.loaded_model import load
from aioexec.saved_model.model_files import meta_graph_of, read_saved_model

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef, SavedModel, SignatureDef, TensorInfo, TensorShapeProto

_SHOW: Final = "show the graphs, signatures and ops of a SavedModel"
_RUN: Final = "run a signature, and show or save its outputs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    choices = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="action")
    show = choices.add_parser("show", help=_SHOW, description=_SHOW)
    _add_model(show)
    show.add_argument("--all", action="store_true", help="show everything")
    show.add_argument("--list_ops", action="store_true", help="show the ops of the graph of --tag_set")
    add_json(show)
    add_examples(
        show,
        """
everything, as saved_model_cli shows it
aioexec saved-model show --dir exports/1 --all
the tensors of a signature
aioexec saved-model show --dir exports/1 --tag_set serve --signature_def serving_default
""",
    )
    run_parser = choices.add_parser("run", help=_RUN, description=_RUN)
    _add_model(run_parser)
    run_parser.add_argument(
        "--inputs", metavar="NAME=FILE[;…]", default="", help="inputs from .npy or .npz files"
    )
    run_parser.add_argument(
        "--input_exprs",
        metavar="NAME=VALUE[;…]",
        default="",
        help="inputs as literals, or np.ones((2, 3)) and its like",
    )
    run_parser.add_argument("--outdir", help="a folder to save each output in, as NAME.npy")
    run_parser.add_argument("--overwrite", action="store_true", help="replace files there")
    add_json(run_parser)
    add_examples(
        run_parser,
        """
a prediction for an array in a file
aioexec saved-model run --dir exports/1 --tag_set serve --signature_def serving_default --inputs x=batch.npy
a prediction for ones
aioexec saved-model run --dir exports/1 --input_exprs "x=np.ones((1, 784))"
""",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", required=True, help="the folder of the SavedModel")
    parser.add_argument("--tag_set", metavar="TAG[,…]", help="the tags of the graph")
    parser.add_argument("--signature_def", metavar="NAME", help="the name of the signature")


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    if arguments.action == "run":
        _run(arguments)
    elif arguments.json:
        print_json(_described(read_saved_model(arguments.dir)))
    else:
        print("\n".join(_shown(arguments)))
    return 0


# show


def _shown(arguments: argparse.Namespace) -> Iterator[str]:
    """The lines of `show`."""
    model = read_saved_model(arguments.dir)
    if arguments.all:
        yield from _everything(model)
    elif arguments.tag_set is None:
        yield "The given SavedModel contains the following tag-sets:"
        yield from (repr(", ".join(sorted(tags))) for tags in sorted(map(_tags, model.meta_graphs)))
    else:
        graph = meta_graph_of(model, arguments.tag_set.split(","), arguments.dir)
        if arguments.list_ops:
            yield _ops(graph)
        if arguments.signature_def is not None:
            yield from _signature(_signature_of(graph, arguments.signature_def, arguments.dir))
        else:
            yield "The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:"
            yield from (f'SignatureDef key: "{name}"' for name in sorted(graph.signature_def))


def _everything(model: SavedModel) -> Iterator[str]:
    for graph in sorted(model.meta_graphs, key=_tags):
        yield ""
        yield f"MetaGraphDef with tag-set: '{', '.join(_tags(graph))}' contains the following SignatureDefs:"
        for name in sorted(graph.signature_def):
            yield ""
            yield f"signature_def[{name!r}]:"
            yield from _signature(graph.signature_def[name], "  ")
        yield _ops(graph)


def _tags(graph: MetaGraphDef) -> list[str]:
    return list(graph.meta_info_def.tags)


def _ops(graph: MetaGraphDef) -> str:
    tags = _tags(graph)
    names = sorted({op.name for op in graph.meta_info_def.stripped_op_list.op})
    return f"The MetaGraph with tag set {tags} contains the following ops: {{{str(names)[1:-1]}}}"


def _signature_of(graph: MetaGraphDef, name: str, path: str) -> SignatureDef:
    if name not in graph.signature_def:
        raise NotFoundError(f"{path}: no signature {name!r}, only {sorted(graph.signature_def)}")
    return graph.signature_def[name]


def _signature(signature: SignatureDef, indent: str = "") -> Iterator[str]:
    for kind, infos in (("input", signature.inputs), ("output", signature.outputs)):
        yield f"{indent}The given SavedModel SignatureDef contains the following {kind}(s):"
        for key in sorted(infos):
            yield f"{indent}  {kind}s[{key!r}] tensor_info:"
            yield from (f"{indent}      {line}" for line in _info(infos[key]))
    yield f"{indent}Method name is: {signature.method_name}"


def _info(info: TensorInfo) -> Iterator[str]:
    from aioexec.formats.protos import DataType

    yield f"dtype: {DataType.Name(info.dtype)}"
    yield f"shape: {_shape(info.tensor_shape)}"
    yield f"name: {info.name}"


def _shape(shape: TensorShapeProto) -> str:
    return "unknown_rank" if shape.unknown_rank else f"({', '.join(str(dim.size) for dim in shape.dim)})"


def _described(model: SavedModel) -> Any:
    """The graphs with their signatures as data."""
    return [
        {
            "tags": sorted(graph.meta_info_def.tags),
            "signatures": {
                name: {
                    "method_name": signature.method_name,
                    "inputs": _described_infos(signature.inputs),
                    "outputs": _described_infos(signature.outputs),
                }
                for name, signature in sorted(graph.signature_def.items())
                if name not in (INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY)
            },
        }
        for graph in model.meta_graphs
    ]


def _described_infos(infos: Mapping[str, TensorInfo]) -> dict[str, dict[str, str]]:
    return {key: dict(line.split(": ", 1) for line in _info(infos[key])) for key in sorted(infos)}


# run


async def _outputs(arguments: argparse.Namespace, inputs: Mapping[str, Any]) -> dict[str, Any]:
    tags = arguments.tag_set.split(",") if arguments.tag_set else None
    async with await load(arguments.dir, tags=tags) as model:
        return await model.signature(arguments.signature_def).run(inputs)


def _run(arguments: argparse.Namespace) -> None:
    """Run a signature, and print or save its outputs."""
    inputs = {**file_inputs(arguments.inputs), **expression_inputs(arguments.input_exprs)}
    outputs = asyncio.run(_outputs(arguments, inputs))
    if arguments.json:
        print_json(outputs)
    for key in sorted(outputs):
        if arguments.outdir:
            _save(arguments.outdir, key, outputs[key], arguments.overwrite)
        elif not arguments.json:
            print(f"Result for output key {key}:\n{outputs[key]}")


def _save(folder: str, key: str, value: Any, overwrite: bool) -> None:
    path = os.path.join(folder, f"{key.replace(os.sep, '_')}.npy")
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(path) and not overwrite:
        raise AlreadyExistsError(f"{path}: the file exists; --overwrite replaces it")
    np.save(path, value)
    print(f"Output {key} is saved to {path}")
