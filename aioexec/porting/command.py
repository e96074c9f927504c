"""`aioexec port`: rewrites programs of TensorFlow 1.x for aioexec."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tokenize
from collections.abc import Iterable, Mapping
from pathlib import Path

from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import print_json
from aioexec.porting.port import Ported, port

DONE, LEFT, FAILED = 0, 1, 2
"""Exit statuses: everything was ported; something is left to do by hand (or to port, with --check); a file is no Python 3."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Rewrite programs of TensorFlow 1.x for aioexec: imports, `async` and `await`. Files that are given together are one "
        "program, so that calls between them are followed. Without an option the changes are shown as a diff. What is left to "
        "do by hand is written to the standard error output, with file and line."
    )
    parser.add_argument(
        "paths", nargs="+", metavar="FILE|DIR", help="Python files, or folders to search for them"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--diff", action="store_true", help="show the changes (the default)")
    where.add_argument(
        "--check", action="store_true", help="show nothing; exit with 1 if there is anything to port"
    )
    where.add_argument("--output", metavar="DIR", help="write all files into this folder")
    where.add_argument("--in-place", action="store_true", help="overwrite the files")
    add_json(parser)
    add_examples(
        parser,
        """
the changes to a program of two files, as a diff
aioexec port train.py model.py
write the ported package elsewhere
aioexec port src/ --output ported/
in CI: fail if anything is left to port; status 1: something is left, 2: a file cannot be read
aioexec port --check src/
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Port the files, and return the exit status."""
    try:
        files = _find(arguments.paths)
        encodings = {path: _encoding(path) for path in files}
        texts = {str(path): _read(path, encodings[path]) for path in files}
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        print(f"aioexec port: {error}", file=sys.stderr)
        return FAILED
    results = port(texts)
    changed = {path: result for path, result in results.items() if result.text != texts[path]}
    if arguments.output or arguments.in_place:
        for path in files:
            target = path if arguments.in_place else Path(arguments.output, files[path])
            _write(target, results[str(path)].text, encodings[path], original=path)
    elif not arguments.check and not arguments.json:
        _show(texts, changed)
    findings = [finding for result in results.values() for finding in result.findings]
    if arguments.json:
        print_json({"changed": list(changed), "findings": findings})
    else:
        for finding in findings:
            print(finding, file=sys.stderr)
    if any("no Python 3" in finding.message for finding in findings):
        return FAILED
    return LEFT if findings or (arguments.check and changed) else DONE


def _find(paths: Iterable[str]) -> dict[Path, Path]:
    """The files, and their paths below the output folder."""
    found: dict[Path, Path] = {}
    for given in map(Path, paths):
        if given.is_dir():
            for path in sorted(given.rglob("*.py")):
                found[path] = path.relative_to(given)
        else:
            found[given] = Path(given.name)
    return found


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        return tokenize.detect_encoding(file.readline)[0]


def _read(path: Path, encoding: str) -> str:
    with path.open(encoding=encoding, newline="") as file:
        return file.read()


def _write(path: Path, text: str, encoding: str, original: Path) -> None:
    """Write a file in one step, with the permissions of the original."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.port-{os.getpid()}")
    unfinished.write_text(text, encoding=encoding, newline="")
    unfinished.chmod(original.stat().st_mode & 0o777)
    unfinished.replace(path)


def _show(texts: Mapping[str, str], changed: Mapping[str, Ported]) -> None:
    for path, result in changed.items():
        before, after = (text.splitlines(keepends=True) for text in (texts[path], result.text))
        for line in difflib.unified_diff(before, after, path, f"{path} (ported)"):
            print(line, end="" if line.endswith("\n") else "\n")
