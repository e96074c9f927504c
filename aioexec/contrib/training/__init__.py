"""Hyperparameters, training and evaluation under the names of `tf.contrib.training`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.training.bucketing import (
        bucket as bucket,
        bucket_by_sequence_length as bucket_by_sequence_length,
    )
    from aioexec.contrib.training.hparams import HParams as HParams, parse_values as parse_values
    from aioexec.contrib.training.loops import create_train_op as create_train_op, train as train
    from aioexec.contrib.training.train_ops import (
        add_gradients_summaries as add_gradients_summaries,
        clip_gradient_norms as clip_gradient_norms,
        clip_gradient_norms_fn as clip_gradient_norms_fn,
        multiply_gradients as multiply_gradients,
    )
    from aioexec.train.checkpoints.waiting import (
        checkpoints_iterator as checkpoints_iterator,
        wait_for_new_checkpoint as wait_for_new_checkpoint,
    )
    from aioexec.train.device_setter import (
        GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy,
        byte_size_load_fn as byte_size_load_fn,
    )
    from aioexec.train.hooks.summary_hooks import SummaryAtEndHook as SummaryAtEndHook
    from aioexec.train.sessions.evaluation import (
        StopAfterNEvalsHook as StopAfterNEvalsHook,
        evaluate_once as evaluate_once,
        evaluate_repeatedly as evaluate_repeatedly,
        get_or_create_eval_step as get_or_create_eval_step,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
