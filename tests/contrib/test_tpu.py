"""contrib.tpu on the CPU: batch sizes in params, specifications, settings and the optimizer of one shard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError
from aioexec.train.off_loop import off_loop

tpu, resolvers = ax.contrib.tpu, ax.contrib.cluster_resolver


@pytest.fixture
async def directory(tmp_path):
    """A directory whose event files, which the cache keeps open for later writes, are closed."""
    yield str(tmp_path)
    await ax.summary.FileWriterCache.clear()


class Model:
    """A model of one weight, with the calls it gets."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def model_fn(self, features: Any, labels: Any, mode: str, params: Any) -> Any:
        self.calls.append((mode, params.get("batch_size"), params["use_tpu"]))
        weight = ax.get_variable("weight", [], initializer=ax.zeros_initializer())
        value = features["x"] * weight
        if mode == "infer":
            return tpu.TPUEstimatorSpec(mode, predictions={"value": value})
        loss = ax.losses.mean_squared_error(labels, value)
        optimizer = tpu.CrossShardOptimizer(ax.train.GradientDescentOptimizer(0.5))
        return tpu.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, ax.train.get_global_step()),
            eval_metrics=(self.metrics, [labels, value]),
            host_call=(self.host_call, {"loss": loss}),
            scaffold_fn=ax.train.Scaffold,
        )

    def metrics(self, labels: Any, value: Any) -> Any:
        return {"error": ax.metrics.mean_absolute_error(labels, value)}

    def host_call(self, loss: Any) -> Any:
        return ax.py_func(lambda value: self.calls.append(float(value)), [loss], [])

    def input_fn(self, params: Any) -> Any:
        x = np.ones(params["batch_size"], np.float32)
        return ax.data.Dataset.from_tensors(({"x": x}, 2 * x)).repeat(2)


async def test_an_estimator_passes_batch_sizes(directory):
    model = Model()
    estimator = tpu.TPUEstimator(
        model_fn=model.model_fn,
        config=tpu.RunConfig(model_dir=directory),
        use_tpu=False,
        train_batch_size=2,
        eval_batch_size=3,
        predict_batch_size=4,
        params={"rate": 1},
    )

    await estimator.train(model.input_fn, steps=1)
    metrics = await estimator.evaluate(model.input_fn, steps=1)
    predictions = [each["value"] async for each in estimator.predict(model.input_fn)]

    assert model.calls == [("train", 2, False), 4.0, ("eval", 3, False), 0.0, ("infer", 4, False)]
    assert metrics == {"error": 0, "global_step": 1, "loss": 0}
    assert predictions == [2.0] * 8
    assert await off_loop(estimator.get_variable_value, "weight") == 2


async def test_hyperparameters_may_be_params(directory):
    model, params = Model(), ax.contrib.training.HParams(rate=1)

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        return model.model_fn(features, labels, mode, params.values())

    estimator = tpu.TPUEstimator(
        model_fn, config=tpu.RunConfig(model_dir=directory), use_tpu=False, train_batch_size=2, params=params
    )
    await estimator.train(lambda params: model.input_fn(params.values()), steps=1)

    assert model.calls[0] == ("train", 2, False)


async def test_an_estimator_checks_its_arguments(directory):
    model, config = Model(), tpu.RunConfig(model_dir=directory)

    with pytest.raises(UnimplementedError, match="pass use_tpu=False"):
        tpu.TPUEstimator(model.model_fn, config=config)
    with pytest.raises(GraphTypeError, match=r"must be `tf\.contrib\.tpu\.RunConfig`"):
        tpu.TPUEstimator(model.model_fn, config=None, use_tpu=False)
    with pytest.raises(GraphValueError, match="reserved keys"):
        tpu.TPUEstimator(model.model_fn, config=config, use_tpu=False, params={"batch_size": 1})
    estimator = tpu.TPUEstimator(model.model_fn, config=config, use_tpu=False)
    with pytest.raises(GraphValueError, match="does not include params"):
        await estimator.train(lambda: None, steps=1)
    with pytest.raises(GraphValueError, match="train_batch_size must be set"):
        await estimator.train(model.input_fn, steps=1)


