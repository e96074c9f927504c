"""Iterators: where the elements of datasets enter a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from aioexec import dtypes
from aioexec.data.structure import (
    attrs_of,
    flat_dtypes,
    flatten,
    from_tensors,
    legacy_classes,
    legacy_shapes,
    legacy_types,
    same_structure,
    spec_of_legacy,
)
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_list_op, apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.func_graph import FuncGraph, copy_operations
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import Operation, Tensor

_ITERATORS = "iterators"
"""The collection of all iterators' handles."""


class DatasetNode(Protocol):
    """A dataset, as far as iterators see it: a `dataset.Dataset`."""

    _variant_tensor: Tensor

    @property
    def element_spec(self) -> Any: ...
    def _dataset_ops(self) -> set[Operation]: ...


class Iterator:
    """The state of iterating over a dataset.

    Made by `Dataset.make_one_shot_iterator`, `Dataset.make_initializable_iterator`, `Iterator.from_structure` and
    `Iterator.from_string_handle`.
    """

    def __init__(self, iterator_resource: Tensor, initializer: Operation | None, spec: Any) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._spec = spec
        self._string_handle = apply_op("IteratorToStringHandle", iterator_resource)
        get_default_graph().add_to_collection(_ITERATORS, iterator_resource)

    @staticmethod
    def from_structure(
        output_types: Any,
        output_shapes: Any = None,
        shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:
        """Return an iterator without a dataset; `make_initializer` gives it one, of elements of this structure.

        Args:
            output_types: structure of dtypes.
            output_shapes: structure of shapes; by default unknown.
            shared_name: the iterator is shared by sessions of the same devices under this name.
            output_classes: structure of Tensor or SparseTensor; by default Tensor.

        Raises:
            GraphTypeError, GraphValueError: the structures differ.
        """
        spec = spec_of_legacy(output_types, output_shapes, output_classes)
        handle = apply_op("IteratorV2", container="", shared_name=shared_name or "", **attrs_of(spec))
        return Iterator(handle, None, spec)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """Return the iterator whose `string_handle()` has this value, in each step anew.

        Args:
            string_handle: scalar string tensor.
            output_types, output_shapes, output_classes: as of `from_structure`.

        Raises:
            GraphTypeError, GraphValueError: the structures differ.
        """
        spec = spec_of_legacy(output_types, output_shapes, output_classes)
        text = convert_to_tensor(string_handle, dtypes.string)
        return Iterator(apply_op("IteratorFromStringHandleV2", text, **attrs_of(spec)), None, spec)

    @property
    def initializer(self) -> Operation:
        """The operation that starts the iteration, from the beginning.

        Raises:
            GraphValueError: the iterator has none.
        """
        if self._initializer is None:
            raise GraphValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: DatasetNode, name: str | None = None) -> Operation:
        """Return an operation that starts to iterate over a dataset.

        Raises:
            GraphTypeError: its elements have other dtypes, shapes or another structure.
        """
        ours, theirs = self._spec, dataset.element_spec
        if not same_structure(ours, theirs) or flat_dtypes(ours) != flat_dtypes(theirs):
            raise GraphTypeError(
                f"Expected output types {legacy_types(ours)!r} but got dataset with output types "
                f"{legacy_types(theirs)!r}."
            )
        if not all(
            one.is_compatible_with(other) for one, other in zip(flatten(ours), flatten(theirs), strict=True)
        ):
            raise GraphTypeError(
                f"Expected output shapes compatible with {legacy_shapes(ours)!r} but got dataset with output shapes "
                f"{legacy_shapes(theirs)!r}."
            )
        with get_default_graph().colocate_with(self._iterator_resource.op):
            return apply_no_output_op(
                "MakeIterator", dataset._variant_tensor, self._iterator_resource, name=name
            )

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element, as the structure of tensors that each step gets anew.

        A step that gets none, as there are no more, raises OutOfRangeError.
        """
        found = apply_list_op("IteratorGetNext", self._iterator_resource, name=name, **attrs_of(self._spec))
        return from_tensors(self._spec, found)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Return a scalar string tensor, whose value selects this iterator in `from_string_handle`."""
        if name is None:
            return self._string_handle
        return apply_op("IteratorToStringHandle", self._iterator_resource, name=name)

    @property
    def element_spec(self) -> Any:
        """The structure of components of an element."""
        return self._spec

    @property
    def output_types(self) -> Any:
        """The structure of dtypes of an element."""
        return legacy_types(self._spec)

    @property
    def output_shapes(self) -> Any:
        """The structure of static shapes of an element."""
        return legacy_shapes(self._spec)

    @property
    def output_classes(self) -> Any:
        """The structure of classes of an element."""
        return legacy_classes(self._spec)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Return the structure of dtypes of an element."""
    return legacy_types(dataset_or_iterator.element_spec)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return the structure of static shapes of an element."""
    return legacy_shapes(dataset_or_iterator.element_spec)


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """Return the structure of classes of an element: Tensor or SparseTensor."""
    return legacy_classes(dataset_or_iterator.element_spec)


