"""Decoders of Examples: each item of a sample is made of one or several features by a handler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.contrib.slim.data.data_decoder import DataDecoder
from aioexec.errors import GraphValueError
from aioexec.graph import sparse_tensor
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.shapes_of import shape as shape_of, size
from aioexec.ops.array.slicing import slice_
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.functions.map_and_scan import map_fn
from aioexec.ops.image.codecs import decode_image
from aioexec.ops.io.decoding import decode_raw
from aioexec.ops.io.example_functions import FixedLenFeature, parse_single_example
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, logical_or
from aioexec.ops.sparse.functions import sparse_reshape, sparse_tensor_to_dense

Tensors = Mapping[str, Any]
"""Tensors by the keys of features."""


def _dense(value: Any) -> Any:
    return sparse_tensor_to_dense(value) if isinstance(value, sparse_tensor.SparseTensor) else value


def _listed(keys: Any) -> list[str]:
    return list(keys) if isinstance(keys, list | tuple) else [keys]


class ItemHandler(ABC):
    """Makes an item from features; `keys` are the names of the features, one or a list."""

    def __init__(self, keys: Any) -> None:
        self._keys = _listed(keys)

    @property
    def keys(self) -> list[str]:
        return self._keys

    @abstractmethod
    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        """Return the item for the tensors of its features."""


class ItemHandlerCallback(ItemHandler):
    """An item that a function of a dict of tensors returns."""

    def __init__(self, keys: Any, func: Callable[[Tensors], Any]) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        return self._func(keys_to_tensors)


class BoundingBox(ItemHandler):
    """Boxes [count, 4] of four features; `prefix` comes before the keys ymin, xmin, ymax, xmax.

    Raises:
        GraphValueError: there are not four keys.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        keys = ["ymin", "xmin", "ymax", "xmax"] if keys is None else keys
        if len(keys) != 4:
            raise GraphValueError(f"BoundingBox expects 4 keys but got {len(keys)}")
        super().__init__([f"{prefix or ''}{key}" for key in keys])

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        sides = [keys_to_tensors[key] for key in self._keys]
        flat = [side.values if isinstance(side, sparse_tensor.SparseTensor) else side for side in sides]
        return transpose(stack(flat))


