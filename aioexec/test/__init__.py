"""Tests of graphs under the names of `tf.test`. For virtual time, clusters in memory and leak checks see `aioexec.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.test.clusters import create_local_cluster as create_local_cluster
    from aioexec.test.environment import (
        assert_equal_graph_def as assert_equal_graph_def,
        get_temp_dir as get_temp_dir,
        gpu_device_name as gpu_device_name,
        is_built_with_cuda as is_built_with_cuda,
        is_built_with_gpu_support as is_built_with_gpu_support,
        is_built_with_rocm as is_built_with_rocm,
        is_built_with_xla as is_built_with_xla,
        is_gpu_available as is_gpu_available,
        main as main,
        mock as mock,
    )
    from aioexec.test.gradient_checker import (
        compute_gradient as compute_gradient,
        compute_gradient_error as compute_gradient_error,
    )
    from aioexec.test.test_case import TestCase as TestCase
else:
    __getattr__, __dir__ = public_names(__name__)
