"""The allowed differences between tiers: a table of bounds, by family of ops, in units of the last place.

Both tiers compute the same formula on the same numbers, so most ops yield the same bits. Exceptions:

    functions   ours are within 4 ulp of the exact value (`tests.devices.jit.ulp`), NumPy's and SciPy's within about 1
    loops       (sums, also over windows and of overlapping windows, and updates of rows) are compiled with permission to
                reassociate and to fuse multiply and add, depending on the processor; measured against the largest element
                of the result, or against 1, the size of the tables' operands, if that is more: a sum with cancellation is
                not less accurate because its result is small
    gradients   are small graphs of such ops, including sums over broadcast operands; measured like sums
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """Of an op.

    Attributes:
        values: for its results: of each element, or of the largest where `sums`.
        gradients: for its gradients, always of the largest.
    """

    values: float
    gradients: float
    sums: bool = False


EXACT = Bound(values=0, gradients=8)
FUNCTION = Bound(values=4, gradients=16)
SUM = Bound(values=8, gradients=16, sums=True)

FUNCTIONS = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cos", "Cosh", "Elu", "Erf", "Erfc", "Exp",
    "Expm1", "Log", "Log1p", "Pow", "Rsqrt", "RsqrtGrad", "Selu", "Sigmoid", "SigmoidGrad", "Sin",
    "Sinh", "Softplus", "SoftplusGrad", "Softsign", "SoftsignGrad", "Tan", "Tanh", "TanhGrad", "Xlog1py",
    "Xlogy",
})  # fmt: skip
SUMS = frozenset({
    "AccumulateNV2", "AddN", "AvgPool", "AvgPool3D", "AvgPoolGrad", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3",
    "BiasAddGrad", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput", "Einsum", "EuclideanNorm",
    "FusedBatchNorm", "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", "FusedBatchNormV2",
    "FusedBatchNormV3", "L2Loss", "LogSoftmax", "MatMul", "MaxPoolGrad", "MaxPoolGradV2", "Mean", "Prod", "Softmax",
    "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "Sum", "SymbolicGradient",
})  # fmt: skip
UPDATES = frozenset({
    "ApplyFtrl", "ApplyFtrlV2", "SparseApplyAdadelta", "SparseApplyAdagrad", "SparseApplyAdagradDA",
    "SparseApplyAdagradV2", "SparseApplyCenteredRMSProp", "SparseApplyFtrl", "SparseApplyFtrlV2",
    "SparseApplyMomentum", "SparseApplyProximalAdagrad", "SparseApplyProximalGradientDescent", "SparseApplyRMSProp",
})  # fmt: skip
ON_HANDLES = frozenset({"ResourceSparseApplyKerasMomentum", *(f"Resource{name}" for name in UPDATES)})
BY_OP = {**dict.fromkeys(FUNCTIONS, FUNCTION), **dict.fromkeys(SUMS | UPDATES | ON_HANDLES, SUM)}


def bound_of(op_type: str) -> Bound:
    return BY_OP.get(op_type, EXACT)
