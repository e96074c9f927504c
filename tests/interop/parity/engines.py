"""The two engines behind one interface: import a graph, get static shapes and gradients, run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

import aioexec as ax

TIMEOUT_MS = 20_000
"""A step that blocks fails instead."""


class Engine(Protocol):
    """One case at a time: everything happens inside `case`, in a graph of its own."""

    def case(self) -> contextlib.AbstractContextManager[None]: ...

    def load(self, graph_def: bytes) -> None:
        """Import a graph."""

    def shape(self, tensor: str) -> tuple[int | None, ...] | None:
        """The static shape of a tensor."""

    def gradients(self, ys: Sequence[str], xs: Sequence[str], grad_ys: Sequence[Any]) -> list[Any]:
        """A tensor, IndexedSlices or None for each x."""

    def is_slices(self, gradient: Any) -> bool: ...

    def run(self, fetches: Any, feeds: dict[str, Any]) -> list[Any]: ...


class Handles:
    """Handles of tensors kept in a session; the tensors are deleted with them, so they are kept for a case."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def clear(self) -> None:
        self._kept.clear()

    def as_texts(self, values: Iterable[Any]) -> list[Any]:
        """The values, a text for each handle."""
        return [self._text(each) if hasattr(each, "handle") else each for each in values]

    def _text(self, handle: Any) -> Any:
        self._kept.append(handle)
        return np.array(handle.handle, object)


class There:
    """The real TensorFlow."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same order of summation each time
        import tensorflow

        self.tf = tensorflow.compat.v1
        self.tf.disable_control_flow_v2()  # or there are no gradients of TensorArrays
        config = self.tf.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, operation_timeout_in_ms=TIMEOUT_MS
        )
        config.graph_options.place_pruned_graph = True  # what a case does not run need not have a kernel
        config.graph_options.optimizer_options.opt_level = -1
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        self.config = config
        self.handles = Handles()

    @contextlib.contextmanager
    def case(self) -> Iterator[None]:
        with warnings.catch_warnings(), self.tf.Graph().as_default() as self.graph:
            warnings.simplefilter("ignore")
            with self.tf.Session(graph=self.graph, config=self.config) as self.session:
                yield
                self.handles.clear()

    def load(self, graph_def: bytes) -> None:
        self.tf.import_graph_def(self.tf.GraphDef.FromString(graph_def), name="")

    def shape(self, tensor: str) -> tuple[int | None, ...] | None:
        shape = self.graph.get_tensor_by_name(tensor).shape
        return None if shape.rank is None else tuple(shape.as_list())

    def gradients(self, ys: Sequence[str], xs: Sequence[str], grad_ys: Sequence[Any]) -> list[Any]:
        get = self.graph.get_tensor_by_name
        given = [self.tf.constant(each) for each in grad_ys]
        return list(self.tf.gradients([get(y) for y in ys], [get(x) for x in xs], given))

    def is_slices(self, gradient: Any) -> bool:
        return isinstance(gradient, self.tf.IndexedSlices)

    def run(self, fetches: Any, feeds: dict[str, Any]) -> list[Any]:
        # Copies: TensorFlow's operations in place write to a fed array whose memory happens to be aligned.
        return self.handles.as_texts(
            self.session.run(fetches, {key: np.array(value) for key, value in feeds.items()})
        )


class Here:
    """aioexec; with `jit` eager its native tier, where there are native forms."""

    def __init__(self, jit: str = "off", timeout_ms: int = TIMEOUT_MS) -> None:
        self.config = ax.ConfigProto(operation_timeout_in_ms=timeout_ms)
        self.config.graph_options.place_pruned_graph = True
        self.config.aioexec.jit = jit
        self.runner = asyncio.Runner()
        self.handles = Handles()

    @contextlib.contextmanager
    def case(self) -> Iterator[None]:
        with warnings.catch_warnings(), ax.Graph().as_default() as self.graph:
            warnings.simplefilter("error")
            self.session = ax.Session(graph=self.graph, config=self.config)
            try:
                yield
            finally:
                self.handles.clear()
                self.runner.run(self.session.close())

    def close(self) -> None:
        self.runner.close()

    def load(self, graph_def: bytes) -> None:
        ax.import_graph_def(ax.GraphDef.FromString(graph_def), name="")

    def shape(self, tensor: str) -> tuple[int | None, ...] | None:
        shape = self.graph.get_tensor_by_name(tensor).shape
        return None if shape.rank is None else tuple(shape.as_list())

    def gradients(self, ys: Sequence[str], xs: Sequence[str], grad_ys: Sequence[Any]) -> list[Any]:
        get = self.graph.get_tensor_by_name
        given = [ax.constant(np.asarray(each)) for each in grad_ys]
        return list(ax.gradients([get(y) for y in ys], [get(x) for x in xs], given))

    def is_slices(self, gradient: Any) -> bool:
        return isinstance(gradient, ax.IndexedSlices)

    def run(self, fetches: Any, feeds: dict[str, Any]) -> list[Any]:
        return self.handles.as_texts(self.runner.run(self._run(fetches, feeds)))

    async def _run(self, fetches: Any, feeds: dict[str, Any]) -> Any:
        return await self.session.run(fetches, feeds)