class Tensor(ItemHandler):
    """A feature, reshaped to `shape`, or to the shape that other features tell.

    Args:
        default_value: in place of the elements that a sparse feature does not have.

    Raises:
        GraphValueError: both `shape_keys` and `shape` are given.
    """

    def __init__(
        self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0
    ) -> None:
        if shape_keys and shape is not None:
            raise GraphValueError("Cannot specify both shape_keys and shape parameters.")
        self._tensor_key = tensor_key
        self._shape_keys = _listed(shape_keys) if shape_keys else []
        self._shape = shape
        self._default_value = default_value
        super().__init__([tensor_key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        tensor, shape = keys_to_tensors[self._tensor_key], self._shape
        if self._shape_keys:
            shape = reshape(stack([_dense(keys_to_tensors[key]) for key in self._shape_keys]), [-1])
        if not isinstance(tensor, sparse_tensor.SparseTensor):
            return tensor if shape is None else reshape(tensor, shape)
        if shape is not None:
            tensor = sparse_reshape(tensor, shape)
        return sparse_tensor_to_dense(tensor, self._default_value)


class LookupTensor(Tensor):
    """As `Tensor`, after a lookup in a table."""

    def __init__(
        self,
        tensor_key: str,
        table: Any,
        shape_keys: Any = None,
        shape: Any = None,
        default_value: Any = "",
    ) -> None:
        super().__init__(tensor_key, shape_keys, shape, default_value)
        self._table = table

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """The item of a handler, or that of another one if it has no elements.

    Raises:
        GraphValueError: one of both is no handler.
    """

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        for name, each in (("Primary", handler), ("Backup", backup)):
            if not isinstance(each, ItemHandler):
                raise GraphValueError(f"{name} handler is of type {type(each)} instead of ItemHandler")
        self._handler = handler
        self._backup = backup
        super().__init__([*handler.keys, *backup.keys])

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        item = self._handler.tensors_to_item(keys_to_tensors)
        return cond(equal(size(item), 0), lambda: self._backup.tensors_to_item(keys_to_tensors), lambda: item)


class SparseTensor(ItemHandler):
    """A sparse tensor of features with its indices, its values and perhaps its shape.

    Args:
        densify: whether the item is dense, with `default_value` elsewhere.
    """

    def __init__(
        self,
        indices_key: str | None = None,
        values_key: str | None = None,
        shape_key: str | None = None,
        shape: Any = None,
        densify: bool = False,
        default_value: Any = 0,
    ) -> None:
        self._indices_key = indices_key or "indices"
        self._values_key = values_key or "values"
        self._shape_key = shape_key
        self._shape = shape
        self._densify = densify
        self._default_value = default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        indices, values = keys_to_tensors[self._indices_key], keys_to_tensors[self._values_key]
        if self._shape_key:
            shape = _dense(keys_to_tensors[self._shape_key])
        else:
            shape = self._shape or indices.dense_shape
        rank = shape_of(indices.indices)[1]
        outer = slice_(indices.indices, [0, 0], stack([-1, rank - 1]))
        last = reshape(cast(indices.values, dtypes.int64), [-1, 1])
        found = sparse_tensor.SparseTensor(concat([outer, last], 1), values.values, shape)
        return sparse_tensor_to_dense(found, self._default_value) if self._densify else found


class Image(ItemHandler):
    """An image, decoded by its header, or the bytes of its elements if the format is raw.

    Args:
        image_key, format_key: the features with the file and its format, by default image/encoded and image/format.
        shape: of the image, as a vector; or `shape_keys`: features that tell it.
        channels: number of channels.
        dtype: of the image.
        repeated: whether the feature has several images.

    Raises:
        GraphValueError: both `shape_keys` and `shape` are given.
    """

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Any = None,
        channels: int = 3,
        dtype: Any = dtypes.uint8,
        repeated: bool = False,
        dct_method: str = "",
        shape_keys: Any = None,
    ) -> None:
        if shape_keys and shape is not None:
            raise GraphValueError("Cannot specify both shape_keys and shape parameters.")
        self._image_key = image_key or "image/encoded"
        self._format_key = format_key or "image/format"
        self._shape = shape
        self._shape_keys = _listed(shape_keys) if shape_keys else []
        self._channels = channels
        self._dtype = dtypes.as_dtype(dtype)
        self._repeated = repeated
        self._dct_method = dct_method
        super().__init__([self._image_key, self._format_key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Tensors) -> Any:
        kind, shape = keys_to_tensors[self._format_key], self._shape
        if self._shape_keys:
            shape = reshape(stack([_dense(keys_to_tensors[key]) for key in self._shape_keys]), [-1])
        images = keys_to_tensors[self._image_key]
        if self._repeated:
            return map_fn(lambda each: self._decoded(each, kind, shape), _dense(images), dtype=self._dtype)
        return self._decoded(images, kind, shape)

    def _decoded(self, contents: Any, kind: Any, shape: Any) -> Any:
        image = cond(
            logical_or(equal(kind, "raw"), equal(kind, "RAW")),
            lambda: decode_raw(contents, out_type=self._dtype),
            lambda: cast(decode_image(contents, channels=self._channels), self._dtype),
        )
        if shape is not None:
            return reshape(image, shape)
        image.set_shape([None, None, self._channels])
        return image


class TFExampleDecoder(DataDecoder):
    """Decodes serialized Examples.

    Args:
        keys_to_features: a feature (FixedLenFeature, VarLenFeature, …) for each key.
        items_to_handlers: a handler for each item.
    """

    def __init__(
        self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]
    ) -> None:
        self._keys_to_features = keys_to_features
        self._items_to_handlers = items_to_handlers

    def list_items(self) -> list[str]:
        """Return the names of the items."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """Return the tensors of items, by default of all, of one serialized Example."""
        example = parse_single_example(serialized_example, self._keys_to_features)
        for key in sorted(self._keys_to_features):
            feature = self._keys_to_features[key]
            if isinstance(feature, FixedLenFeature):
                example[key] = reshape(example[key], feature.shape)
        outputs = []
        for item in items or self.list_items():
            handler = self._items_to_handlers[item]
            outputs.append(handler.tensors_to_item({key: example[key] for key in handler.keys}))
        return outputs
