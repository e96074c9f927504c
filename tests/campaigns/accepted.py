"""A difference from TensorFlow that is accepted: its fields, and constructors for the tables of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.campaigns.operand_calls import Call

VALUES = ""
"""In place of a class of error: there is none."""
ANY = "any"
INVALID, UNIMPLEMENTED, ABORTED = "InvalidArgumentError", "UnimplementedError", "AbortedError"
INTERNAL, MISSING, UNINITIALIZED = "InternalError", "NotFoundError", "FailedPreconditionError"
EVERY_OP = "*"


def always(call: Call) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Accepted:
    """A difference that is no finding."""

    ops: str  # names, or EVERY_OP
    ours: str  # the class of our error, VALUES or ANY
    theirs: str  # the same of TensorFlow's
    reason: str
    says: str = ""  # part of TensorFlow's message
    only: Callable[[Call], bool] = always
    we_say: str = ""  # part of our message

    def covers(self, call: Call, ours: str, our_message: str, theirs: str, message: str) -> bool:
        return (
            (self.ops == EVERY_OP or call.op_type in self.ops.split())
            and self.ours in (ours, ANY)
            and self.theirs in (theirs, ANY)
            and self.says in message
            and self.we_say in our_message
            and self.only(call)
        )


CONVOLUTIONS = (
    "Conv2D Conv2DBackpropInput Conv2DBackpropFilter DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput "
    "DepthwiseConv2dNativeBackpropFilter"
)
GRADIENTS_OF_CONVOLUTIONS = (
    "Conv2DBackpropInput Conv2DBackpropFilter DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter "
    "Conv3DBackpropInputV2 Conv3DBackpropFilterV2"
)
POOLS = "MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2 AvgPool AvgPoolGrad"
POOLS_OF_VOLUMES = "MaxPool3D MaxPool3DGrad MaxPool3DGradGrad AvgPool3D AvgPool3DGrad"
POOLS_WITH_INDICES = "MaxPoolWithArgmax MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax"
CONVOLUTIONS_OF_VOLUMES = (
    "Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2"
)
OPS_OF_WINDOWS = f"{CONVOLUTIONS} {CONVOLUTIONS_OF_VOLUMES} {POOLS} {POOLS_OF_VOLUMES} {POOLS_WITH_INDICES}"
RESOURCE_SCATTERS = (
    "ResourceScatterUpdate ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv "
    "ResourceScatterMin ResourceScatterMax"
)
SCATTERS_ND = (
    "ScatterNdUpdate ScatterNdAdd ScatterNdSub ScatterNdMin ScatterNdMax ResourceScatterNdUpdate "
    "ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdMin ResourceScatterNdMax"
)
TENSOR_SCATTERS = "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMin TensorScatterMax"
UPDATES_WITH_STRENGTHS = (
    "ApplyFtrl ApplyFtrlV2 SparseApplyFtrl SparseApplyFtrlV2 ResourceApplyFtrl ResourceApplyFtrlV2 "
    "ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ApplyProximalAdagrad SparseApplyProximalAdagrad "
    "ResourceApplyProximalAdagrad ResourceSparseApplyProximalAdagrad"
)
GRADIENTS_OF_FUNCTIONS = "InvGrad ReciprocalGrad RsqrtGrad SqrtGrad TanhGrad SigmoidGrad"
SPARSE_REDUCTIONS = "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse"
SPARSE_UPDATES = (
    "SparseApplyAdadelta SparseApplyAdagradDA SparseApplyCenteredRMSProp SparseApplyFtrl SparseApplyFtrlV2 "
    "SparseApplyMomentum SparseApplyProximalAdagrad SparseApplyProximalGradientDescent SparseApplyRMSProp "
    "ResourceSparseApplyAdadelta ResourceSparseApplyAdagradDA ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl "
    "ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum ResourceSparseApplyRMSProp "
    "ResourceSparseApplyProximalAdagrad ResourceSparseApplyProximalGradientDescent"
)
GENERATORS = (
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformIntV2 "
    "StatelessRandomUniformFullIntV2 StatelessRandomGammaV3 StatelessShuffle"
)
