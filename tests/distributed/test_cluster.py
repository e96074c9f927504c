"""Cluster descriptions: accepted forms, accessors, errors."""

import json
import sys
from subprocess import run

import pytest

import aioexec as ax
from aioexec.distributed.cluster.cluster import addresses_of, make_server_def, own_address, task_name
from aioexec.distributed.cluster.cluster_resolver import SimpleClusterResolver, TFConfigClusterResolver
from aioexec.errors import GraphTypeError, GraphValueError, InternalError, InvalidArgumentError
from aioexec.train import ClusterSpec

PS_AND_WORKERS = {"ps": ["ps0:1", "ps1:2"], "worker": {1: "worker1:3"}}


@pytest.fixture
def cluster():
    return ClusterSpec(PS_AND_WORKERS)


def test_a_cluster_knows_its_jobs_and_tasks(cluster):
    assert cluster.jobs == ["ps", "worker"]
    assert [cluster.num_tasks(job) for job in cluster.jobs] == [2, 1]
    assert cluster.task_indices("worker") == [1]
    assert cluster.task_address("ps", 1) == "ps1:2"
    assert cluster.job_tasks("worker") == [None, "worker1:3"]
    assert cluster.as_dict() == PS_AND_WORKERS
    assert repr(cluster) == "ClusterSpec({'ps': ['ps0:1', 'ps1:2'], 'worker': {1: 'worker1:3'}})"


def test_a_cluster_is_made_of_its_message_and_of_another_cluster(cluster):
    assert ClusterSpec(cluster.as_cluster_def()) == cluster
    assert ClusterSpec(cluster) == cluster
    assert ClusterSpec(cluster) == {"ps": {0: "ps0:1", 1: "ps1:2"}, "worker": {1: "worker1:3"}}
    assert ClusterSpec({b"ps": [b"ps0:1"]}) == ClusterSpec({"ps": {"0": "ps0:1"}})
    assert not ClusterSpec({})
    assert cluster


def test_two_clusters_share_nothing(cluster):
    tasks = {0: "a:1"}
    one = ClusterSpec({"worker": tasks})

    tasks[1] = "b:2"

    assert one.num_tasks("worker") == 1


@pytest.mark.parametrize(
    ("described", "error", "says"),
    [
        (3, GraphTypeError, "got 3"),
        ({"worker": "a:1"}, GraphTypeError, "must be a list or a dictionary"),
        ({"worker": [1]}, GraphTypeError, "Task address 1"),
        ({1: ["a:1"]}, GraphTypeError, "Job name 1"),
        ({"worker": {"first": "a:1"}}, GraphValueError, "'first'"),
        ({"worker": {-1: "a:1"}}, GraphValueError, "got -1"),
        ({"worker": {1 << 40: "a:1"}}, GraphValueError, "needs an index"),
    ],
)
def test_what_is_no_cluster_is_refused(described, error, says):
    with pytest.raises(error, match=says):
        ClusterSpec(described)


@pytest.mark.parametrize("ask", ["num_tasks", "task_indices", "job_tasks"])
def test_an_unknown_job_is_refused(cluster, ask):
    with pytest.raises(ValueError, match="No such job in cluster: 'chief'"):
        getattr(cluster, ask)("chief")


def test_an_unknown_task_is_refused(cluster):
    with pytest.raises(ValueError, match="No task with index 0 in job 'worker'"):
        cluster.task_address("worker", 0)


@pytest.mark.slow
def test_a_cluster_loads_no_protobuf():
    program = "import sys, aioexec.distributed.cluster.cluster; sys.exit('google.protobuf' in sys.modules)"

    assert run([sys.executable, "-c", program], check=False).returncode == 0


# Which task


def test_the_only_task_need_not_be_named():
    made = make_server_def({"worker": {3: "localhost:0"}})

    assert (made.job_name, made.task_index, made.protocol) == ("worker", 3, "grpc")
    assert own_address(made) == "localhost:0"


