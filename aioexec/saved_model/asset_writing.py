"""Copies the asset files of a graph into a SavedModel. `AssetFolder` blocks: coroutines call it off the loop."""

from __future__ import annotations

import contextlib
import filecmp
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError
from aioexec.files import operations
from aioexec.formats.paths import local_path
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.saved_model.constants import ASSETS_DIRECTORY

if TYPE_CHECKING:
    from google.protobuf.any_pb2 import Any as AnyMessage


def asset_path_of(tensor: Any) -> str:
    """The path that a constant tensor of an asset holds.

    Raises:
        GraphTypeError: it is no constant string.
    """
    if not isinstance(tensor, Tensor):
        raise GraphTypeError(f"Asset path tensor must be a Tensor, got {tensor!r}")
    if tensor.op.type != "Const" or tensor.dtype != dtypes.string:
        raise GraphTypeError(
            f"Asset path tensor must be a constant of dtype string, got {tensor.op.type} {tensor.name!r} of dtype "
            f"{tensor.dtype.name}"
        )
    value = constant_value(tensor)
    assert value is not None
    if value.size != 1:
        raise GraphTypeError(f"Asset path tensor {tensor.name!r} must hold one path, got {value.size}")
    return os.fsdecode(value.item())


def asset_message(filename: str, tensor: Tensor) -> AnyMessage:
    """The item of the collection of assets for one file."""
    from google.protobuf.any_pb2 import Any as AnyMessage

    from aioexec.formats.protos import AssetFileDef, TensorInfo

    asset = AssetFileDef(filename=filename, tensor_info=TensorInfo(name=tensor.name))
    return AnyMessage(type_url="type.googleapis.com/tensorflow.AssetFileDef", value=asset.SerializeToString())


class AssetFolder:
    """The folder of assets of a SavedModel that is written.

    Growing: `_sources`, the paths that files were copied from, by their name in the folder.
    """

    def __init__(self, export_dir: str) -> None:
        self.path = os.path.join(export_dir, ASSETS_DIRECTORY)
        self._sources: dict[str, str] = {}

    def add(self, paths: Iterable[str]) -> list[str]:
        """Copy files; returns their names in the folder: of files with equal names and other contents, one gets a number.

        Raises:
            NotFoundError: there is no such file. No file of this call is left.
        """
        before = dict(self._sources)
        try:
            return [self._add(path) for path in paths]
        except BaseException:
            self.remove_all_but(before)
            raise

    @property
    def sources(self) -> dict[str, str]:
        return dict(self._sources)

    def remove_all_but(self, kept: dict[str, str]) -> None:
        """Remove the files that are not in `kept`, and the folder if it is empty."""
        for name in [*self._sources]:
            if name not in kept:
                del self._sources[name]
                with contextlib.suppress(OSError):
                    os.unlink(local_path(os.path.join(self.path, name)))
        with contextlib.suppress(OSError):
            os.rmdir(local_path(self.path))

    def _add(self, path: str) -> str:
        name = self._free_name(path)
        if name not in self._sources:
            operations.makedirs(self.path)
            self._sources[name] = path
            operations.copy(path, os.path.join(self.path, name))
        return name

    def _free_name(self, path: str) -> str:
        """The name for a file: that of an equal file which is there already, or one that is free."""
        base, count = os.path.basename(path), 0
        name = base
        while name in self._sources and not _are_equal(self._sources[name], path):
            count += 1
            name = f"{base}_{count}"
        return name


def _are_equal(path: str, other: str) -> bool:
    if path == other:
        return True
    with contextlib.suppress(OSError):
        return filecmp.cmp(local_path(path), local_path(other), shallow=False)
    return False
