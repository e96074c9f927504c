"""Sources of cluster specifications, under the names of `tf.contrib.cluster_resolver`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.distributed.cluster.cluster_resolver import (
        ClusterResolver as ClusterResolver,
        SimpleClusterResolver as SimpleClusterResolver,
        TFConfigClusterResolver as TFConfigClusterResolver,
        TPUClusterResolver as TPUClusterResolver,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
