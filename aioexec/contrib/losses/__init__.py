"""Loss functions under the names of `tf.contrib.losses`: predictions come before labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.losses.functions import (
        absolute_difference as absolute_difference,
        compute_weighted_loss as compute_weighted_loss,
        cosine_distance as cosine_distance,
        hinge_loss as hinge_loss,
        log_loss as log_loss,
        mean_pairwise_squared_error as mean_pairwise_squared_error,
        mean_squared_error as mean_squared_error,
        sigmoid_cross_entropy as sigmoid_cross_entropy,
        softmax_cross_entropy as softmax_cross_entropy,
        sparse_softmax_cross_entropy as sparse_softmax_cross_entropy,
    )
    from aioexec.ops.training.losses import (
        add_loss as add_loss,
        get_losses as get_losses,
        get_regularization_losses as get_regularization_losses,
        get_total_loss as get_total_loss,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