# Creation


def initializable(dataset: DatasetNode, shared_name: str | None) -> Iterator:
    """Return an iterator with an initializer over a dataset."""
    variant, spec = _of_this_graph(dataset), dataset.element_spec
    with get_default_graph().colocate_with(variant.op):
        handle = apply_op("IteratorV2", container="", shared_name=shared_name or "", **attrs_of(spec))
        initializer = apply_no_output_op("MakeIterator", variant, handle)
    return Iterator(handle, initializer, spec)


def one_shot(dataset: DatasetNode) -> Iterator:
    """Return an iterator over a dataset that needs no initializer: the dataset is moved into a function.

    Raises:
        GraphValueError: the dataset depends on the state of a session, or on feeds.
    """
    variant, spec = _of_this_graph(dataset), dataset.element_spec
    graph = get_default_graph()
    factory = _factory(variant, graph, dataset._dataset_ops())
    handle = apply_op(
        "OneShotIterator", dataset_factory=factory, container="", shared_name="", **attrs_of(spec)
    )
    return Iterator(handle, None, spec)


def _of_this_graph(dataset: DatasetNode) -> Tensor:
    variant: Tensor = dataset._variant_tensor
    if variant.graph is not get_default_graph():
        raise GraphValueError(
            "The graph of the iterator is different from the graph the dataset was created in. If you are using the "
            "Estimator API, make sure that no part of the dataset returned by the `input_fn` function is defined "
            "outside the `input_fn` function. Otherwise, make sure that the dataset is created in the same graph as "
            "the iterator"
        )
    return variant


def _factory(variant: Tensor, graph: Graph, datasets: set[Operation]) -> NameAttrList:
    """Add a function without inputs that returns a dataset, with copies of the operations it depends on."""
    number = 0
    while f"_make_dataset_{number}" in graph.functions:
        number += 1
    body = FuncGraph(f"_make_dataset_{number}", graph)
    replacements: dict[Tensor, Tensor] = {}
    copy_operations(_ancestors(variant.op, lambda op: op in datasets), body, replacements)
    body.outputs = [replacements[variant]]
    graph.add_function(body.as_function())
    return NameAttrList(body.name, {})


def _ancestors(last: Operation, is_dataset: Callable[[Operation], bool]) -> list[Operation]:
    """Return the operation and those it depends on, in topological order.

    Raises:
        GraphValueError: one of them has state, or must be fed.
    """
    done: dict[Operation, None] = {}
    pending = [last]
    while pending:
        op = pending[-1]
        missing = [tensor.op for tensor in op.inputs if tensor.op not in done]
        if missing:
            pending.extend(missing)
            continue
        pending.pop()
        if op in done:
            continue
        _check_copied(op, is_dataset(op))
        done[op] = None
    return list(done)


def _check_copied(op: Operation, is_dataset: bool) -> None:
    if op.type in ("Placeholder", "PlaceholderV2"):
        raise GraphValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
    if op.row.is_stateful and not is_dataset:
        raise GraphValueError(
            "Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not support "
            "datasets that capture stateful objects, such as a `Variable` or `LookupTable`. In these cases, use "
            "`Dataset.make_initializable_iterator()`. (Original error: Cannot capture a stateful node "
            f"(name:{op.name}, type:{op.type}) by value.)"
        )


def make_one_shot_iterator(dataset: Any) -> Iterator:
    """Return an iterator that needs no initializer; see `Dataset.make_one_shot_iterator`."""
    found: Iterator = dataset.make_one_shot_iterator()
    return found


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Iterator:
    """Return an iterator with an initializer; see `Dataset.make_initializable_iterator`."""
    found: Iterator = dataset.make_initializable_iterator(shared_name)
    return found
