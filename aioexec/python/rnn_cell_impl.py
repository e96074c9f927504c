"""Cells under the names of `tensorflow.python.ops.rnn_cell_impl` and `contrib.rnn.python.ops.core_rnn_cell`, 1.1 and later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aioexec.contrib.rnn.linear import Linear
from aioexec.graph.node import Tensor
from aioexec.lazy_names import public_names
from aioexec.recurrent.states import assert_like_rnncell as assert_like_rnncell, batch_shape, zero_state_of

if TYPE_CHECKING:
    from aioexec.recurrent.rnn_cell import *  # noqa: F403
else:
    __getattr__, __dir__ = public_names(__name__)

_zero_state_tensors = zero_state_of
_concat = batch_shape
_Linear = Linear


def _linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> Tensor:
    """Create the variables `kernel` and, if there is a bias, `bias` in the current scope; return the product of `Linear`."""
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)
