"""Random numbers under the names of `tf.random`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.random.candidate_samplers import (
        all_candidate_sampler as all_candidate_sampler,
        fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler,
        learned_unigram_candidate_sampler as learned_unigram_candidate_sampler,
        log_uniform_candidate_sampler as log_uniform_candidate_sampler,
        uniform_candidate_sampler as uniform_candidate_sampler,
    )
    from aioexec.ops.random.distributions import random_gamma as gamma, random_poisson as poisson
    from aioexec.ops.random.random_ops import (
        categorical as categorical,
        get_seed as get_seed,
        multinomial as multinomial,
        random_normal as normal,
        random_shuffle as shuffle,
        random_uniform as uniform,
        set_random_seed as set_random_seed,
        truncated_normal as truncated_normal,
    )
    from aioexec.ops.random.stateless_functions import (
        stateless_categorical as stateless_categorical,
        stateless_multinomial as stateless_multinomial,
        stateless_random_normal as stateless_normal,
        stateless_random_uniform as stateless_uniform,
        stateless_truncated_normal as stateless_truncated_normal,
    )

    __all__ = [
        "all_candidate_sampler",
        "categorical",
        "fixed_unigram_candidate_sampler",
        "gamma",
        "get_seed",
        "learned_unigram_candidate_sampler",
        "log_uniform_candidate_sampler",
        "multinomial",
        "normal",
        "poisson",
        "set_random_seed",
        "shuffle",
        "stateless_categorical",
        "stateless_multinomial",
        "stateless_normal",
        "stateless_truncated_normal",
        "stateless_uniform",
        "truncated_normal",
        "uniform",
        "uniform_candidate_sampler",
    ]
else:
    __getattr__, __dir__ = public_names(__name__)
