"""Errors of a master have TensorFlow's code and text: the same requests to a server of either kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import grpc
import numpy as np
import pytest

import aioexec as ax
from aioexec.formats import protos
from aioexec.formats.tensor_codec import make_tensor_proto
from tests.interop.distributed.served_to_tensorflow import ServerProcess

pytestmark = pytest.mark.interop

ONES = np.ones(2, np.float32)


class Master:
    """Sends messages to a master; a reply, or the code and the message of an error."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target.removeprefix("grpc://"))
        graph = ax.Graph()
        with graph.as_default():
            ax.multiply(ax.placeholder(ax.float32, [2], name="x"), 2.0, name="y")
            ax.constant(1.0, name="c")
            ax.Variable(1.0, use_resource=False, name="v")
        self.graph_def = graph.as_graph_def()
        self.handle = self.call("CreateSession", graph_def=self.graph_def).session_handle

    def call(self, name: str, **fields: Any) -> Any:
        request = getattr(protos, f"{name}Request")
        if "session_handle" in request.DESCRIPTOR.fields_by_name and name != "ListDevices":
            fields.setdefault("session_handle", self.handle)
        method = self._channel.unary_unary(
            f"/tensorflow.MasterService/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=getattr(protos, f"{name}Response").FromString,
        )
        try:
            return method(request(**fields), timeout=60)
        except grpc.RpcError as error:
            return error.code().name, error.details()

    def step(self, *fetches: str, feeds: Any = (), **fields: Any) -> Any:
        feed = [{"name": name, "tensor": make_tensor_proto(value)} for name, value in feeds]
        return self.call("RunStep", fetch=fetches, feed=feed, **fields)

    def node(self, name: str = "n", op: str = "Identity", inputs: Any = ("c",), kind: int | None = 1) -> Any:
        graph_def = protos.GraphDef()
        graph_def.versions.producer = 21
        node = graph_def.node.add(name=name, op=op, input=inputs)
        if kind is not None:
            node.attr["T"].MergeFrom(protos.AttrValue(type=cast("Any", kind)))
        return self.call("ExtendSession", graph_def=graph_def)

    def made_of(self, *names: str, **versions: int) -> Any:
        graph_def = protos.GraphDef(node=[{"name": name, "op": "NoOp"} for name in names])
        graph_def.versions.producer = 21
        graph_def.versions.MergeFrom(protos.VersionDef(**cast("Any", versions)))
        return self.call("CreateSession", graph_def=graph_def)

    def part(self, *again: str) -> Any:
        """A step in two parts, both done, and then these fetches of it."""
        setup = self.call("PartialRunSetup", feed=["x:0"], fetch=["y:0", "c:0"])
        if again == ("x:0",):
            return self.step("x:0", partial_run_handle=setup.partial_run_handle)
        self.step("c:0", partial_run_handle=setup.partial_run_handle)
        self.step("y:0", feeds=[("x:0", ONES)], partial_run_handle=setup.partial_run_handle)
        return self.step(*again, partial_run_handle=setup.partial_run_handle)

    def released(self) -> Any:
        options = protos.CallableOptions(feed=["x:0"], fetch=["y:0"])
        handle = self.call("MakeCallable", options=options).handle
        for _ in range(2):
            self.call("ReleaseCallable", handle=handle)
        return self.call("RunCallable", handle=handle)

    def twice(self) -> Any:
        self.step("c:0", request_id=5)
        return self.step("c:0", request_id=5)

    def closed(self) -> Any:
        handle = self.call("CreateSession", graph_def=self.graph_def).session_handle
        self.call("CloseSession", session_handle=handle)
        return self.call("CloseSession", session_handle=handle)