def test_specifications_are_checked():
    with pytest.raises(GraphValueError, match="eval_metrics should be a tuple"):
        tpu.TPUEstimatorSpec("eval", eval_metrics=1)
    with pytest.raises(GraphValueError, match="tensors of host_call"):
        tpu.TPUEstimatorSpec("eval", host_call=(print, 1))
    with pytest.raises(GraphTypeError, match="scaffold_fn must be callable"):
        tpu.TPUEstimatorSpec("eval", scaffold_fn=1)  # type: ignore[arg-type]


def test_settings_hold_those_of_tpus():
    settings = tpu.TPUConfig(iterations_per_loop=5, num_shards=8)
    config = tpu.RunConfig(tpu_config=settings, master="grpc://a:1", model_dir="d")

    assert (config.tpu_config, config.master, config.evaluation_master) == (
        settings,
        "grpc://a:1",
        "grpc://a:1",
    )
    assert config.replace(model_dir="e").tpu_config == settings
    assert config.replace(tpu_config=tpu.TPUConfig()).tpu_config.iterations_per_loop == 2
    assert settings.per_host_input_for_training == tpu.InputPipelineConfig.PER_HOST_V1
    assert tpu.TPUConfig(per_host_input_for_training=False).per_host_input_for_training == 1
    assert tpu.RunConfig(evaluation_master="grpc://b:1").evaluation_master == "grpc://b:1"
    with pytest.raises(GraphValueError, match="iterations_per_loop must be positive"):
        tpu.TPUConfig(iterations_per_loop=0)
    with pytest.raises(GraphValueError, match="both master and cluster"):
        tpu.RunConfig(master="grpc://a:1", cluster=resolvers.TPUClusterResolver(""))


async def test_one_shard_has_its_own_gradients():
    with ax.Graph().as_default() as graph:
        variable = ax.get_variable("v", initializer=1.0)
        inner = ax.train.MomentumOptimizer(0.5, 0.9)
        optimizer = tpu.CrossShardOptimizer(inner)
        step = optimizer.minimize(variable * variable)
        summed = tpu.cross_replica_sum(variable)
        initialize = ax.global_variables_initializer()

    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_slot(variable, "momentum") is inner.get_slot(variable, "momentum")
    assert list(optimizer.variables()) == list(inner.variables())
    async with ax.Session(graph=graph) as session:
        await session.run(initialize)
        await session.run(step)
        assert await session.run(summed) == 0
    with pytest.raises(GraphValueError, match="Unsupported reduction"):
        tpu.CrossShardOptimizer(inner, reduction="none")
    with pytest.raises(GraphTypeError, match="only works with"):
        tpu.CrossShardOptimizer(1)  # type: ignore[arg-type]


def test_resolvers_are_those_of_clusters():
    assert resolvers.TFConfigClusterResolver is ax.distribute.cluster_resolver.TFConfigClusterResolver
    assert issubclass(resolvers.TPUClusterResolver, resolvers.ClusterResolver)
    assert ax.estimator.tpu.TPUEstimator is tpu.TPUEstimator


def test_a_tpu_is_found_only_by_an_address():
    local, remote = resolvers.TPUClusterResolver(""), resolvers.TPUClusterResolver("grpc://a:1")

    assert (local.master(), local.get_master(), local.cluster_spec()) == ("", "", None)
    assert remote.master() == "grpc://a:1"
    assert remote.cluster_spec() == ax.train.ClusterSpec({"worker": ["a:1"]})
    with pytest.raises(UnimplementedError, match="'mine' cannot be found"):
        resolvers.TPUClusterResolver("mine")
