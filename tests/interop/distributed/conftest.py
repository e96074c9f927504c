"""Servers of both kinds; gRPC's process-wide objects are no leak."""

from importlib.util import find_spec

import pytest

from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.interop.distributed.mixed import (
    agree_mixed as agree_mixed,
    engine as engine,
    mixed_cluster as mixed_cluster,
    tf_pair as tf_pair,
)
from tests.interop.distributed.served import (
    agree as agree,
    clients_agree as clients_agree,
    differ as differ,
    kinds_for,
    target as target,
    tf_of_1x as tf_of_1x,
    tf_target as tf_target,
)

collect_ignore = [] if find_spec("ray") else ["test_ray.py"]
"""Files that need an optional dependency to be imported."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what wants a server with one of each kind."""
    if "target" in metafunc.fixturenames:
        metafunc.parametrize("target", kinds_for(metafunc.function.__name__), indirect=True)
