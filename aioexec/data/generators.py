"""Datasets of the elements of Python generators."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data.functions import traced_flat
from aioexec.data.structure import Component, attrs_of, flatten, flatten_up_to, legacy_types, spec_of_legacy
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.functions.python import py_func
from aioexec.shapes import TensorShape


class Generated:
    """A generator, as the functions of a GeneratorDataset: for its start, the next element, and its end.

    Constant: `spec` of the elements; the generator and the tensors of its arguments. Changing: `_iterators`, those under way,
    by the number that the functions pass on.
    """

    def __init__(
        self, generator: Callable[..., Any], output_types: Any, output_shapes: Any, args: Any
    ) -> None:
        if not callable(generator):
            raise GraphTypeError("`generator` must be callable.")
        self.spec = spec_of_legacy(output_types, output_shapes)
        self._generator = generator
        self._args = [
            convert_to_tensor(each, name=f"args_{k}") for k, each in enumerate(() if args is None else args)
        ]
        self._iterators: dict[int, Any] = {}
        self._numbers = itertools.count()
        calls: Any = _Asynchronous(self) if _is_async(generator) else _Plain(self)
        self._start, self._advance, self._finish = calls.start, calls.advance, calls.finish

    def node(self, dummy: Tensor) -> Tensor:
        """Return the dataset; `dummy` is an input without meaning."""
        components = flatten(self.spec)
        types = [component.dtype for component in components]

        def elements(number: Tensor) -> list[Tensor]:
            found: list[Tensor] = py_func(self._advance, [number], types)
            for tensor, component in zip(found, components, strict=True):
                tensor.set_shape(component.shape)
            return found

        start = traced_flat(
            lambda dummy: _scalar(py_func(self._start, self._args, dtypes.int64)),
            "Dataset_from_generator_get_iterator_id_fn",
            [dummy.dtype],
            [[]],
        )
        advance = traced_flat(elements, "Dataset_from_generator_generator_next_fn", [dtypes.int64], [[]])
        finish = traced_flat(
            lambda number: _scalar(py_func(self._finish, [number], dtypes.int64)),
            "Dataset_from_generator_finalize_fn",
            [dtypes.int64],
            [[]],
        )
        return apply_op(
            "GeneratorDataset",
            [dummy, *start.captured],
            advance.captured,
            finish.captured,
            Tinit_func_args=[dummy.dtype, *start.captured_types],
            Tnext_func_args=advance.captured_types,
            Tfinalize_func_args=finish.captured_types,
            init_func=start.attr,
            next_func=advance.attr,
            finalize_func=finish.attr,
            **attrs_of(self.spec),
        )

    # Called by steps

    def begin(self, args: tuple[Any, ...]) -> tuple[int, Any]:
        """Start a generator: return its number, and what the generator function has returned."""
        return next(self._numbers), self._generator(*args)

    def keep(self, number: int, iterator: Any) -> Any:
        """Keep an iterator under way, and return its number as the functions pass it on."""
        self._iterators[number] = iterator
        return np.int64(number)

    def under_way(self, number: Any) -> Any:
        return self._iterators[int(number)]

    def ended(self, number: Any) -> Any:
        """Return an iterator that is under way no longer."""
        return self._iterators.pop(int(number), None)

    def converted(self, element: Any) -> list[Any]:
        """Return the components of an element.

        Raises:
            TypeError, ValueError: the element has another structure, dtype or shape.
        """
        try:
            values = flatten_up_to(self.spec, element)
        except (GraphTypeError, GraphValueError) as error:
            raise TypeError(
                "`generator` yielded an element that did not match the expected structure. The expected structure was "
                f"{legacy_types(self.spec)}, but the yielded element was {element}."
            ) from error
        return [_array(*pair) for pair in zip(values, flatten(self.spec), strict=True)]


def _scalar(tensor: Tensor) -> Tensor:
    tensor.set_shape([])
    return tensor


def _is_async(generator: Callable[..., Any]) -> bool:
    while isinstance(generator, partial):
        generator = generator.func
    return inspect.isasyncgenfunction(generator) or inspect.isasyncgenfunction(
        getattr(generator, "__call__", None)  # noqa: B004  (tests the type of `__call__`)
    )


def _array(value: Any, component: Component) -> Any:
    try:
        array = dtypes.to_array(value, component.dtype)
    except (GraphTypeError, GraphValueError) as error:
        raise TypeError(
            "`generator` yielded an element that could not be converted to the expected type. The expected type was "
            f"{component.dtype.name}, but the yielded element was {value}."
        ) from error
    if not component.shape.is_compatible_with(TensorShape(array.shape)):
        raise ValueError(
            f"`generator` yielded an element of shape {array.shape} where an element of shape {component.shape} was "
            "expected."
        )
    return array


class _Plain:
    """The functions for a plain generator, which workers call."""

    def __init__(self, generated: Generated) -> None:
        self._generated = generated

    def start(self, *args: Any) -> Any:
        number, iterable = self._generated.begin(args)
        return self._generated.keep(number, iter(iterable))

    def advance(self, number: Any) -> list[Any]:
        return self._generated.converted(next(self._generated.under_way(number)))

    def finish(self, number: Any) -> Any:
        close = getattr(self._generated.ended(number), "close", None)
        if close is not None:
            close()
        return np.int64(0)


class _Asynchronous:
    """The functions for an asynchronous generator, which the event loop runs."""

    def __init__(self, generated: Generated) -> None:
        self._generated = generated

    async def start(self, *args: Any) -> Any:
        number, iterable = self._generated.begin(args)
        return self._generated.keep(number, aiter(iterable))

    async def advance(self, number: Any) -> list[Any]:
        return self._generated.converted(await anext(self._generated.under_way(number)))

    async def finish(self, number: Any) -> Any:
        close = getattr(self._generated.ended(number), "aclose", None)
        if close is not None:
            await close()
        return np.int64(0)