CASES: dict[str, tuple[str, Callable[[Master], Any]]] = {
    "x:0 is both fed and fetched.": ("INVALID_ARGUMENT", lambda m: m.step("x:0", feeds=[("x:0", ONES)])),
    'Endpoint "x:0" fed more than once.': (
        "INVALID_ARGUMENT",
        lambda m: m.step("y:0", feeds=[("x:0", ONES)] * 2),
    ),
    "Must specify at least one target to fetch or execute.": ("INVALID_ARGUMENT", lambda m: m.step()),
    "FetchOutputs node zzz:0: not found": ("NOT_FOUND", lambda m: m.step("zzz:0")),
    "Some target nodes not found: zzz": ("NOT_FOUND", lambda m: m.step(target=["zzz"])),
    "unable to find feed output qq:0": ("NOT_FOUND", lambda m: m.step("c:0", feeds=[("qq:0", ONES)])),
    "FetchOutputs y:4: output index too large, must be < 1": ("INVALID_ARGUMENT", lambda m: m.step("y:4")),
    "Output 0 of type int32 does not match declared output type float for node": (
        "INTERNAL",
        lambda m: m.step("y:0", feeds=[("x:0", np.ones(2, np.int32))]),
    ),
    "Attempting to use uninitialized value v": ("FAILED_PRECONDITION", lambda m: m.step("v:0")),
    "The same RunStep (Master) request was received twice": ("ABORTED", lambda m: m.twice()),
    "Session abc is not found.": ("ABORTED", lambda m: m.step("c:0", session_handle="abc")),
    "Session q is not found.": ("ABORTED", lambda m: m.call("ExtendSession", session_handle="q")),
    "is not found. Possibly, this master has restarted.": ("ABORTED", lambda m: m.closed()),
    "Session l is not found. Possibly, this master has restarted.": (
        "INVALID_ARGUMENT",
        lambda m: m.call("ListDevices", session_handle="l"),
    ),
    "Current version is 0 but caller expected 7.": (
        "ABORTED",
        lambda m: m.call("ExtendSession", graph_def=m.graph_def, current_graph_version=7),
    ),
    "which was created by a previous call to Create or Extend in this session.": (
        "INVALID_ARGUMENT",
        lambda m: m.call("ExtendSession", graph_def=m.graph_def),
    ),
    "Illegal op name '_a'": ("INVALID_ARGUMENT", lambda m: m.node("_a")),
    "Illegal op name 'a\\b'": ("INVALID_ARGUMENT", lambda m: m.node("a\\b")),
    "Illegal op input name 'a:b'": ("INVALID_ARGUMENT", lambda m: m.node(inputs=["a:b"])),
    "Op type not registered 'Nope'": ("NOT_FOUND", lambda m: m.node(op="Nope")),
    "Node 'n': Unknown input node 'zork'": ("INVALID_ARGUMENT", lambda m: m.node(inputs=["zork"])),
    "Node 'n': Connecting to invalid output 7 of source node c which has 1 outputs": (
        "INVALID_ARGUMENT",
        lambda m: m.node(inputs=["c:7"]),
    ),
    "NodeDef missing attr 'T' from Op<": ("INVALID_ARGUMENT", lambda m: m.node(kind=None)),
    "expected": ("INVALID_ARGUMENT", lambda m: m.node(inputs=["c", "c"])),
    "int32": ("INVALID_ARGUMENT", lambda m: m.node(kind=3)),
    "GraphDef producer version -1 below min producer 0": (
        "INVALID_ARGUMENT",
        lambda m: m.made_of("k", producer=-1),
    ),
    "GraphDef min consumer version 99999 above current version": (
        "INVALID_ARGUMENT",
        lambda m: m.made_of("k", min_consumer=99999),
    ),
    "Node 'k' is not unique": ("INVALID_ARGUMENT", lambda m: m.made_of("k", "k")),
    "The fetch x:0 was not specified in partial_run_setup.": ("INVALID_ARGUMENT", lambda m: m.part("x:0")),
    "Must run PartialRunSetup before performing partial runs": ("INVALID_ARGUMENT", lambda m: m.part("y:0")),
    "Attempted to run callable after handle was released: 0": ("INVALID_ARGUMENT", lambda m: m.released()),
    "No such callable handle: 999": ("INVALID_ARGUMENT", lambda m: m.call("RunCallable", handle=999)),
    "FeedInputs: unable to find feed output qq:0": (
        "NOT_FOUND",
        lambda m: m.call("MakeCallable", options=protos.CallableOptions(feed=["qq:0"], fetch=["y:0"])),
    ),
}
"""The message, the code, and a function that causes the error."""


@pytest.fixture(scope="module")
def targets(tf_target) -> Iterator[list[str]]:
    with ServerProcess() as server:
        yield [tf_target, server.target]


@pytest.mark.behaviour(149)
@pytest.mark.behaviour(150)
@pytest.mark.parametrize("said", CASES)
def test_both_refuse_in_the_same_words(targets, said):
    code, call = CASES[said]

    for target in targets:
        answer = call(Master(target))

        assert isinstance(answer, tuple), f"{target}: expected {code}, got {answer}"
        assert answer[0] == code
        assert said in answer[1]
