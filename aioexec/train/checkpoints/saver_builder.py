"""The nodes of a saver: one save node, or one per device; a restore node, and the assignments after it.

Names and structure are TensorFlow's, since these nodes are exported in meta graphs. The file name is fed to `Const`; fetching
the save tensor saves, and returns the path of the checkpoint; running `restore_all` restores.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_list_op, apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.device_spec import DeviceSpec, canonical_name
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.identity import placeholder_with_default
from aioexec.ops.array.shapes_of import shape as shape_of
from aioexec.ops.control_flow.dependencies import group, with_dependencies
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.train.checkpoints import saveables as saveable_kinds
from aioexec.train.checkpoints.checkpoint_state import V1, V2
from aioexec.train.checkpoints.saveables import SaveableObject, by_name, saveables_of

_SAVING: Final = {V1: ("SaveSlices", "save"), V2: ("SaveV2", "SaveV2")}

Saveables = Sequence[SaveableObject]
Shards = Sequence[tuple[str, Saveables]]


def _on(device: str) -> contextlib.AbstractContextManager[None]:
    """Set the device of new nodes, unless it is empty."""
    return get_default_graph().device(device) if device else contextlib.nullcontext()


def cpu_of(device: str) -> str:
    """The first CPU of the process that a device belongs to."""
    return DeviceSpec.from_string(device).replace(device_type="CPU", device_index=0).to_string()


class BaseSaverBuilder:
    """Makes the nodes of a saver; programs may derive from it to use other nodes."""

    SaveSpec = saveable_kinds.SaveSpec
    SaveableObject = saveable_kinds.SaveableObject
    VariableSaveable = saveable_kinds.ReferenceVariableSaveable
    ResourceVariableSaveable = saveable_kinds.ResourceVariableSaveable

    def __init__(self, write_version: int = V2) -> None:
        self._write_version: Any = write_version  # an int; protos accept it for their enum

    # Overridden by subclasses

    def save_op(self, filename_tensor: Tensor, saveables: Saveables) -> Operation:
        """The operation that saves to one file, or one bundle."""
        specs = [spec for saveable in saveables for spec in saveable.specs]
        names, slices = [spec.name for spec in specs], [spec.slice_spec for spec in specs]
        tensors = [spec.tensor for spec in specs]
        if self._write_version not in _SAVING:
            raise RuntimeError(f"Unexpected write_version: {self._write_version}")
        op_type, name = _SAVING[self._write_version]
        return apply_no_output_op(op_type, filename_tensor, names, slices, tensors, name=name)

    def bulk_restore(
        self, filename_tensor: Tensor, saveables: Saveables, preferred_shard: int, restore_sequentially: bool
    ) -> list[Tensor]:
        """The tensors of all saveables, read from a checkpoint."""
        tensors: list[Tensor] = []
        for saveable in saveables:
            with _on(cpu_of(saveable.device) if saveable.device else ""):
                tensors += self.restore_op(filename_tensor, saveable, preferred_shard)
        return tensors

    def restore_op(
        self, filename_tensor: Tensor, saveable: saveable_kinds.SaveableObject, preferred_shard: int
    ) -> list[Tensor]:
        """The tensors of a saveable, read from a checkpoint."""
        return [_restore_node(filename_tensor, [spec])[0] for spec in saveable.specs]

    def sharded_filename(self, filename_tensor: Tensor, shard: int, num_shards: Tensor) -> Tensor:
        """The name of one file of several."""
        return apply_op("ShardedFilename", filename_tensor, shard, num_shards)

    # Assembly

    def build(
        self,
        names_to_saveables: Mapping[str, Any] | Sequence[Any],
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: str | None = "model",
    ) -> Any:
        """Make the nodes in the default graph; see `Saver` for the arguments.

        Returns:
            A SaverDef.

        Raises:
            GraphTypeError, GraphValueError: an object cannot be saved, or is listed twice.
        """
        from aioexec.formats.protos import SaverDef

        if not isinstance(names_to_saveables, dict):
            names_to_saveables = by_name(names_to_saveables)
        saveables = saveables_of(names_to_saveables)
        graph = get_default_graph()
        with graph.name_scope(name or "save"):
            filename_tensor = placeholder_with_default(filename or "model", shape=(), name="filename")
            filename_tensor = placeholder_with_default(filename_tensor, shape=(), name="Const")
            make_nodes = self._sharded_nodes if sharded else self._unsharded_nodes
            save_tensor, restore_op = make_nodes(filename_tensor, saveables, restore_sequentially, reshape)
        _join_partitioned_variables()
        return SaverDef(
            filename_tensor_name=filename_tensor.name,
            save_tensor_name=save_tensor.name,
            restore_op_name=restore_op.name,
            max_to_keep=max_to_keep or 0,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )

    def _unsharded_nodes(
        self, filename_tensor: Tensor, saveables: Saveables, restore_sequentially: bool, reshape: bool
    ) -> tuple[Tensor, Operation]:
        """The tensor that saves and the operation that restores."""
        save_tensor = self._save_into(filename_tensor, saveables)
        return save_tensor, self._restores(filename_tensor, saveables, "", restore_sequentially, reshape)

    def _sharded_nodes(
        self, filename_tensor: Tensor, saveables: Saveables, restore_sequentially: bool, reshape: bool
    ) -> tuple[Tensor, Operation]:
        """`_unsharded_nodes`, with one file per device."""
        shards = _by_device(saveables)
        save_tensor = self._sharded_save(filename_tensor, shards)
        restores = [
            self._restores(filename_tensor, there, device, restore_sequentially, reshape, shard)
            for shard, (device, there) in enumerate(shards)
        ]
        return save_tensor, group(*restores, name="restore_all")

    def _save_into(self, filename_tensor: Tensor, saveables: Saveables) -> Tensor:
        """The file name, with a control dependency on its save."""
        save = self.save_op(filename_tensor, saveables)
        tensor: Tensor = with_dependencies([save], filename_tensor)
        return tensor

    def _sharded_save(self, filename_tensor: Tensor, shards: Shards) -> Tensor:
        """The path of a checkpoint, after each device has saved its part of it."""
        graph = get_default_graph()
        if self._write_version == V1:
            count = convert_to_tensor(len(shards), name="num_shards")
            _, saved = self._saved_shards(filename_tensor, shards, count)
            with graph.control_dependencies([tensor.op for tensor in saved]):
                return apply_op("ShardedFilespec", filename_tensor, count)
        with graph.device("CPU"):
            parts = _temporary(filename_tensor)
        count = convert_to_tensor(len(shards), name="num_shards")
        shards = [(cpu_of(device), there) for device, there in shards]
        prefixes, saved = self._saved_shards(parts, shards, count)
        with graph.control_dependencies([tensor.op for tensor in saved]), graph.device(shards[-1][0]):
            merged = apply_no_output_op("MergeV2Checkpoints", prefixes, filename_tensor, delete_old_dirs=True)
            with graph.control_dependencies([merged]):
                return apply_op("Identity", filename_tensor)

    def _saved_shards(
        self, basename: Tensor, shards: Shards, count: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The file name of each device, and the same with a control dependency on its save."""
        names, saved = [], []
        for shard, (device, saveables) in enumerate(shards):
            with _on(device):
                names.append(self.sharded_filename(basename, shard, count))
                saved.append(self._save_into(names[-1], saveables))
        return names, saved

    def _restores(
        self,
        filename_tensor: Tensor,
        saveables: Saveables,
        device: str,
        restore_sequentially: bool,
        reshape: bool,
        shard: int = -1,
    ) -> Operation:
        """The operation that restores these saveables; a shard on its device."""
        with _on(device):
            tensors = self.bulk_restore(filename_tensor, saveables, shard, restore_sequentially)
            assigned, at = [], 0
            for saveable in saveables:
                shapes = [_known_shape(spec.tensor) for spec in saveable.specs] if reshape else None
                end = at + len(saveable.specs)
                assigned.append(saveable.restore(tensors[at:end], shapes))
                at = end
            return group(*assigned, name="restore_all" if shard < 0 else "restore_shard")


