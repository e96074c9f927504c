"""The ops that have kernels for GPUs, by family. All others run on the CPU, by soft placement.

`tests/cuda` runs every case of the op tables for each of them, and checks that no further op could be listed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aioexec import dtypes
from aioexec.devices.jit.llvm.ir import LLVM_TYPES
from aioexec.dtypes import DType
from aioexec.graph.registry import Row


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FAMILIES: Mapping[str, frozenset[str]] = {
    "without work": _names(
        """
        Const NoOp ControlTrigger Identity IdentityN Snapshot StopGradient PreventGradient Shape ShapeN Size Rank
        VarHandleOp VariableV2 Variable ReadVariableOp IsVariableInitialized VarIsInitializedOp DestroyResourceOp
        """
    ),
    "arithmetic": _names(
        """
        Add AddV2 Sub Mul Div RealDiv SquaredDifference Maximum Minimum FloorDiv TruncateDiv FloorMod Mod TruncateMod
        DivNoNan MulNoNan Xdivy Xlogy Xlog1py Pow Atan2 AddN AccumulateNV2 ClipByValue Neg Abs Sign Floor Ceil Rint
        Round Square Reciprocal Inv Sqrt Rsqrt Exp Expm1 Log Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh
        Atanh Sigmoid Erf Erfc SqrtGrad RsqrtGrad ReciprocalGrad InvGrad SigmoidGrad TanhGrad Cast
        """
    ),
    "comparison and logic": _names(
        """
        Less LessEqual Greater GreaterEqual Equal NotEqual LogicalAnd LogicalOr LogicalNot IsNan IsInf IsFinite Select
        SelectV2 BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift Invert
        """
    ),
    "activations": _names(
        """
        Relu Relu6 LeakyRelu Elu Selu Softplus Softsign ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SoftplusGrad
        SoftsignGrad BiasAdd
        """
    ),
    "layout": _names(
        """
        Fill ZerosLike OnesLike Reshape ExpandDims Squeeze Transpose ConjugateTranspose Tile BroadcastTo ReverseV2 Concat
        ConcatV2 Split SplitV Pack Unpack Slice StridedSlice StridedSliceGrad Pad PadV2 MirrorPad MatrixBandPart
        BatchToSpace BatchToSpaceND SpaceToBatch SpaceToDepth DepthToSpace Roll Bitcast
        """
    ),
    "variables and optimizers": _names(
        """
        Assign AssignVariableOp AssignAdd AssignSub AssignAddVariableOp AssignSubVariableOp VariableShape ApplyAdaMax
        ResourceApplyAdaMax ApplyAdadelta ResourceApplyAdadelta ApplyAdagrad ResourceApplyAdagrad ApplyAdagradDA
        ResourceApplyAdagradDA ApplyAdagradV2 ResourceApplyAdagradV2 ApplyAdam ResourceApplyAdam
        ResourceApplyAdamWithAmsgrad ApplyAddSign ResourceApplyAddSign ApplyCenteredRMSProp ResourceApplyCenteredRMSProp
        ApplyFtrl ResourceApplyFtrl ApplyFtrlV2 ResourceApplyFtrlV2 ApplyGradientDescent ResourceApplyGradientDescent
        ResourceApplyKerasMomentum ApplyMomentum ResourceApplyMomentum ApplyPowerSign ResourceApplyPowerSign
        ApplyProximalGradientDescent ResourceApplyProximalGradientDescent ApplyRMSProp ResourceApplyRMSProp
        SparseApplyAdadelta ResourceSparseApplyAdadelta SparseApplyAdagrad ResourceSparseApplyAdagrad SparseApplyAdagradDA
        ResourceSparseApplyAdagradDA SparseApplyAdagradV2 ResourceSparseApplyAdagradV2 SparseApplyCenteredRMSProp
        ResourceSparseApplyCenteredRMSProp SparseApplyFtrl ResourceSparseApplyFtrl SparseApplyFtrlV2 ResourceSparseApplyFtrlV2
        ResourceSparseApplyKerasMomentum SparseApplyMomentum ResourceSparseApplyMomentum SparseApplyProximalGradientDescent
        ResourceSparseApplyProximalGradientDescent SparseApplyRMSProp ResourceSparseApplyRMSProp
        """
    ),
    "reductions": _names(
        "Sum Mean Prod Max Min All Any EuclideanNorm L2Loss BiasAddGrad ArgMax ArgMin Cumsum Cumprod"
    ),
    "products and convolutions": _names(
        """
        MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv2D Conv2DBackpropInput Conv2DBackpropFilter
        DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter
        """
    ),
    "pooling": _names("MaxPool MaxPoolGrad AvgPool AvgPoolGrad"),
    "gather and scatter": _names(
        """
        Gather GatherV2 GatherNd ResourceGather ResourceGatherNd OneHot UnsortedSegmentSum UnsortedSegmentProd
        UnsortedSegmentMin UnsortedSegmentMax SegmentSumV2 SegmentProdV2 SegmentMinV2 SegmentMaxV2 ReverseSequence ScatterNd
        ScatterNdNonAliasingAdd ScatterUpdate ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMin ScatterMax
        ResourceScatterUpdate ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv ResourceScatterMin
        ResourceScatterMax ScatterNdUpdate ScatterNdAdd ScatterNdSub ScatterNdMin ScatterNdMax ResourceScatterNdUpdate
        ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdMin ResourceScatterNdMax TensorScatterUpdate
        TensorScatterAdd TensorScatterSub TensorScatterMin TensorScatterMax
        """
    ),
    "random numbers": _names(
        """
        RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt StatelessRandomUniform StatelessRandomNormal
        StatelessTruncatedNormal StatelessRandomUniformInt StatelessRandomUniformFullInt StatelessRandomUniformV2
        StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2
        """
    ),
    "softmax and normalisation": _names(
        """
        Softmax LogSoftmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits _LayerNorm _Attention
        FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3
        """
    ),
}

_SHORT_INTEGERS = frozenset({"int8", "int16", "uint8", "uint16"})
_INTEGERS = _SHORT_INTEGERS | {"int32", "int64", "uint32", "uint64"}
_BFLOAT16 = frozenset({"bfloat16"})
EXCEPTIONS: Mapping[str, frozenset[str]] = {
    "FloorDiv": _BFLOAT16,
    "FloorMod": _BFLOAT16,
    "TruncateDiv": _BFLOAT16,
    "ScatterDiv": _INTEGERS,
    "ResourceScatterDiv": _INTEGERS,
    "BiasAdd": _SHORT_INTEGERS,
    "AssignAdd": _SHORT_INTEGERS,
    "AssignSub": _SHORT_INTEGERS,
    "AssignAddVariableOp": _SHORT_INTEGERS,
    "AssignSubVariableOp": _SHORT_INTEGERS,
    "ApplyGradientDescent": _SHORT_INTEGERS,
    "ResourceApplyGradientDescent": _SHORT_INTEGERS,
}
"""Dtypes that an op takes as T or dtype, and its GPU kernel does not."""

COMPLEX = _names("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
"""Ops with a kernel for complex numbers."""

ATTRIBUTES: Mapping[str, Mapping[str, Sequence[object]]] = {
    "Equal": {"incompatible_shape_error": [True]},
    "NotEqual": {"incompatible_shape_error": [True]},
    "FusedBatchNormV3": {"U": [dtypes.float32]},
    "MaxPool": {"data_format": ["NHWC", "NCHW"]},
}
"""The values of other attributes that GPU kernels take."""


def takes(row: Row, attribute: str, dtype: DType) -> bool:
    """Whether the GPU kernel of an op takes a value of an attribute that is a dtype."""
    is_excluded = attribute in ("T", "dtype") and dtype.name in EXCEPTIONS.get(row.name, ())
    is_known = dtype.name in LLVM_TYPES or (dtype.is_complex and row.name in COMPLEX)
    return is_known and not is_excluded
