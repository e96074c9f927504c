"""Networks over whole sequences under the names of `tf.contrib.cudnn_rnn`; they run on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.cudnn_rnn.cells import (
        CudnnCompatibleGRUCell as CudnnCompatibleGRUCell,
        CudnnCompatibleLSTMCell as CudnnCompatibleLSTMCell,
    )
    from aioexec.contrib.cudnn_rnn.networks import (
        CUDNN_INPUT_AUTO_MODE as CUDNN_INPUT_AUTO_MODE,
        CUDNN_INPUT_LINEAR_MODE as CUDNN_INPUT_LINEAR_MODE,
        CUDNN_INPUT_SKIP_MODE as CUDNN_INPUT_SKIP_MODE,
        CUDNN_RNN_BIDIRECTION as CUDNN_RNN_BIDIRECTION,
        CUDNN_RNN_UNIDIRECTION as CUDNN_RNN_UNIDIRECTION,
        CudnnGRU as CudnnGRU,
        CudnnLSTM as CudnnLSTM,
        CudnnRNNRelu as CudnnRNNRelu,
        CudnnRNNTanh as CudnnRNNTanh,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
