"""Recurrent networks under the names of `tf.contrib.rnn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.rnn.block_cells import (
        GRUBlockCell as GRUBlockCell,
        GRUBlockCellV2 as GRUBlockCellV2,
        LSTMBlockCell as LSTMBlockCell,
        LSTMBlockFusedCell as LSTMBlockFusedCell,
        LSTMBlockWrapper as LSTMBlockWrapper,
    )
    from aioexec.contrib.rnn.conv_cells import (
        Conv1DLSTMCell as Conv1DLSTMCell,
        Conv2DLSTMCell as Conv2DLSTMCell,
        Conv3DLSTMCell as Conv3DLSTMCell,
        ConvLSTMCell as ConvLSTMCell,
    )
    from aioexec.contrib.rnn.frequency_cells import (
        BidirectionalGridLSTMCell as BidirectionalGridLSTMCell,
        GridLSTMCell as GridLSTMCell,
        TimeFreqLSTMCell as TimeFreqLSTMCell,
    )
    from aioexec.contrib.rnn.fused import (
        FusedRNNCell as FusedRNNCell,
        FusedRNNCellAdaptor as FusedRNNCellAdaptor,
        TimeReversedFusedRNN as TimeReversedFusedRNN,
    )
    from aioexec.contrib.rnn.gated_cells import (
        CFNCell as CFNCell,
        IntersectionRNNCell as IntersectionRNNCell,
        MinimalRNNCell as MinimalRNNCell,
        NASCell as NASCell,
        SRUCell as SRUCell,
        UGRNNCell as UGRNNCell,
    )
    from aioexec.contrib.rnn.grouped_cells import (
        GLSTMCell as GLSTMCell,
        IndRNNCell as IndRNNCell,
        IndyGRUCell as IndyGRUCell,
        IndyLSTMCell as IndyLSTMCell,
    )
    from aioexec.contrib.rnn.normalized_cells import (
        CoupledInputForgetGateLSTMCell as CoupledInputForgetGateLSTMCell,
        LayerNormBasicLSTMCell as LayerNormBasicLSTMCell,
        LayerNormLSTMCell as LayerNormLSTMCell,
        WeightNormLSTMCell as WeightNormLSTMCell,
    )
    from aioexec.contrib.rnn.phased_cell import PhasedLSTMCell as PhasedLSTMCell
    from aioexec.contrib.rnn.projections import (
        EmbeddingWrapper as EmbeddingWrapper,
        InputProjectionWrapper as InputProjectionWrapper,
        OutputProjectionWrapper as OutputProjectionWrapper,
    )
    from aioexec.contrib.rnn.stacked import (
        stack_bidirectional_dynamic_rnn as stack_bidirectional_dynamic_rnn,
        stack_bidirectional_rnn as stack_bidirectional_rnn,
    )
    from aioexec.contrib.rnn.wrapper_cells import (
        AttentionCellWrapper as AttentionCellWrapper,
        CompiledWrapper as CompiledWrapper,
        HighwayWrapper as HighwayWrapper,
    )
    from aioexec.recurrent import rnn_cell as rnn_cell
    from aioexec.recurrent.basic_cells import BasicRNNCell as BasicRNNCell, GRUCell as GRUCell
    from aioexec.recurrent.cell import LayerRNNCell as LayerRNNCell, RNNCell as RNNCell
    from aioexec.recurrent.dropout import DropoutWrapper as DropoutWrapper
    from aioexec.recurrent.lstm_cells import (
        BasicLSTMCell as BasicLSTMCell,
        LSTMCell as LSTMCell,
        LSTMStateTuple as LSTMStateTuple,
    )
    from aioexec.recurrent.multi_cell import MultiRNNCell as MultiRNNCell
    from aioexec.recurrent.states import transpose_batch_time as transpose_batch_time
    from aioexec.recurrent.static import (
        static_bidirectional_rnn as static_bidirectional_rnn,
        static_rnn as static_rnn,
        static_state_saving_rnn as static_state_saving_rnn,
    )
    from aioexec.recurrent.wrappers import DeviceWrapper as DeviceWrapper, ResidualWrapper as ResidualWrapper
else:
    __getattr__, __dir__ = public_names(__name__)
