"""Cells under the names of `tf.nn.rnn_cell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.recurrent.basic_cells import BasicRNNCell as BasicRNNCell, GRUCell as GRUCell
    from aioexec.recurrent.cell import RNNCell as RNNCell
    from aioexec.recurrent.dropout import DropoutWrapper as DropoutWrapper
    from aioexec.recurrent.lstm_cells import (
        BasicLSTMCell as BasicLSTMCell,
        LSTMCell as LSTMCell,
        LSTMStateTuple as LSTMStateTuple,
    )
    from aioexec.recurrent.multi_cell import MultiRNNCell as MultiRNNCell
    from aioexec.recurrent.wrappers import DeviceWrapper as DeviceWrapper, ResidualWrapper as ResidualWrapper
else:
    __getattr__, __dir__ = public_names(__name__)
