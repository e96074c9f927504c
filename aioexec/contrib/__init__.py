"""The parts of `tf.contrib` that programs use, under its names; each is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec import distributions as distributions, keras as keras
    from aioexec.contrib import (
        cluster_resolver as cluster_resolver,
        crf as crf,
        cudnn_rnn as cudnn_rnn,
        data as data,
        feature_column as feature_column,
        framework as framework,
        layers as layers,
        learn as learn,
        legacy_seq2seq as legacy_seq2seq,
        lookup as lookup,
        losses as losses,
        metrics as metrics,
        nccl as nccl,
        nn as nn,
        opt as opt,
        rnn as rnn,
        seq2seq as seq2seq,
        signal as signal,
        slim as slim,
        staging as staging,
        summary as summary,
        tensorboard as tensorboard,
        tpu as tpu,
        training as training,
        util as util,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
