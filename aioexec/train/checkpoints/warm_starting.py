"""Warm starts: initializes variables of a model from a checkpoint of another, with other names and vocabularies."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.partitioned_variables import PartitionedVariable, PartitionInfo
from aioexec.ops.state.variable import Variable
from aioexec.train.checkpoints.checkpoint_reader import checkpoint_path
from aioexec.train.checkpoints.checkpoint_state import Path
from aioexec.train.checkpoints.initialization import init_from_checkpoint
from aioexec.train.checkpoints.saveables import by_name
from aioexec.train.checkpoints.vocabulary_matrices import Initializer, _load_and_remap_matrix_initializer

logger = logging.getLogger(__name__)


class _VocabInfo(NamedTuple):
    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: Initializer | None = None
    axis: int = 0


class VocabInfo(_VocabInfo):
    """The vocabularies of the rows (`axis` 0) or columns (1) of a variable: the new one and that of the checkpoint.

    Raises:
        GraphValueError: another axis.
    """

    __slots__ = ()

    def __new__(
        cls,
        new_vocab: str,
        new_vocab_size: int,
        num_oov_buckets: int,
        old_vocab: str,
        old_vocab_size: int = -1,
        backup_initializer: Initializer | None = None,
        axis: int = 0,
    ) -> Self:
        if axis not in (0, 1):
            raise GraphValueError(
                f"The only supported values for the axis argument are 0 and 1. Provided axis: {axis}"
            )
        return super().__new__(
            cls,
            new_vocab,
            new_vocab_size,
            num_oov_buckets,
            old_vocab,
            old_vocab_size,
            backup_initializer,
            axis,
        )


def warm_start(
    ckpt_to_initialize_from: Path,
    vars_to_warm_start: str | Sequence[str] | Sequence[Any] | None = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Make initializers of variables assign values from a checkpoint. Reads the index of the checkpoint and blocks meanwhile.

    Args:
        ckpt_to_initialize_from: the checkpoint, or a folder, for its latest one.
        vars_to_warm_start: a regular expression for names of trainable variables; or a list of such for all global variables;
            or a list of variables; or None for only those with a vocabulary.
        var_name_to_vocab_info: from names of variables to their vocabularies.
        var_name_to_prev_var_name: from names of variables to other names in the checkpoint.

    Raises:
        GraphValueError: an unused name, or an error of `init_from_checkpoint`.
    """
    logger.info("Warm-starting from: %s", ckpt_to_initialize_from)
    vocabularies, former = dict(var_name_to_vocab_info or {}), dict(var_name_to_prev_var_name or {})
    grouped = by_name(_chosen(vars_to_warm_start))
    _check_used("var_name_to_prev_var_name", former, grouped)
    _check_used("var_name_to_vocab_info", vocabularies, grouped)
    plain = []
    for name, variable in grouped.items():
        vocabulary = vocabularies.get(name)
        if vocabulary is not None:
            _warm_start_by_words(variable, vocabulary, ckpt_to_initialize_from, former.get(name))
        elif vars_to_warm_start is not None:
            plain.append((former.get(name, name), variable))
    if plain:
        init_from_checkpoint(ckpt_to_initialize_from, plain)
    logger.info("Warm-started %d variables.", len(plain) + len(vocabularies))


def _check_used(argument: str, given: Mapping[str, Any], grouped: Mapping[str, Any]) -> None:
    unused = sorted(given.keys() - grouped.keys())
    if unused:
        raise GraphValueError(
            f"You provided the following variables in {argument} that were not used: {unused}. Perhaps you misspelled "
            f"them? Here is the list of viable variable names: {sorted(grouped)}"
        )


def _chosen(given: Any) -> list[Any]:
    graph = get_default_graph()
    if given is None or isinstance(given, str):
        return graph.get_collection(GraphKeys.TRAINABLE_VARIABLES, given)
    if not isinstance(given, list | tuple):
        raise GraphValueError(f"`vars_to_warm_start` must be a `list` or `str`. Given type is {type(given)}")
    if all(isinstance(each, str) for each in given):
        found = (each for scope in given for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope))
        return list(dict.fromkeys(found))
    if all(isinstance(each, Variable | PartitionedVariable) for each in given):
        return [
            part for each in given for part in (each if isinstance(each, PartitionedVariable) else [each])
        ]
    raise GraphValueError("If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`")


def _warm_start_by_words(var: Any, vocabulary: VocabInfo, prev_ckpt: Path, prev_name: str | None) -> None:
    _warm_start_var_with_vocab(
        var,
        vocabulary.new_vocab,
        vocabulary.new_vocab_size,
        prev_ckpt,
        vocabulary.old_vocab,
        vocabulary.old_vocab_size,
        vocabulary.num_oov_buckets,
        prev_name,
        vocabulary.backup_initializer,
        vocabulary.axis,
    )


def _warm_start_var_with_vocab(
    var: Any,
    current_vocab_path: str,
    current_vocab_size: int,
    prev_ckpt: Path,
    prev_vocab_path: str,
    previous_vocab_size: int = -1,
    current_oov_buckets: int = 0,
    prev_tensor_name: str | None = None,
    initializer: Initializer | None = None,
    axis: int = 0,
) -> None:
    """Make a variable, or the list of its partitions, start with a matrix of a checkpoint, reordered by vocabulary."""
    if not (current_vocab_path and current_vocab_size and prev_ckpt and prev_vocab_path):
        raise GraphValueError(
            "Invalid args: Must provide all of [current_vocab_path, current_vocab_size, prev_ckpt, prev_vocab_path]"
        )
    parts = _matrices(var)
    height, by_rows = sum(part.shape.as_list()[0] or 0 for part in parts), axis == 0
    for part in parts:
        rows, width = part.shape.as_list()
        make = _load_and_remap_matrix_initializer(
            ckpt_path=checkpoint_path(prev_ckpt),
            old_tensor_name=prev_tensor_name or next(iter(by_name(parts))),
            new_row_vocab_size=current_vocab_size if by_rows else height,
            new_col_vocab_size=width if by_rows else current_vocab_size,
            old_row_vocab_size=previous_vocab_size if by_rows else -1,
            old_row_vocab_file=prev_vocab_path if by_rows else None,
            new_row_vocab_file=current_vocab_path if by_rows else None,
            old_col_vocab_file=None if by_rows else prev_vocab_path,
            new_col_vocab_file=None if by_rows else current_vocab_path,
            num_row_oov_buckets=current_oov_buckets if by_rows else 0,
            num_col_oov_buckets=0 if by_rows else current_oov_buckets,
            initializer=initializer,
        )
        _set_initializer(part, make, [rows, width])


def _matrices(var: Any) -> list[Any]:
    """The parts of a variable that has a vocabulary."""
    parts = list(var) if isinstance(var, list | tuple | PartitionedVariable) else [var]
    if not all(isinstance(part, Variable) for part in parts):
        raise GraphTypeError(
            f"var MUST be one of the following: a Variable, list of Variable or PartitionedVariable, but is {type(var)}"
        )
    if any(part.shape.ndims != 2 for part in parts):
        raise GraphValueError(f"a variable that has a vocabulary must be a matrix: {parts}")
    return parts


def _set_initializer(part: Variable, make: Initializer, shape: list[int | None]) -> None:
    info = part.slice_info
    place = None if info is None else PartitionInfo(info.full_shape, info.var_offset)
    with part.graph.as_default(), part.graph.control_dependencies(None):
        value = make(shape, partition_info=place)
        assigned = part.assign(value, read_value=False)
    part.initialize_by(value, assigned)
