"""Cluster descriptions and the placement of variables are TensorFlow's."""

from __future__ import annotations

import json
from typing import Any

import pytest

import aioexec as ax
from aioexec.distributed.cluster.cluster import make_server_def
from aioexec.distributed.cluster.cluster_resolver import SimpleClusterResolver, TFConfigClusterResolver

pytestmark = pytest.mark.interop

CLUSTERS: list[Any] = [
    {},
    {"worker": []},
    {"worker": ["a:1"]},
    {"worker": ["a:1", "b:2"], "ps": ["c:3"]},
    {"worker": {3: "a:1"}},
    {"worker": {"1": "a:1", "0": "b:2"}, "ps": ("c:3",)},
    {"worker": {5: "a:1", 2: "b:2"}},
]
NO_CLUSTERS: list[Any] = [
    3,
    ["a:1"],
    {"worker": "a:1"},
    {"worker": [1]},
    {1: ["a:1"]},
    {"worker": {"x": "a:1"}},
    None,
]


def tried(call: Any, *arguments: Any) -> Any:
    """The result of a call, or the builtin class of its exception."""
    try:
        return call(*arguments)
    except Exception as error:
        return next(kind for kind in (TypeError, ValueError) if isinstance(error, kind))


def asked(cluster: Any) -> list[Any]:
    """The values of all accessors of a cluster."""
    jobs = [*cluster.jobs, "chief"]
    calls = [cluster.num_tasks, cluster.task_indices]
    said = [tried(call, job) for call in calls for job in jobs]
    addresses = [tried(cluster.task_address, job, index) for job in jobs for index in (0, 1, 5)]
    return [cluster.jobs, bool(cluster), repr(cluster), cluster.as_dict(), said, addresses]


@pytest.mark.parametrize("described", CLUSTERS)
def test_a_cluster_says_what_tensorflows_says(tf, described):
    ours, theirs = ax.train.ClusterSpec(described), tf.train.ClusterSpec(described)

    assert asked(ours) == asked(theirs)
    assert ours.as_cluster_def().SerializeToString(deterministic=True) == (
        theirs.as_cluster_def().SerializeToString(deterministic=True)
    )
    assert asked(ax.train.ClusterSpec(theirs.as_cluster_def())) == (
        asked(tf.train.ClusterSpec(theirs.as_cluster_def()))
    )


@pytest.mark.parametrize("described", NO_CLUSTERS)
def test_what_is_no_cluster_is_none_for_either(tf, described):
    assert tried(ax.train.ClusterSpec, described) == tried(tf.train.ClusterSpec, described)


LOCAL = "localhost:0"
TASKS: list[tuple[Any, ...]] = [
    ({"worker": [LOCAL]},),
    ({"worker": {3: LOCAL}}, "worker"),
    ({"worker": [LOCAL, "localhost:1"]}, "worker", 0),
    ({"worker": [LOCAL, "localhost:1"]},),
    ({"worker": [LOCAL], "ps": ["localhost:1"]},),
    ({"worker": [LOCAL]}, "ps"),
    ({"worker": [LOCAL]}, "ps", 0),
    ({"worker": [LOCAL]}, "worker", 1),
    ({"worker": [LOCAL]}, "worker", -1),
    ({"worker": ["localhost"]}, "worker", 0),
    ({"worker": ["localhost:x"]}, "worker", 0),
    ({"worker": [LOCAL], "ps": ["localhost"]}, "worker", 0),
    ({"worker": [LOCAL]}, "worker", 0, "carrier pigeon"),
    ({},),
    (3,),
]


def kind_of(error: Exception) -> str:
    builtin = next((kind for kind in (TypeError, ValueError) if isinstance(error, kind)), type(error))
    return builtin.__name__


@pytest.mark.allow_leaks("TensorFlow's servers never end")
@pytest.mark.parametrize("arguments", TASKS, ids=str)
async def test_servers_are_made_or_refused_alike(tf, arguments):
    def theirs() -> Any:
        return tf.train.Server(*arguments, start=False).server_def.SerializeToString(deterministic=True)

    try:
        expected = theirs()
    except Exception as error:
        expected = kind_of(error)

    try:
        server = ax.train.Server(*arguments, start=False)  # type: ignore[misc]
    except Exception as error:
        found: Any = kind_of(error)
    else:
        found = server.server_def.SerializeToString(deterministic=True)
        await server.stop()

    assert found == expected


