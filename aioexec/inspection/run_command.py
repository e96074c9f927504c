"""`aioexec run`: runs a step of a model in files, with feeds from the command line, and prints or writes the results."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import print_json, shape_text
from aioexec.errors import InvalidArgumentError
from aioexec.graph.node import Operation, Tensor
from aioexec.inspection.models import OpenModel, checkpoint_beside, open_model
from aioexec.inspection.values import read_feeds, write_values


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=Path,
        help="a SavedModel's folder, a checkpoint's .meta, or a file with a GraphDef",
    )
    parser.add_argument(
        "feeds",
        metavar="NAME=VALUE",
        nargs="*",
        help="an input of the signature or a tensor, with its value: JSON, FILE.npy or FILE.npz:KEY; "
        "FILE.npz alone feeds all of its arrays by name",
    )
    parser.add_argument(
        "--fetch",
        nargs="+",
        default=[],
        metavar="NAME",
        help="outputs of the signature, tensors and operations; by default all outputs, "
        "or the results that nothing in the graph uses",
    )
    parser.add_argument("--signature", help="of a SavedModel; by default serving_default, or the only one")
    parser.add_argument(
        "--checkpoint",
        metavar="CHECKPOINT",
        help="with the values of the variables of a .meta; by default the one beside it",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the results into this .npz, or .npy for one"
    )
    add_json(parser)
    add_examples(
        parser,
        """
a SavedModel, with values on the command line
aioexec run exports/1 'x=[[1.0, 2.0]]'
an image from a file, the probabilities into another one
aioexec run exports/1 images=digit.npy --fetch probabilities -o probabilities.npy
a checkpoint: the graph in its .meta, the variables from the files beside it
aioexec run model.ckpt-1000.meta x=batch.npz:x --fetch loss global_step
for another program
aioexec run frozen.pb 'input=[0.5]' --json | jq '.[].values'
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the step and return the exit status."""
    values = asyncio.run(_run(arguments))
    if arguments.output is not None:
        write_values(arguments.output, values)
    if arguments.json:
        print_json({name: _described(value) for name, value in values.items()})
    elif arguments.output is None:
        for name, value in values.items():
            print(f"{name}: {_dtype_name(value)} {shape_text(value.shape)}")
            print(np.array2string(value))
    else:
        print(f"{arguments.output}: {', '.join(values) or 'no results'}")
    return 0


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The results by name."""
    checkpoint = arguments.checkpoint or await asyncio.to_thread(checkpoint_beside, arguments.model)
    async with open_model(arguments.model, signature=arguments.signature, checkpoint=checkpoint) as model:
        feeds = await asyncio.to_thread(read_feeds, model, arguments.feeds)
        fetches = _fetches(model, arguments.fetch)
        if model.outputs and not arguments.fetch:
            _check_complete(model, feeds)
        values = await model.session.run(fetches, feeds)
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _check_complete(model: OpenModel, feeds: Mapping[Tensor, Any]) -> None:
    missing = [
        name
        for name, tensor in model.inputs.items()
        if tensor not in feeds and tensor.op.type == "Placeholder"
    ]
    if missing:
        raise InvalidArgumentError(
            f"the signature needs {', '.join(missing)} as well: feed each with NAME=VALUE, a JSON value or a .npy file"
        )


def _fetches(model: OpenModel, names: list[str]) -> dict[str, Tensor | Operation]:
    if names:
        return {name: model.fetch(name) for name in names}
    return dict(model.outputs) or {each.name: each for each in model.results()}


def _described(value: Any) -> dict[str, Any]:
    return {"dtype": _dtype_name(value), "shape": list(value.shape), "values": value}


def _dtype_name(value: Any) -> str:
    return "string" if value.dtype.kind in "OS" else str(value.dtype)
