"""Saver: writes variables to checkpoints, and the list of checkpoints to the `checkpoint` file.

A checkpoint is valid once the `checkpoint` file lists it, and is deleted only after the file does not list it any more. If a
save is interrupted, the checkpoints listed before remain; `begun_saves` removes files of the interrupted save.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from aioexec.errors import (
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
)
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.io.proto_functions import register_proto_function
from aioexec.graph.keys import GraphKeys
from aioexec.graph.scope_names import prepend_name_scope, strip_name_scope
from aioexec.train.checkpoints.begun_saves import BegunSave, clean_up_folder
from aioexec.train.checkpoints.checkpoint_state import (
    DEFAULT_NAME,
    V2,
    checkpoint_exists,
    get_checkpoint_mtimes,
    meta_graph_filename,
    write_checkpoint_state,
)
from aioexec.train.checkpoints.meta_graphs import export_meta_graph
from aioexec.train.checkpoints.restore_checks import Wanted, check_restorable, wanted_by
from aioexec.train.checkpoints.saveables import all_saveable_objects
from aioexec.train.checkpoints.saver_builder import BaseSaverBuilder, BulkSaverBuilder
from aioexec.train.errors import TrainingStateError
from aioexec.train.off_loop import off_loop

logger = logging.getLogger(__name__)

_SECONDS_PER_HOUR = 3600
_DEFERRED = (
    "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or var_list=None."
)
_NAMES_OF_NODES = ("filename_tensor_name", "save_tensor_name", "restore_op_name")

Kept = tuple[str, float]
"""The path of a checkpoint, and its time of writing."""


class Saver:
    """Saves and restores variables. The constructor makes the nodes in the default graph.

    Args:
        var_list: variables and other saveables, in a list or by name in the checkpoint; all of the graph by default.
        reshape: restore values of another shape with as many elements.
        sharded: each device writes a file of its own.
        max_to_keep: the number of latest checkpoints to keep; None or 0 for all.
        keep_checkpoint_every_n_hours: the interval at which checkpoints are kept beyond that.
        name: scope of the nodes, "save" by default; with `saver_def`, the scope into which its nodes were imported.
        restore_sequentially: accepted for compatibility: one node restores all, one tensor after another.
        saver_def: names existing nodes, which are used.
        builder: makes the nodes.
        defer_build: make the nodes in `build`.
        allow_empty: without variables, do nothing instead of raising.
        write_version: 2, or 1 for the first format of checkpoints.
        pad_step_number: write step numbers with eight digits.
        save_relative_paths: write paths in the `checkpoint` file relative to its folder, which may then be moved.
        filename: the path that is used if none is fed.

    Raises:
        GraphTypeError, GraphValueError: there is nothing to save, or something that cannot be saved.
    """

    _is_built = False  # whether `build` was called
    _is_empty = False  # whether there is nothing to save
    _next_to_keep = 0.0  # a checkpoint written after this time is not deleted
    _wanted: list[Wanted] | None = None  # what `restore` reads, once that is known

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: BaseSaverBuilder | None = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if defer_build and var_list:
            raise GraphValueError(_DEFERRED)
        self._var_list = var_list
        self._name = name
        self._options: dict[str, Any] = {
            "reshape": reshape,
            "sharded": sharded,
            "max_to_keep": max_to_keep,
            "keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours,
            "restore_sequentially": restore_sequentially,
            "filename": filename,
        }
        self._builder = builder
        self._allow_empty = allow_empty
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._kept: list[Kept] = []  # the checkpoints that are listed, the oldest first
        self._turn = asyncio.Lock()  # held while files are written
        self.saver_def = saver_def
        self._write_version = write_version if saver_def is None else self._version_of_saver_def()
        if not defer_build:
            self.build()

    def build(self) -> None:
        """Make the nodes, if the constructor did not.

        Raises:
            GraphValueError: there are no variables.
        """
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            if self._var_list is None:
                self._var_list = all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise GraphValueError("No variables to save")
                self._is_empty = True
                return
            builder = self._builder or BulkSaverBuilder(self._write_version)
            self.saver_def = builder.build(self._var_list, name=self._name, **self._options)
        elif self._name:
            for field in _NAMES_OF_NODES:
                setattr(self.saver_def, field, prepend_name_scope(getattr(self.saver_def, field), self._name))
        self._check_saver_def()
        self._next_to_keep = time.time() + self._seconds_between_kept

    def _check_saver_def(self) -> None:
        from aioexec.formats.protos import SaverDef

        if not isinstance(self.saver_def, SaverDef):
            raise GraphValueError(f"saver_def must be a SaverDef: {self.saver_def!r}")
        for field in _NAMES_OF_NODES[1:]:
            if not getattr(self.saver_def, field):
                raise GraphValueError(f"saver_def must specify the {field}: {self.saver_def}")

    def _version_of_saver_def(self) -> int:
        self._check_saver_def()
        version: int = self.saver_def.version
        return version

    @property
    def _seconds_between_kept(self) -> float:
        return float(self.saver_def.keep_checkpoint_every_n_hours) * _SECONDS_PER_HOUR

    # Saving

    async def save(
        self,
        sess: Any,
        save_path: str | os.PathLike[str],
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Write a checkpoint.

        Args:
            sess: a session of the graph, in which the variables are initialized.
            save_path: the path; the folder or its parent must exist.
            global_step: a number to append to the path, or a tensor or the name of one.
            latest_filename: of the file that lists the checkpoints; "checkpoint" by default.
            write_meta_graph, meta_graph_suffix, strip_default_attrs: whether and how to write the graph beside the checkpoint.
            write_state: whether to list the checkpoint, and delete old ones.

        Returns:
            The path, for `restore`; None if there is nothing to save.

        Raises:
            GraphTypeError: `sess` is no session.
            GraphValueError: an invalid file name, or the folder does not exist.
            ResourceExhaustedError: the disk is full, or a file is larger than the system allows.
            OpError: the files cannot be written for another reason. The checkpoints listed before remain.
        """
        if not self._is_built:
            raise TrainingStateError("`build()` should be called before save if defer_build==True")
        _check_session(sess)
        listed = latest_filename or DEFAULT_NAME
        if os.path.dirname(listed):
            raise GraphValueError("'latest_filename' must not contain path components")
        prefix = await self._prefix(sess, os.fspath(save_path), global_step, listed)
        meta = None
        if write_meta_graph:
            meta = partial(
                self._export, sess.graph, prefix, meta_graph_suffix, strip_default_attrs, save_debug_info
            )
        if self._is_empty:
            if meta is not None:
                await off_loop(meta)
            return None
        listed_in = listed if write_state else None
        async with self._turn:
            begun = BegunSave(prefix, self._write_version, listed_in, meta_graph_suffix)
            return await self._write_and_list(sess, prefix, begun, meta, listed_in)

    async def _prefix(self, sess: Any, path: str, global_step: Any, listed: str) -> str:
        """The path of a checkpoint, with the step number if there is one."""
        if global_step is not None:
            step = await _number(sess, global_step)
            return f"{path}-{step:08d}" if self._pad_step_number else f"{path}-{step}"
        if os.path.basename(path) == listed and not self._options["sharded"]:
            raise GraphValueError(f"'latest_filename' collides with 'save_path': '{listed}' and '{path}'")
        return path

    async def _write_and_list(
        self, sess: Any, prefix: str, begun: BegunSave, meta: Callable[[], Any] | None, listed: str | None
    ) -> str:
        try:
            path = await self._write(sess, prefix, begun, meta)
            if listed is not None:
                await off_loop(self._list, path, prefix, listed, begun)
            return path
        except OutOfRangeError as error:
            # EFBIG is an OutOfRangeError, which would end a monitored session's loop without an error.
            raise ResourceExhaustedError(f"{prefix} cannot be saved: {error.message}") from error
        finally:
            await off_loop(begun.end)

    async def _write(self, sess: Any, prefix: str, begun: BegunSave, meta: Callable[[], Any] | None) -> str:
        """Write the files of a checkpoint; returns its path."""
        try:
            await off_loop(begun.begin)
            feeds = {self.saver_def.filename_tensor_name: prefix}
            path = os.fsdecode(await sess.run(self.saver_def.save_tensor_name, feeds))
        except (FailedPreconditionError, NotFoundError) as error:
            folder = os.path.dirname(prefix)
            if folder and not await off_loop(os.path.isdir, folder):
                raise GraphValueError(f"Parent directory of {prefix} doesn't exist, can't save.") from error
            raise
        if meta is not None:
            await off_loop(meta)
        return path

    def _list(self, path: str, prefix: str, listed: str, begun: BegunSave) -> None:
        """List a checkpoint as the latest one; returns those that exceed `max_to_keep`. Blocks."""
        kept, to_delete = self._kept, []
        if self.saver_def.max_to_keep:
            kept = [each for each in kept if each[0] != path] + [(path, time.time())]
            excess = max(len(kept) - self.saver_def.max_to_keep, 0)
            kept, to_delete = kept[excess:], kept[:excess]
        next_to_keep = self._next_to_keep
        replaced = []
        for old, written in to_delete:
            if written > next_to_keep:
                next_to_keep += self._seconds_between_kept
            else:
                replaced.append(old)
        begun.replaces(replaced)
        paths = [each for each, _ in kept]
        write_checkpoint_state(os.path.dirname(prefix), path, paths, listed, self._save_relative_paths)
        self._kept, self._next_to_keep = kept, next_to_keep

    def _export(self, graph: Graph, prefix: str, suffix: str, strip: bool, debug: bool) -> None:
        with graph.as_default():
            self.export_meta_graph(
                meta_graph_filename(prefix, suffix), strip_default_attrs=strip, save_debug_info=debug
            )

    def export_meta_graph(
        self,
        filename: str | os.PathLike[str] | None = None,
        collection_list: Iterable[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """The default graph with this saver as a MetaGraphDef; see `aioexec.train.export_meta_graph`. Blocks."""
        return export_meta_graph(
            filename=filename,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )

    # Restoring

    async def restore(self, sess: Any, save_path: str | os.PathLike[str] | None) -> None:
        """Assign the values of a checkpoint to the variables, which need not be initialized.

        Raises:
            GraphValueError: there is no checkpoint with this path.
            NotFoundError: it lacks a variable.
            InvalidArgumentError: it has one of another shape or dtype.
            DataLossError: it is damaged.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise GraphValueError("Can't load save_path when it is None.")
        _check_session(sess)
        prefix = os.fspath(save_path)
        if not await off_loop(checkpoint_exists, prefix):
            raise GraphValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        logger.info("Restoring parameters from %s", prefix)
        try:
            await off_loop(self._check_restorable, sess.graph, prefix)
            await sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: prefix})
        except NotFoundError as error:
            raise _explain(error, "a Variable name or other graph key that is missing") from error
        except InvalidArgumentError as error:
            raise _explain(error, "a mismatch between the current graph and the graph") from error

    def _check_restorable(self, graph: Graph, prefix: str) -> None:
        if self._wanted is None:
            self._wanted = wanted_by(graph.get_operation_by_name(self.saver_def.restore_op_name))
        check_restorable(prefix, self._wanted)

    # The list of checkpoints

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of the kept checkpoints, from the oldest to the latest."""
        return [path for path, _ in self._kept]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Set the list of kept checkpoints; these are never deleted."""
        self.set_last_checkpoints_with_time([(path, float("inf")) for path in last_checkpoints])

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: list[Kept]) -> None:
        """Set the list of kept checkpoints, with their times."""
        if not isinstance(last_checkpoints_with_time, list):
            raise GraphTypeError(f"last checkpoints must be a list, got {last_checkpoints_with_time!r}")
        self._kept = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Continue the list of an earlier run: the existing ones among these paths.

        Leftover files of saves by dead processes are removed. Blocks.
        """
        checkpoint_paths = list(checkpoint_paths)
        for folder in {os.path.dirname(path) for path in checkpoint_paths}:
            clean_up_folder(folder)
        found = [(path, get_checkpoint_mtimes([path])) for path in checkpoint_paths]
        self.set_last_checkpoints_with_time([(path, times[0]) for path, times in found if times])

    # Protos

    def as_saver_def(self) -> Any:
        """The SaverDef with the names of the nodes."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaverDef relative to a scope; None if the nodes are not in it."""
        if export_scope is None:
            return self.saver_def
        names = {field: getattr(self.saver_def, field) for field in _NAMES_OF_NODES}
        if not all(name.startswith(export_scope) for name in names.values()):
            return None
        message = type(self.saver_def)()
        message.CopyFrom(self.saver_def)
        for field, name in names.items():
            setattr(message, field, strip_name_scope(name, export_scope))
        return message

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """A saver of existing nodes, named by a SaverDef."""
        return Saver(saver_def=saver_def, name=import_scope)


def _check_session(sess: Any) -> None:
    if not (hasattr(sess, "run") and hasattr(sess, "graph")):
        raise GraphTypeError(f"'sess' must be a Session; {sess!r}")


async def _number(sess: Any, global_step: Any) -> int:
    try:
        return int(global_step.__index__())
    except AttributeError:
        return int(await sess.run(global_step))


def _explain(error: OpError, cause: str) -> OpError:
    """The error of a restore, with its most likely cause in the message."""
    return type(error)(
        error.node_def,
        error.op,
        f"Restoring from checkpoint failed. This is most likely due to {cause} from the checkpoint. "
        f"Please ensure that you have not altered the graph expected based on the checkpoint. Original error:\n\n"
        f"{error.message}",
    )


def _get_saver_or_default() -> Saver:
    """The saver in the default graph's collection, else a new one.

    Raises:
        RuntimeError: the collection has several.
    """
    graph = get_default_graph()
    savers = graph.get_collection(GraphKeys.SAVERS)
    if len(savers) > 1:
        raise RuntimeError(
            f"More than one item in collection {GraphKeys.SAVERS}. "
            "Please indicate which one to use by passing it to the constructor."
        )
    if savers:
        found: Saver = savers[0]
        return found
    saver = Saver(sharded=True, allow_empty=True)
    graph.add_to_collection(GraphKeys.SAVERS, saver)
    return saver


register_proto_function(GraphKeys.SAVERS, "SaverDef", Saver.to_proto, Saver.from_proto)