def test_a_server_def_of_tensorflows_is_taken(tf):
    theirs = tf.train.ServerDef(job_name="worker", task_index=0, protocol="grpc")
    theirs.cluster.CopyFrom(tf.train.ClusterSpec({"worker": ["a:1"]}).as_cluster_def())

    assert make_server_def(theirs).SerializeToString() == theirs.SerializeToString()


CONFIGURED: list[dict[str, Any]] = [
    {},
    {"cluster": {"worker": ["a:1"]}},
    {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}},
    {"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]}, "task": {"type": "worker", "index": "1"}},
    {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"},
    {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "ps", "index": 0}},
    {"session_master": "grpc://d:4"},
]


@pytest.mark.parametrize("configured", CONFIGURED, ids=json.dumps)
def test_the_environment_is_read_as_tensorflow_reads_it(tf, monkeypatch, configured):
    monkeypatch.setenv("TF_CONFIG", json.dumps(configured))

    def said(resolver: Any) -> list[Any]:
        return [
            resolver.cluster_spec().as_dict(),
            resolver.task_type,
            resolver.task_id,
            resolver.rpc_layer,
            resolver.environment,
            tried(resolver.master),
            tried(resolver.master, "worker", 0, "grpc"),
        ]

    assert said(TFConfigClusterResolver()) == said(tf.distribute.cluster_resolver.TFConfigClusterResolver())


def test_a_simple_resolver_says_what_tensorflows_says(tf):
    def said(kind: Any, spec: Any) -> list[Any]:
        resolver = kind(spec({"worker": ["a:1", "b:2"]}), "c:3", "worker", 1, "here", {"GPU": 2}, "grpc")
        return [
            resolver.master(),
            resolver.master("worker", 0),
            resolver.master("worker"),
            resolver.master("worker", 0, "other"),
            resolver.environment,
            resolver.num_accelerators(),
            resolver.task_type,
            resolver.task_id,
        ]

    theirs = said(tf.distribute.cluster_resolver.SimpleClusterResolver, tf.train.ClusterSpec)
    assert said(SimpleClusterResolver, ax.train.ClusterSpec) == theirs


# Variables on parameter servers


def placed(module: Any, setter: Any, shapes: list[list[int]]) -> list[str]:
    with module.Graph().as_default(), module.device(setter):
        made = [module.Variable(module.zeros(shape), use_resource=False) for shape in shapes]
        made += [module.Variable(module.zeros(shape), use_resource=True) for shape in shapes]
        return [each.device for each in made] + [module.constant(1.0).device]


SHAPES = [[], [10], [3], [2, 2], [7], [], [1]]


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": {"ps": ["a:1", "b:2"], "worker": ["c:3"]}},
        {"cluster": {"ps": {1: "a:1", 4: "b:2"}, "worker": ["c:3"]}},
        {"cluster": {"server": ["a:1", "b:2", "d:4"]}, "ps_device": "/job:server"},
        {"cluster": {"worker": ["c:3"]}},
        {"cluster": {"ps": []}},
        {"ps_tasks": 3, "worker_device": "/job:worker/task:1"},
    ],
    ids=str,
)
def test_variables_go_to_the_same_parameter_servers(tf, options):
    ours, theirs = dict(options), dict(options)
    if "cluster" in options:
        ours["cluster"] = ax.train.ClusterSpec(options["cluster"])
        theirs["cluster"] = tf.train.ClusterSpec(options["cluster"])

    found = placed(ax, ax.train.replica_device_setter(**ours), SHAPES)

    assert found == placed(tf, tf.train.replica_device_setter(**theirs), SHAPES)


def test_a_balanced_placement_is_the_same_whose_graph_it_is(tf):
    def setter(module: Any) -> Any:
        strategy = ax.train.GreedyLoadBalancingStrategy(3, ax.train.byte_size_load_fn)
        return module.train.replica_device_setter(ps_tasks=3, ps_ops=["VariableV2"], ps_strategy=strategy)

    found = placed(ax, setter(ax), SHAPES)

    assert found == placed(tf, setter(tf), SHAPES)
    assert [device[-1] for device in found[:7]] == ["0", "1", "2", "0", "2", "0", "0"]
