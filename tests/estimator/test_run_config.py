"""RunConfig: its values, and what TF_CONFIG says of the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError
from aioexec.estimator.run_config import default_session_config

RunConfig = ax.estimator.RunConfig
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}


@pytest.fixture
def tf_config(monkeypatch):
    def put(**content: Any) -> None:
        monkeypatch.setenv("TF_CONFIG", json.dumps(content))

    return put


def test_the_defaults_are_tensorflows():
    config = RunConfig()

    assert (config.model_dir, config.tf_random_seed, config.session_config) == (None, None, None)
    assert (config.save_checkpoints_secs, config.save_checkpoints_steps) == (600, None)
    assert (config.save_summary_steps, config.log_step_count_steps) == (100, 100)
    assert (config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours) == (5, 10000)
    assert (config.master, config.evaluation_master, config.is_chief) == ("", "", True)
    assert (config.task_type, config.task_id, config.global_id_in_cluster) == ("worker", 0, 0)
    assert (config.num_worker_replicas, config.num_ps_replicas, bool(config.cluster_spec)) == (1, 0, False)


def test_one_interval_of_checkpoints_replaces_the_other():
    assert RunConfig(save_checkpoints_steps=5).save_checkpoints_secs is None
    assert RunConfig(save_checkpoints_secs=5).save_checkpoints_steps is None
    assert RunConfig(save_checkpoints_steps=None).save_checkpoints_secs is None
    replaced = RunConfig(save_checkpoints_steps=5).replace(save_checkpoints_secs=7)
    assert (replaced.save_checkpoints_steps, replaced.save_checkpoints_secs) == (None, 7)
    with pytest.raises(GraphValueError, match="cannot be both set"):
        RunConfig(save_checkpoints_steps=5, save_checkpoints_secs=5)
    with pytest.raises(GraphValueError, match="cannot be both set"):
        RunConfig().replace(save_checkpoints_steps=5, save_checkpoints_secs=5)


def test_a_replaced_config_is_a_copy():
    config = RunConfig(model_dir=Path("a"), tf_random_seed=3)

    other = config.replace(model_dir="b")

    assert (config.model_dir, other.model_dir, other.tf_random_seed) == ("a", "b", 3)
    with pytest.raises(GraphValueError, match="Replacing master is not supported"):
        config.replace(master="")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_dir", ""),
        ("save_summary_steps", -1),
        ("save_checkpoints_steps", -1),
        ("save_checkpoints_secs", -1),
        ("session_config", "no message"),
        ("keep_checkpoint_max", -1),
        ("keep_checkpoint_every_n_hours", 0),
        ("log_step_count_steps", 0),
        ("tf_random_seed", 1.5),
        ("session_creation_timeout_secs", 0),
        ("device_fn", lambda node: ""),
        ("protocol", "http"),
        ("experimental_max_worker_delay_secs", 1.5),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(GraphValueError, match=name):
        RunConfig(**{name: value})


def test_distribution_strategies_are_refused():
    with pytest.raises(UnimplementedError, match="TF_CONFIG"):
        RunConfig(train_distribute=object())


def test_a_worker_knows_its_cluster(tf_config):
    tf_config(cluster=CLUSTER, task={"type": "worker", "index": 1})

    config = RunConfig()

    assert (config.task_type, config.task_id, config.global_id_in_cluster) == ("worker", 1, 2)
    assert (config.master, config.is_chief) == ("grpc://c:1", False)
    assert (config.num_worker_replicas, config.num_ps_replicas) == (3, 2)
    assert config.cluster_spec.as_dict() == CLUSTER
    assert list(config.session_config.device_filters) == ["/job:ps", "/job:worker/task:1"]


def test_parameter_servers_are_numbered_last(tf_config):
    tf_config(cluster=CLUSTER, task={"type": "ps", "index": 1})

    assert RunConfig().global_id_in_cluster == 4


def test_the_chief_of_a_cluster_of_one_is_local(tf_config):
    tf_config(cluster={"chief": ["a:1"]}, task={"type": "chief", "index": 0})

    config = RunConfig()

    assert (config.master, config.is_chief, config.num_worker_replicas) == ("", True, 1)


def test_a_master_is_the_chief(tf_config):
    tf_config(cluster={"master": ["a:1"], "worker": ["b:1"]}, task={"type": "master", "index": 0})

    config = RunConfig()

    assert (config.master, config.is_chief, config.num_worker_replicas) == ("grpc://a:1", True, 2)


def test_the_evaluator_is_outside_the_cluster(tf_config):
    tf_config(cluster=CLUSTER, task={"type": "evaluator", "index": 0}, eval_session_master="grpc://f:1")

    config = RunConfig()

    assert (config.task_type, config.is_chief, bool(config.cluster_spec)) == ("evaluator", False, False)
    assert (config.num_worker_replicas, config.global_id_in_cluster) == (0, None)
    assert (config.master, config.evaluation_master) == ("", "grpc://f:1")


def test_other_parts_of_the_environment_are_read(tf_config):
    tf_config(model_dir="folder", session_master="grpc://a:1", service={"key": 1})

    config = RunConfig()

    assert (config.model_dir, config.master, config.service) == ("folder", "grpc://a:1", {"key": 1})
    with pytest.raises(GraphValueError, match="must have the same value"):
        RunConfig(model_dir="other")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"task": {"type": "ps"}}, "task type must be WORKER"),
        ({"task": {"index": 1}}, "task index must be 0"),
        ({"model_dir": ""}, "should be non-empty"),
        ({"cluster": {"worker": ["a:1"]}, "task": {}}, 'must have one "chief" node'),
        ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {}}, 'only one "chief" node'),
        ({"cluster": CLUSTER, "task": {}}, "task type must be set"),
        ({"cluster": CLUSTER, "task": {"type": "ps"}}, "task index must be set"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": -1}}, "non-negative"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": 2}}, "2 is not a valid task_id"),
        ({"cluster": CLUSTER, "task": {"type": "x", "index": 0}}, "x is not a valid task_type"),
        ({"cluster": {"master": ["a:1"], "chief": ["b:1"]}}, "job `chief` is not supported"),
        (
            {"cluster": {"master": ["a:1"]}, "task": {"type": "evaluator", "index": 0}},
            "`evaluator` is not supported",
        ),
    ],
)
def test_an_inconsistent_environment_is_refused(tf_config, content, message):
    tf_config(**content)

    with pytest.raises(GraphValueError, match=message):
        RunConfig()


def test_a_service_must_be_a_dict(tf_config):
    tf_config(service="x")

    with pytest.raises(GraphTypeError, match="must be a dict"):
        RunConfig()


def test_an_estimator_places_nodes_where_it_can():
    config = default_session_config()

    assert config.allow_soft_placement
    assert config.graph_options.rewrite_options.meta_optimizer_iterations == 1
