"""Model and input functions for tests of estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as ax

ModeKeys = ax.estimator.ModeKeys

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], np.float32)
Y = np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)
RATE = 0.1


def linear_model(features: Any, labels: Any, mode: str) -> Any:
    """The product of the features and a weight vector that starts at zero, trained by gradient descent."""
    weights = ax.get_variable("weights", [2, 1], initializer=ax.zeros_initializer())
    value = ax.matmul(features["x"], weights)
    if mode == ModeKeys.PREDICT:
        return ax.estimator.EstimatorSpec(mode, predictions={"value": value})
    loss = ax.losses.mean_squared_error(labels, value)
    step = ax.train.get_global_step()
    train_op = ax.train.GradientDescentOptimizer(RATE).minimize(loss, global_step=step)
    metrics = {"error": ax.metrics.mean_absolute_error(labels, value)}
    return ax.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def inputs(batch_size: int = 4, num_epochs: int | None = None, labels: bool = True) -> Any:
    return ax.estimator.inputs.numpy_input_fn(
        {"x": X}, Y if labels else None, batch_size, num_epochs, shuffle=False
    )


def trained(steps: int) -> np.ndarray[Any, Any]:
    """The weights of `linear_model` after steps with all rows."""
    weights = np.zeros((2, 1), np.float32)
    for _ in range(steps):
        weights -= RATE * 2 / len(X) * X.T @ (X @ weights - Y)
    return weights
