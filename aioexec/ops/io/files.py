"""ReadFile, WriteFile and MatchingFiles. The file system is accessed on workers only."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.formats.file_errors import canonical
from aioexec.formats.paths import local_path, scheme_of
from aioexec.formats.sequential_files import open_output, read_whole
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, StepContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.strings.elements import array_of, scalar_bytes
from aioexec.shapes import Dims


def _read_kernel(context: KernelContext) -> Compute:
    def compute(step: StepContext, filename: Array) -> Any:
        if np.ndim(filename) != 0:
            raise InvalidArgumentError(
                f"Input filename tensor must be scalar, but had shape: {shown(filename.shape)}"
            )
        return step.run_in_worker(partial(_read, filename.item()))

    return compute


def _read(path: bytes) -> Array:
    return array_of([read_whole(path)], ())


def _write_kernel(context: KernelContext) -> Compute:
    def compute(step: StepContext, filename: Array, contents: Array) -> Any:
        path = scalar_bytes(filename, "Input filename tensor")
        return step.run_in_worker(partial(_write, path, scalar_bytes(contents, "Contents tensor")))

    return compute


def _write(path: bytes, contents: bytes) -> None:
    try:
        os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
        with open_output(path) as file:
            file.write(contents)
    except (OSError, ValueError) as error:
        raise canonical(path, error) from error


def _matching_kernel(context: KernelContext) -> Compute:
    def compute(step: StepContext, pattern: Array) -> Any:
        if pattern.ndim > 1:
            raise InvalidArgumentError(
                f"Input patterns tensor must be scalar or vector, but had shape: {shown(pattern.shape)}"
            )
        return step.run_in_worker(partial(_matching, pattern.ravel().tolist()))

    return compute


def _matching(patterns: Sequence[bytes]) -> Array:
    found = sorted(name for pattern in patterns for name in _matching_one(os.fsdecode(pattern)))
    return array_of(found, (len(found),))


def _matching_one(pattern: str) -> Iterator[bytes]:
    """The files that match, with the scheme of the pattern."""
    for name in glob.iglob(local_path(pattern), include_hidden=True):
        yield os.fsencode(scheme_of(pattern) + name)


def _read_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    return [()]


def _write_shape(context: ShapeContext) -> Sequence[Dims]:
    for given in context.inputs:
        shapes.with_rank(given, 0)
    return []


def _matching_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank_at_most(context.inputs[0], 1)
    return [(None,)]


for _signature, _shape, _kernel in (
    ("ReadFile(filename:string) -> (contents:string)", _read_shape, _read_kernel),
    ("WriteFile(filename:string, contents:string) -> () {stateful}", _write_shape, _write_kernel),
    ("MatchingFiles(pattern:string) -> (filenames:string)", _matching_shape, _matching_kernel),
):
    register(_signature, shape=_shape, kernel=_kernel, gradient=undefined_gradient, asynchronous=True)


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """Read a whole file."""
    return apply_op("ReadFile", filename, name=name)


def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Return an operation that writes a file, creating its parent folders."""
    return apply_no_output_op("WriteFile", filename, contents, name=name)


def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Return the sorted names of the files that match a pattern (or one of a vector of patterns)."""
    return apply_op("MatchingFiles", pattern, name=name)
