"""TensorFlow's switches between its two APIs. This package has graphs and sessions only: what asks for these does nothing, and
what asks for eager execution or another behaviour of 2.x raises an error.
"""

from __future__ import annotations

from typing import Any, NoReturn

from aioexec.errors import UnimplementedError


def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> NoReturn:
    """Raise an error: there is no eager mode.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError(
        "enable_eager_execution: there is no eager mode; build a graph, and await session.run(fetches)"
    )


def disable_eager_execution() -> None:
    """Do nothing: programs build graphs."""


def executing_eagerly() -> bool:
    """Return False: programs build graphs."""
    return False


def executing_eagerly_outside_functions() -> bool:
    """Return False: programs build graphs."""
    return False


def enable_v2_behavior() -> NoReturn:
    """Raise an error: the behaviour is TensorFlow 1.x's.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError("enable_v2_behavior: graphs, sessions and shapes are those of TensorFlow 1.x")


def disable_v2_behavior() -> None:
    """Do nothing: the behaviour is TensorFlow 1.x's."""


def enable_v2_tensorshape() -> NoReturn:
    """Raise an error: the dimensions of a TensorShape are Dimension objects, as in TensorFlow 1.x.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError("enable_v2_tensorshape: dimensions are Dimension objects, as in TensorFlow 1.x")


def disable_v2_tensorshape() -> None:
    """Do nothing: the dimensions of a TensorShape are Dimension objects, as in TensorFlow 1.x."""


def enable_control_flow_v2() -> NoReturn:
    """Raise an error: `cond` and `while_loop` make Switch, Merge and the like, as in TensorFlow 1.x.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError("enable_control_flow_v2: cond and while_loop make the nodes of TensorFlow 1.x")


def disable_control_flow_v2() -> None:
    """Do nothing: `cond` and `while_loop` make Switch, Merge and the like, as in TensorFlow 1.x."""


def control_flow_v2_enabled() -> bool:
    """Return False: `cond` and `while_loop` make Switch, Merge and the like, as in TensorFlow 1.x."""
    return False


def enable_tensor_equality() -> NoReturn:
    """Raise an error: `==` compares the identity of tensors, as in TensorFlow 1.x.

    Raises:
        UnimplementedError: always.
    """
    raise UnimplementedError("enable_tensor_equality: `==` compares the identity of tensors; use equal(x, y)")


def disable_tensor_equality() -> None:
    """Do nothing: `==` compares the identity of tensors, as in TensorFlow 1.x."""
