"""`aioexec checkpoint`: its subcommands `ls`, `diff`, `average`, `to-safetensors` and `from-safetensors`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from aioexec.checkpoint_tools.comparison import Comparison, compare
from aioexec.checkpoint_tools.conversion import write_average, write_checkpoint, write_safetensors
from aioexec.checkpoint_tools.stored_tensors import StoredTensors, open_safetensors, open_tensors
from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import byte_size, print_json, print_table, shape_text
from aioexec.command_line.progress import progress

DIFFERENT = 1
"""The exit status of `diff` for checkpoints that differ."""

_CHECKPOINT = "a checkpoint's path, one of its files, a folder for its latest one, or FILE.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    choices = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    _add_ls(choices)
    _add_diff(choices)
    _add_average(choices)
    _add_to_safetensors(choices)
    _add_from_safetensors(choices)


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand, and return its exit status."""
    status: int = arguments.run_subcommand(arguments)
    return status


def _add_ls(choices: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "list the tensors of a checkpoint: names, dtypes, shapes, sizes"
    parser = choices.add_parser("ls", help=summary, description=summary)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=_CHECKPOINT)
    add_json(parser)
    add_examples(
        parser,
        """
the latest checkpoint of a training
aioexec checkpoint ls logs/
the names of all tensors above a million parameters
aioexec checkpoint ls model.ckpt-1000 --json | jq '.tensors[] | select(.parameters > 1e6).name'
""",
    )
    parser.set_defaults(run_subcommand=_ls)


def _ls(arguments: argparse.Namespace) -> int:
    with open_tensors(arguments.checkpoint) as found:
        show_tensors(found, as_json=arguments.json)
    return 0


def show_tensors(found: StoredTensors, *, as_json: bool) -> None:
    """Print the tensors of a checkpoint."""
    tensors = list(found.tensors.values())
    parameters = sum(tensor.count for tensor in tensors)
    if as_json:
        rows = [
            {
                "name": each.name,
                "dtype": each.dtype.name,
                "shape": each.shape,
                "parameters": each.count,
                "bytes": each.size,
            }
            for each in tensors
        ]
        print_json({"checkpoint": found.path, "parameters": parameters, "bytes": found.size, "tensors": rows})
        return
    print_table(
        ["name", "dtype", "shape", "parameters", "size"],
        (
            [
                each.name,
                each.dtype.name,
                shape_text(each.shape),
                f"{each.count:,}",
                byte_size(each.size) if each.size else "",
            ]
            for each in tensors
        ),
        right=["parameters", "size"],
    )
    print(f"{found.path}: {len(tensors)} tensors, {parameters:,} parameters, {byte_size(found.size)}")


def _add_diff(choices: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = f"compare two checkpoints; exit status {DIFFERENT} if they differ"
    parser = choices.add_parser("diff", help=summary, description=summary)
    parser.add_argument("first", metavar="CHECKPOINT", help=_CHECKPOINT)
    parser.add_argument("second", metavar="CHECKPOINT", help="another one")
    add_json(parser)
    add_examples(
        parser,
        """
what a thousand steps have changed
aioexec checkpoint diff model.ckpt-1000 model.ckpt-2000
whether a conversion has lost anything
aioexec checkpoint diff model.ckpt-1000 model.safetensors
""",
    )
    parser.set_defaults(run_subcommand=_diff)


def _diff(arguments: argparse.Namespace) -> int:
    with open_tensors(arguments.first) as first, open_tensors(arguments.second) as second:
        with progress("comparing", first.size) as advance:
            found = compare(first, second, advance)
        if arguments.json:
            print_json(found)
        else:
            _show_comparison(found, first.path, second.path)
    return 0 if found.is_equal else DIFFERENT


def _show_comparison(found: Comparison, first: str, second: str) -> None:
    for path, names in ((first, found.only_first), (second, found.only_second)):
        for name in names:
            print(f"only in {path}: {name}")
    for name, (one, other) in found.changed.items():
        print(f"{name}: {one} is {other}")
    if found.different:
        rows = (
            [
                each.name,
                f"{each.different:,} of {each.elements:,}",
                "" if each.largest is None else f"{each.largest:.6g}",
            ]
            for each in found.different
        )
        print_table(["name", "elements that differ", "largest difference"], rows)
    print(f"{found.equal} tensors are equal")


def _add_average(choices: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "write the checkpoint of the means of several checkpoints"
    parser = choices.add_parser(
        "average",
        help=summary,
        description=f"{summary}. Tensors that are no floating-point numbers, such as steps, are those of the last one.",
    )
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help=_CHECKPOINT)
    _add_output(parser, "CHECKPOINT", "the path of the checkpoint to write, without a suffix")
    add_examples(
        parser,
        """
the mean of the last three checkpoints, which often predicts better than each
aioexec checkpoint average model.ckpt-800 model.ckpt-900 model.ckpt-1000 -o mean.ckpt
""",
    )
    parser.set_defaults(run_subcommand=_average)


def _average(arguments: argparse.Namespace) -> int:
    with ExitStack() as stack:
        sources = [stack.enter_context(open_tensors(each)) for each in arguments.checkpoints]
        advance = stack.enter_context(progress("averaging", sources[0].size))
        write_average(sources, arguments.output, advance)
        _report(arguments, sources[0])
    return 0


def _add_to_safetensors(choices: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "write a checkpoint as a file of safetensors"
    parser = choices.add_parser("to-safetensors", help=summary, description=summary)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=_CHECKPOINT)
    _add_output(parser, "FILE", "the file to write")
    add_examples(
        parser,
        """
for a program that reads safetensors
aioexec checkpoint to-safetensors model.ckpt-1000 -o model.safetensors
""",
    )
    parser.set_defaults(run_subcommand=_to_safetensors)


def _to_safetensors(arguments: argparse.Namespace) -> int:
    with open_tensors(arguments.checkpoint) as source:
        with progress("writing", source.size) as advance:
            left_out = write_safetensors(source, arguments.output, advance)
        _report(arguments, source, left_out)
    return 0


def _add_from_safetensors(choices: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "write a file of safetensors as a checkpoint"
    parser = choices.add_parser("from-safetensors", help=summary, description=summary)
    parser.add_argument("file", metavar="FILE", help="a file of safetensors")
    _add_output(parser, "CHECKPOINT", "the path of the checkpoint to write, without a suffix")
    add_examples(
        parser,
        """
for a saver: its restore takes the path model.ckpt
aioexec checkpoint from-safetensors model.safetensors -o model.ckpt
""",
    )
    parser.set_defaults(run_subcommand=_from_safetensors)


def _from_safetensors(arguments: argparse.Namespace) -> int:
    with open_safetensors(arguments.file) as source:
        with progress("writing", source.size) as advance:
            write_checkpoint(source, arguments.output, advance)
        _report(arguments, source)
    return 0


def _add_output(parser: argparse.ArgumentParser, metavar: str, meaning: str) -> None:
    parser.add_argument("-o", "--output", metavar=metavar, required=True, help=meaning)
    add_json(parser)


def _report(arguments: argparse.Namespace, source: StoredTensors, left_out: list[str] | None = None) -> None:
    """Print what was written."""
    left_out = left_out or []
    written = len(source.tensors) - len(left_out)
    if arguments.json:
        print_json({"output": arguments.output, "tensors": written, "left_out": left_out})
        return
    print(f"{arguments.output}: {written} tensors, {byte_size(source.size)}")
    for name in left_out:
        print(f"left out, as safetensors has no {source.tensors[name].dtype.name}: {name}")