def test_arguments_go_before_what_a_server_def_says():
    given = ax.train.ServerDef(job_name="worker", task_index=1, protocol="other")
    given.cluster.CopyFrom(ClusterSpec({"worker": ["a:1", "b:2"]}).as_cluster_def())
    given.default_session_config.allow_soft_placement = True

    config = ax.ConfigProto(log_device_placement=True)
    made = make_server_def(given, task_index=0, protocol="grpc", config=config)

    assert (made.job_name, made.task_index, made.protocol) == ("worker", 0, "grpc")
    assert made.default_session_config.allow_soft_placement
    assert made.default_session_config.log_device_placement
    assert (given.task_index, given.protocol) == (1, "other")
    assert addresses_of(made) == {task_name("worker", 0): "a:1", task_name("worker", 1): "b:2"}


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((3,), TypeError, "Could not convert `server_or_cluster_def`"),
        (({"ps": ["a:1"], "worker": ["b:1"]},), ValueError, "explicit `job_name`"),
        (({},), ValueError, "explicit `job_name`"),
        (({"worker": ["a:1", "b:1"]},), ValueError, "explicit `task_index`"),
        (({"worker": ["a:1"]}, "ps"), ValueError, "No such job"),
        (({"worker": ["a:1"]}, "worker", "0"), TypeError, "task_index"),
        (({"worker": ["a:1"]}, 5), TypeError, "job_name"),
        (({"worker": ["a:1"]}, None, None, None, {"a": 1}), TypeError, "config must be a ConfigProto"),
    ],
)
def test_a_task_that_stays_open_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        make_server_def(*arguments)


@pytest.mark.parametrize(
    ("cluster", "job", "task", "error", "says"),
    [
        ({"worker": ["a:1"]}, "ps", 0, InternalError, 'Job "ps" was not defined in cluster'),
        ({"worker": ["a:1"]}, "worker", 1, InternalError, 'Task 1 was not defined in job "worker"'),
        (
            {"worker": ["a"]},
            "worker",
            0,
            InvalidArgumentError,
            'Could not parse port for local server from "a"',
        ),
        ({"worker": ["a:b"]}, "worker", 0, InvalidArgumentError, "Could not parse port"),
        ({"worker": ["a:99999"]}, "worker", 0, InvalidArgumentError, "Could not parse port"),
        ({"worker": ["a:1"], "ps": ["b"]}, "worker", 0, InvalidArgumentError, '"b" as a host-port pair'),
    ],
)
def test_a_task_that_is_not_there_or_has_no_address_is_refused(cluster, job, task, error, says):
    with pytest.raises(error, match=says):
        own_address(make_server_def(cluster, job, task))


# Resolvers


@pytest.fixture
def environment(monkeypatch):
    def set_to(**configured):
        monkeypatch.setenv("TF_CONFIG", json.dumps(configured))

    monkeypatch.delenv("TF_CONFIG", raising=False)
    return set_to


def test_the_environment_says_which_task_this_is(environment):
    environment(cluster=PS_AND_WORKERS, task={"type": "ps", "index": "1"}, rpc_layer="grpc")

    resolver = TFConfigClusterResolver()

    assert resolver.cluster_spec() == ClusterSpec(PS_AND_WORKERS)
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer) == ("ps", 1, "grpc")
    assert resolver.master() == "grpc://ps1:2"
    assert resolver.master("ps", 0) == "grpc://ps0:1"


def test_arguments_go_before_the_environment(environment):
    environment(cluster=PS_AND_WORKERS, task={"type": "ps", "index": 1})
    resolver = TFConfigClusterResolver(task_id=0)
    resolver.rpc_layer = "grpc"

    assert resolver.master() == "grpc://ps0:1"


def test_without_a_cluster_sessions_are_of_this_process(environment):
    resolver = TFConfigClusterResolver()

    assert not resolver.cluster_spec()
    assert (resolver.master(), resolver.task_type, resolver.task_id) == ("", None, None)


def test_a_configured_master_goes_before_the_cluster(environment):
    environment(cluster=PS_AND_WORKERS, session_master="grpc://elsewhere:1")

    assert TFConfigClusterResolver().master() == "grpc://elsewhere:1"


@pytest.mark.parametrize("text", ["{", "[]", '{"cluster": 3}', '{"cluster": {"a": ["b:1", "c:1"]}}'])
def test_an_environment_that_says_nothing_sensible_is_refused(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)

    with pytest.raises((GraphValueError, GraphTypeError), match=r"TF_CONFIG|dictionary"):
        TFConfigClusterResolver().master()


def test_a_simple_resolver_returns_what_it_was_given():
    resolver = SimpleClusterResolver(ClusterSpec(PS_AND_WORKERS), "here:1", "ps", 0, rpc_layer="grpc")

    assert resolver.master() == "grpc://here:1"
    assert resolver.master("worker", 1) == "grpc://worker1:3"
    assert (resolver.task_type, resolver.task_id, resolver.num_accelerators()) == ("ps", 0, {})
    with pytest.raises(GraphTypeError, match="cluster_spec"):
        SimpleClusterResolver(PS_AND_WORKERS)  # type: ignore[arg-type]
