"""Probability distributions under the names of `tf.distributions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.distributions.dirichlets import (
        Dirichlet as Dirichlet,
        DirichletMultinomial as DirichletMultinomial,
    )
    from aioexec.distributions.discrete import (
        Bernoulli as Bernoulli,
        Categorical as Categorical,
        Multinomial as Multinomial,
    )
    from aioexec.distributions.distribution import (
        FULLY_REPARAMETERIZED as FULLY_REPARAMETERIZED,
        NOT_REPARAMETERIZED as NOT_REPARAMETERIZED,
        Distribution as Distribution,
        ReparameterizationType as ReparameterizationType,
    )
    from aioexec.distributions.divergences import RegisterKL as RegisterKL, kl_divergence as kl_divergence
    from aioexec.distributions.gammas import Beta as Beta, Exponential as Exponential, Gamma as Gamma
    from aioexec.distributions.locations import (
        Laplace as Laplace,
        Normal as Normal,
        StudentT as StudentT,
        Uniform as Uniform,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
