"""Writes SavedModels, under the names of `tf.saved_model.builder`.

    builder = ax.saved_model.Builder("exports/1")
    await builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
    await builder.save()

The proto is written last and atomically, so a folder without it is no SavedModel yet. A call that fails leaves no file behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.files import operations
from aioexec.formats.paths import local_path
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.node import Operation
from aioexec.saved_model.asset_writing import AssetFolder, asset_message, asset_path_of
from aioexec.saved_model.constants import (
    ASSETS_KEY,
    INIT_OP_SIGNATURE_KEY,
    LEGACY_INIT_OP_KEY,
    MAIN_OP_KEY,
    SAVED_MODEL_FILENAME_PB,
    SAVED_MODEL_FILENAME_PBTXT,
    SAVED_MODEL_SCHEMA_VERSION,
    TRAIN_OP_SIGNATURE_KEY,
    VARIABLES_DIRECTORY,
)
from aioexec.saved_model.errors import ReservedSignatureError, SavedModelStateError, SignatureMapError
from aioexec.saved_model.model_files import variables_prefix
from aioexec.train.checkpoints.saveables import all_saveable_objects
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef, SavedModel, SignatureDef, TensorInfo

_RESERVED: Final = {INIT_OP_SIGNATURE_KEY: "initialization", TRAIN_OP_SIGNATURE_KEY: "the train op"}


class SavedModelBuilder:
    """Writes graphs with their variables, assets and signatures as a SavedModel.

    Args:
        export_dir: the folder; it is made by the first call that writes, and must be empty or missing then.

    Constant: `_export_dir`, `_assets`. Growing: `_saved_model`, the graphs so far, None before the first. `_has_variables`:
    whether the variables were written. `_made_folder`: whether the folder did not exist before.
    """

    def __init__(self, export_dir: str | bytes | os.PathLike[str]) -> None:
        self._export_dir = os.fsdecode(export_dir)
        self._assets = AssetFolder(self._export_dir)
        self._saved_model: SavedModel | None = None
        self._has_variables = False
        self._made_folder = False

    async def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Sequence[Any] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Write the variables of a session, and add its graph; to be called once, before `add_meta_graph`.

        Args:
            sess: a session in which the variables are initialized.
            tags: the tags by which the graph is loaded.
            signature_def_map: SignatureDefs by the names of the signatures.
            assets_collection: constant tensors with the paths of files to copy into the SavedModel.
            legacy_init_op: the older name of `main_op`.
            clear_devices: leave out the devices of nodes.
            main_op: is run by the loader after it has restored the variables.
            strip_default_attrs: leave out attributes with their op's default, so that older readers need not know them.
            saver: writes the variables; by default a new sharded one of all variables.

        Raises:
            SavedModelStateError: variables were added before, or the folder is not empty.
            SignatureMapError, ReservedSignatureError: a SignatureDef is incomplete, or has a reserved name.
            GraphTypeError, GraphValueError: an invalid asset or `main_op`.
            OpError: the files cannot be written.
        """
        if self._has_variables:
            raise SavedModelStateError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` instead."
            )
        signatures = _checked(signature_def_map)
        await off_loop(self._make_folder)
        try:
            with sess.graph.as_default():
                writer = saver or Saver(all_saveable_objects(), sharded=True, allow_empty=True)
                await off_loop(operations.makedirs, os.path.join(self._export_dir, VARIABLES_DIRECTORY))
                prefix = variables_prefix(self._export_dir)
                await writer.save(sess, prefix, write_meta_graph=False, write_state=False)
                await self._add(
                    sess.graph, tags, signatures, assets_collection, main_op or legacy_init_op, writer,
                    clear_devices=clear_devices, strip_default_attrs=strip_default_attrs,
                )  # fmt: skip
        except BaseException:
            await off_loop(self._remove_variables)
            raise
        self._has_variables = True

    async def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Sequence[Any] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph, which has variables of the same names as those that were written.

        Arguments and errors are those of `add_meta_graph_and_variables`, which must have been called before.
        """
        if not self._has_variables:
            raise SavedModelStateError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        writer = saver or Saver(all_saveable_objects(), sharded=True, allow_empty=True)
        await self._add(
            get_default_graph(), tags, _checked(signature_def_map), assets_collection, main_op or legacy_init_op, writer,
            clear_devices=clear_devices, strip_default_attrs=strip_default_attrs,
        )  # fmt: skip

    async def save(self, as_text: bool = False) -> bytes:
        """Write the proto, which completes the SavedModel; returns its path.

        Args:
            as_text: in text form, for reading.

        Raises:
            SavedModelStateError: the folder is not empty, and no graph was added.
            OpError: the file cannot be written.
        """
        from aioexec.formats.proto_files import write_proto

        if self._saved_model is None:
            await off_loop(self._make_folder)
        name = SAVED_MODEL_FILENAME_PBTXT if as_text else SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._export_dir, name)
        await off_loop(write_proto, path, self._saved_model or _empty(), as_text)
        return os.fsencode(path)

    # The folder; these block

    def _make_folder(self) -> None:
        """Make the folder, which must be empty."""
        self._made_folder = not operations.exists(self._export_dir)
        if not self._made_folder and operations.listdir(self._export_dir):
            raise SavedModelStateError(
                f"Export directory {self._export_dir} already exists, and isn't empty. Please choose a different export "
                f"directory, or delete all the contents of the specified directory."
            )
        operations.makedirs(self._export_dir)

    def _remove_variables(self) -> None:
        """Remove what a failed call has written."""
        shutil.rmtree(local_path(os.path.join(self._export_dir, VARIABLES_DIRECTORY)), ignore_errors=True)
        if self._made_folder:
            with contextlib.suppress(OSError):
                os.rmdir(local_path(self._export_dir))

    # Graphs

    async def _add(
        self,
        graph: Graph,
        tags: Iterable[str],
        signatures: Mapping[str, SignatureDef],
        assets: Sequence[Any] | None,
        main_op: Operation | None,
        saver: Saver,
        **options: Any,
    ) -> None:
        """Copy the assets, add the collections that a loader reads, and add the graph."""
        _check_main_op(graph, main_op)
        paths = [asset_path_of(tensor) for tensor in assets or ()]
        known = self._assets.sources
        filenames = await off_loop(self._assets.add, paths)
        try:
            for filename, tensor in zip(filenames, assets or (), strict=True):
                graph.add_to_collection(ASSETS_KEY, asset_message(filename, tensor))
            if main_op is not None:
                graph.add_to_collection(MAIN_OP_KEY, main_op)
            with graph.as_default():
                meta_graph: MetaGraphDef = await off_loop(partial(saver.export_meta_graph, **options))
        except BaseException:
            await off_loop(self._assets.remove_all_but, known)
            raise
        meta_graph.meta_info_def.tags.extend(tags)
        for key, signature in signatures.items():
            meta_graph.signature_def[key].CopyFrom(signature)
        self._saved_model = self._saved_model or _empty()
        self._saved_model.meta_graphs.append(meta_graph)


Builder = SavedModelBuilder


def _empty() -> SavedModel:
    from aioexec.formats.protos import SavedModel

    return SavedModel(saved_model_schema_version=SAVED_MODEL_SCHEMA_VERSION)


def _check_main_op(graph: Graph, main_op: Any) -> None:
    if main_op is None:
        return
    if not isinstance(main_op, Operation):
        raise GraphTypeError(f"Expected {main_op!r} to be an Operation")
    for key in (MAIN_OP_KEY, LEGACY_INIT_OP_KEY):
        if graph.get_collection(key):
            raise GraphValueError(f"Graph already contains one or more main ops under the collection {key}.")


def _checked(signature_def_map: Mapping[str, SignatureDef] | None) -> dict[str, SignatureDef]:
    """The SignatureDefs, all complete."""
    from aioexec.formats.protos import SignatureDef
    from aioexec.graph.io.graphdef_import import own_proto

    checked = {}
    for key, given in (signature_def_map or {}).items():
        if key in _RESERVED:
            raise ReservedSignatureError(
                f'SignatureDef map key "{key}" is reserved for {_RESERVED[key]}. Please use a different key.'
            )
        checked[key] = own_proto(given, SignatureDef, "signature_def_map")
        for infos in (checked[key].inputs, checked[key].outputs):
            for name, info in infos.items():
                _check_info(key, name, info)
    return checked


def _check_info(key: str, name: str, info: TensorInfo) -> None:
    where = f"signature {key!r}, {name!r}"
    if info.WhichOneof("encoding") is None:
        raise SignatureMapError(
            f"{where}: All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' fields (e.g., name or "
            f"coo_sparse) set: {info}"
        )
    if not info.dtype and info.WhichOneof("encoding") != "composite_tensor":
        raise SignatureMapError(
            f"{where}: All TensorInfo protos used in the SignatureDefs must have the dtype field set: {info}"
        )
