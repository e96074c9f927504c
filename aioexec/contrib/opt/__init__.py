"""Optimizers under the names of `tf.contrib.opt`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.opt.adam_variants import (
        AdaMaxOptimizer as AdaMaxOptimizer,
        LazyAdamOptimizer as LazyAdamOptimizer,
        NadamOptimizer as NadamOptimizer,
    )
    from aioexec.contrib.opt.averages import MovingAverageOptimizer as MovingAverageOptimizer
    from aioexec.contrib.opt.external import (
        ExternalOptimizerInterface as ExternalOptimizerInterface,
        ScipyOptimizerInterface as ScipyOptimizerInterface,
    )
    from aioexec.contrib.opt.sign_optimizers import (
        AddSignOptimizer as AddSignOptimizer,
        PowerSignOptimizer as PowerSignOptimizer,
    )
    from aioexec.contrib.opt.weight_decay import (
        AdamWOptimizer as AdamWOptimizer,
        DecoupledWeightDecayExtension as DecoupledWeightDecayExtension,
        MomentumWOptimizer as MomentumWOptimizer,
        extend_with_decoupled_weight_decay as extend_with_decoupled_weight_decay,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
