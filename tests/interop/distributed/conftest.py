"""gRPC's own things are no leak; servers of both kinds."""

from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.interop.distributed.served import (
    agree as agree,
    differ as differ,
    target as target,
    tf_of_1x as tf_of_1x,
    tf_target as tf_target,
)