class BulkSaverBuilder(BaseSaverBuilder):
    """Restores all tensors by one node, which reads each file once."""

    def bulk_restore(
        self, filename_tensor: Tensor, saveables: Saveables, preferred_shard: int, restore_sequentially: bool
    ) -> list[Tensor]:
        with get_default_graph().device("cpu:0"):
            return _restore_node(filename_tensor, [spec for saveable in saveables for spec in saveable.specs])


def _restore_node(filename_tensor: Tensor, specs: Sequence[saveable_kinds.SaveSpec]) -> list[Tensor]:
    return apply_list_op(
        "RestoreV2",
        filename_tensor,
        [spec.name for spec in specs],
        [spec.slice_spec for spec in specs],
        dtypes=[spec.dtype.base_dtype for spec in specs],
    )


def _temporary(prefix: Tensor) -> Tensor:
    """The path of the parts of a sharded checkpoint until they are moved into place."""
    is_bucket = apply_op("StaticRegexFullMatch", prefix, pattern="^s3://.*")
    suffix = apply_op(
        "Select", is_bucket, convert_to_tensor(".part"), convert_to_tensor(os.path.normpath("_temp/part"))
    )
    return apply_op("StringJoin", [prefix, suffix])


def _by_device(saveables: Saveables) -> Shards:
    """Saveables by device, in the order of their names.

    Raises:
        GraphValueError: the tensors of one are on several.
    """
    shards: dict[str, list[SaveableObject]] = {}
    for saveable in saveables:
        devices = {canonical_name(spec.device) for spec in saveable.specs}
        if len(devices) != 1:
            raise GraphValueError(
                f"All tensors of a saveable object must be on the same device: {saveable.name}"
            )
        shards.setdefault(devices.pop(), []).append(saveable)
    return sorted(shards.items(), key=lambda shard: shard[0])


def _known_shape(tensor: Any) -> Any:
    """The shape of a variable: static if it is fully known, else a tensor."""
    return list(tensor.dims) if tensor.shape.is_fully_defined() else shape_of(tensor)


def _join_partitioned_variables() -> None:
    """Make a node with the name of each partitioned variable in a collection, which importers of the meta graph look up."""
    graph = get_default_graph()
    for key in graph.get_all_collection_keys():
        for item in graph.get_collection(key):
            if isinstance(item, PartitionedVariable):
                try:
                    graph.get_operation_by_name(item.name)
                except KeyError:
                    item.as_tensor()
