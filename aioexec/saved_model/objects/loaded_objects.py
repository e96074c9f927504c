"""Objects of a loaded model of TensorFlow 2: modules with their attributes, lists, dicts, variables, functions.

They are made when they are first looked up. Objects refer to each other as they did when they were saved, in cycles too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.formats.tensor_codec import shape_from_proto
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.saved_model.objects.captured_tensors import CapturedTensors
from aioexec.saved_model.objects.loaded_functions import CalledFunctions, LoadedFunction, LoadedTrace
from aioexec.saved_model.objects.object_graph import ObjectGraph, SavedNode, parameters_of
from aioexec.saved_model.signature import Runner

if TYPE_CHECKING:
    from aioexec.formats.protos import SavedVariable


class LoadedObjects:
    """The objects of one loaded model by number.

    Constant: the graph, its session, the object graph, the tensors of captured objects. Growing: `_made`, the objects that were
    looked up. Belongs to the session's event loop.
    """

    def __init__(
        self, graph: Graph, session: Runner, objects: ObjectGraph, captured: CapturedTensors
    ) -> None:
        self.graph = graph
        self.session = session
        self.captured = captured
        self._nodes = objects.nodes
        self._traces = objects.traces
        self._calls = CalledFunctions(graph, session, captured)
        self._made: dict[int, Any] = {}

    @property
    def root(self) -> LoadedObject:
        """The object that was saved."""
        found = self.found(0, "")
        return found if isinstance(found, LoadedObject) else LoadedObject("", self._nodes[0], self)

    def found(self, number: int, name: str) -> Any:
        """The object of a number; `name` is the path at which it is looked up."""
        if number not in self._made:
            self._made[number] = self._make(self._nodes[number], name)
        return self._made[number]

    def _make(self, node: SavedNode, name: str) -> Any:
        proto = node.proto
        if node.kind == "variable":
            return LoadedVariable(name, node.number, proto.variable, self)
        if node.kind == "function":
            traces = [self._traces[each] for each in proto.function.concrete_functions]
            parameters = parameters_of(proto.function.function_spec)
            return LoadedFunction(name, traces, parameters, self._calls)
        if node.kind == "bare_concrete_function":
            bare = proto.bare_concrete_function
            trace = self._traces[bare.concrete_function_name]
            return LoadedTrace(name, trace, bare.argument_keywords, self._calls)
        if node.kind == "asset":
            return self.captured.asset(node.number)
        if node.kind == "constant":
            return self.captured.tensor(node.number)
        return LoadedObject(name, node, self)


class LoadedObject:
    """A module, list, dict or table of a loaded model; its attributes and items are those that were saved.

    An attribute that is a function is awaited: `await model.encoder.call(x)`.
    """

    def __init__(self, name: str, node: SavedNode, objects: LoadedObjects) -> None:
        self._name = name
        self._node = node
        self._objects = objects

    def __repr__(self) -> str:
        return f"LoadedObject({self._name!r}, {sorted(self._node.children)})"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self._node.children if name.isidentifier())})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._node.children:
            raise AttributeError(f"{self._name or 'the model'!r} has no {name!r}, only {self._shown()}")
        return self._child(name)

    def __getitem__(self, key: int | str) -> Any:
        """The item of a list at a position, or of a dict at a key."""
        name = str(key + len(self) if isinstance(key, int) and key < 0 else key)
        if name not in self._node.children:
            error = IndexError if isinstance(key, int) else KeyError
            raise error(f"{self._name or 'the model'!r} has no item {key!r}, only {self._shown()}")
        return self._child(name)

    def __len__(self) -> int:
        return len(self._node.children)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        """The items of a list in order; the keys of anything else."""
        names = self._node.children
        if all(name.isdecimal() for name in names):
            return (self._child(name) for name in sorted(names, key=int))
        return iter(sorted(names))

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object's function `__call__`.

        Raises:
            UnimplementedError: it was not saved with one.
        """
        function = self._child("__call__") if "__call__" in self._node.children else None
        if not isinstance(function, LoadedFunction):
            raise UnimplementedError(
                f"{self._name or 'the model'!r} was not saved with a function to call it"
            )
        return await function(*args, **kwargs)

    def _child(self, name: str) -> Any:
        return self._objects.found(self._node.children[name], f"{self._name}.{name}".removeprefix("."))

    def _shown(self) -> str:
        names = sorted(self._node.children)
        return f"{names[:20]}{' and more' if len(names) > 20 else ''}"


class LoadedVariable:
    """A variable of a loaded model.

    Constant: `name`, under which it was saved; `path` in the model; `dtype`; `shape`; `trainable`.
    """

    def __init__(self, path: str, number: int, proto: SavedVariable, objects: LoadedObjects) -> None:
        self.path = path
        self.name = proto.name
        self.dtype: DType = dtypes.as_dtype(proto.dtype)
        self.shape = shapes.TensorShape(shape_from_proto(proto.shape))
        self.trainable = proto.trainable
        self._number = number
        self._objects = objects
        self._read: Tensor | None = None

    def __repr__(self) -> str:
        return f"LoadedVariable({self.path!r}, {self.dtype.name} {self.shape})"

    @property
    def handle(self) -> Tensor:
        """The handle of the variable in the graph.

        Raises:
            InvalidArgumentError: the graph does not use it.
        """
        return self._objects.captured.tensor(self._number)

    async def value(self) -> np.ndarray[Any, Any]:
        """Read the variable in a step of its own."""
        if self._read is None:
            if self.handle.dtype.base_dtype != dtypes.resource:
                raise InvalidArgumentError(f"variable {self.path!r}: expected a handle, got {self.handle!r}")
            with self._objects.graph.as_default(), self._objects.graph.control_dependencies(None):
                self._read = apply_op("ReadVariableOp", self.handle, dtype=self.dtype)
        found: Sequence[np.ndarray[Any, Any]] = await self._objects.session.run([self._read])
        return found[0]
