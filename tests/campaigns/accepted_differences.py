"""Where the outcome of a call may differ from TensorFlow's, and why; used by the campaign `error_classes`.

An entry covers an op (or every op) only together with what differs: our class of error and TensorFlow's, part of what
TensorFlow says, and what must hold of the call. Whatever else differs for the same op is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.campaigns.call_properties import (
    has,
    has_denormals,
    has_empty_operand,
    has_impossible_shape,
    has_infinite_or_nan,
    has_odd_names,
    has_odd_windows,
    has_outside_index,
    has_short_counter,
    has_unknown_operand,
    has_unlike_shapes,
    has_unlike_threshold,
    has_variable_of_strings,
    has_variable_of_unknown_shape,
    has_zero_byte,
    is_empty_variable,
    is_of_other_dtype,
    operands,
)
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

    def covers(self, call: Call, ours: str, theirs: str, message: str) -> bool:
        return (
            (self.ops == EVERY_OP or call.op_type in self.ops.split())
            and self.ours in (ours, ANY)
            and self.theirs in (theirs, ANY)
            and self.says in message
            and self.only(call)
        )


_CONVOLUTIONS = (
    "Conv2D Conv2DBackpropInput Conv2DBackpropFilter DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput "
    "DepthwiseConv2dNativeBackpropFilter"
)
_POOLS = "MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2 AvgPool AvgPoolGrad"
_GRADIENTS_OF_FUNCTIONS = "InvGrad ReciprocalGrad RsqrtGrad SqrtGrad TanhGrad SigmoidGrad"
_SPARSE_REDUCTIONS = "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse"
_GENERATORS = (
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformIntV2 "
    "StatelessRandomUniformFullIntV2 StatelessRandomGammaV3 StatelessShuffle"
)

ACCEPTED = (
    # What TensorFlow lacks
    Accepted(EVERY_OP, ANY, INVALID, "TensorFlow has kernels for eight dimensions at most", "dims() up to 8"),
    Accepted(EVERY_OP, ANY, ABORTED, "oneDNN's kernel reports what it lacks as Aborted", "dims must be <= 5"),
    Accepted(
        EVERY_OP,
        ANY,
        ABORTED,
        "oneDNN's kernel reports operands that do not fit as Aborted",
        "Operation received an exception",
    ),
    Accepted(
        f"{_CONVOLUTIONS} {_POOLS}",
        ANY,
        ANY,
        "TensorFlow has kernels for images with their channels first on GPUs only",
        "only support",
        has("data_format", "NCHW", "NCHW_VECT_C"),
    ),
    Accepted(
        "MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2 FusedBatchNormV3 FusedBatchNormGradV3",
        VALUES,
        ANY,
        "TensorFlow has kernels for images with their channels first on GPUs only",
        "NHWC",
        has("data_format", "NCHW"),
    ),
    Accepted(
        _CONVOLUTIONS,
        VALUES,
        INVALID,
        "TensorFlow's kernels for integers have no dilations",
        "do not yet support dilation rates larger than 1",
    ),
    Accepted(
        "DepthToSpace SpaceToDepth",
        UNIMPLEMENTED,
        INVALID,
        "neither has this layout on CPUs; TensorFlow looks at the rank first",
        "must be rank 5",
        has("data_format", "NCHW_VECT_C"),
    ),
    Accepted("Where", VALUES, UNIMPLEMENTED, "TensorFlow has no kernel for half", "No WhereOp available"),
    Accepted(
        "SelectV2",
        VALUES,
        UNIMPLEMENTED,
        "TensorFlow's broadcasts have nine dimensions at most",
        "Broadcast between",
    ),
    # What is refused in another order
    Accepted(
        "MaxPoolV2 MaxPoolGradV2 MaxPoolGradGradV2",
        INVALID,
        UNIMPLEMENTED,
        "windows that are wrong in two ways: either may be reported",
        only=has_odd_windows,
    ),
    Accepted(
        EVERY_OP,
        INVALID,
        MISSING,
        "a variable of strings is refused as a handle; TensorFlow takes its content for the name of a resource",
        "Could not find resource",
        has_variable_of_strings,
    ),
    Accepted(
        "TruncateMod Mod FloorMod Div TruncateDiv FloorDiv",
        INVALID,
        INTERNAL,
        "an integer that is divided by zero is invalid; TensorFlow's broadcasting kernels do not expect it",
        "Unexpected error in binary operator",
    ),
    Accepted(
        f"EncodePng EncodeJpeg EncodeJpegVariableQuality SparseConcat Conj {_SPARSE_REDUCTIONS}",
        INVALID,
        INTERNAL,
        "operands that do not fit are reported by a check deep in TensorFlow's kernel, as its own fault",
    ),
    Accepted(
        "Conv3D",
        UNIMPLEMENTED,
        INVALID,
        "neither has dilations along channels; TensorFlow's class for other convolutions is Unimplemented too",
        "does not yet support dilation rates in the batch and depth",
    ),
    Accepted(
        "RngReadAndSkip",
        UNIMPLEMENTED,
        INVALID,
        "an algorithm that is not there and operands that do not fit: either may be reported",
        "must have shape",
    ),
    # What TensorFlow does not check
    Accepted(
        "ResourceScatterUpdate ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv "
        "ResourceScatterMin ResourceScatterMax",
        INVALID,
        VALUES,
        "updates of other sizes than the rows are refused, also if they have no elements",
        only=has_empty_operand,
    ),
    Accepted(
        "ArgMax ArgMin",
        INVALID,
        VALUES,
        "a dimension of 64 bits is compared as it is; TensorFlow keeps 32 of them",
        only=lambda call: abs(int(operands(call)[1].reshape(-1)[0])) >= 2**31,
    ),
    Accepted(
        _GRADIENTS_OF_FUNCTIONS,
        ANY,
        ANY,
        "operands of two shapes broadcast or are refused; TensorFlow compares the numbers of elements at most",
        only=has_unlike_shapes,
    ),
    Accepted(
        f"{_SPARSE_REDUCTIONS} SparseSoftmax",
        INVALID,
        VALUES,
        "indices outside of the shape are refused; TensorFlow does not look at all of them",
        only=has_outside_index,
    ),
    Accepted(
        "SparseReorder",
        INVALID,
        VALUES,
        "a shape that no tensor can have is refused, as by the other ops on sparse tensors",
        only=has_impossible_shape,
    ),
    Accepted(
        _GENERATORS,
        INVALID,
        VALUES,
        "a counter of one word is refused; TensorFlow reads the second word behind the end",
        only=has_short_counter,
    ),
    Accepted(
        _GENERATORS,
        INVALID,
        VALUES,
        "an algorithm that does not exist is refused for outputs without elements too",
        only=has_empty_operand,
    ),
    Accepted(
        "FixedLengthRecordReaderV2",
        INVALID,
        VALUES,
        "an encoding that does not exist is refused when the reader is made, not when it reads",
        only=lambda call: call.attrs.get("encoding") not in ("", "ZLIB"),
    ),
    Accepted(
        "ParseExample ParseExampleV2",
        INVALID,
        VALUES,
        "keys must have the rank that the documentation of the op gives; TensorFlow takes any",
    ),
    Accepted(
        "Conv2DBackpropFilter Conv2DBackpropInput",
        INVALID,
        VALUES,
        "TensorFlow does not look at the other operands if one has no elements",
        only=has_empty_operand,
    ),
    Accepted(
        f"{_CONVOLUTIONS} {_POOLS}",
        INVALID,
        VALUES,
        "windows larger than the image are refused; TensorFlow's kernels, unlike its shape functions, round up to 0",
        only=has("padding", "VALID", "EXPLICIT"),
    ),
    Accepted(
        "Save SaveSlices SaveV2",
        INVALID,
        VALUES,
        "names must be vectors, as the documentation of the op says; TensorFlow takes any rank",
        only=has_odd_names,
    ),
    # What TensorFlow refuses without need
    Accepted(
        "SpaceToBatchND BatchToSpaceND",
        VALUES,
        INVALID,
        "the number of blocks need not be known when the graph is built",
        "building: block_shape must have",
    ),
    Accepted(
        "ParallelConcat",
        VALUES,
        INVALID,
        "shapes need not be known when the graph is built",
        "must be fully defined",
    ),
    Accepted(
        "Barrier", VALUES, INVALID, "components may have any shape", "component shapes must be specified"
    ),
    Accepted(
        "MutableDenseHashTable",
        VALUES,
        INVALID,
        "old graphs have no deleted key",
        "Unknown input name: deleted_key",
    ),
    Accepted(
        "Const",
        VALUES,
        INVALID,
        "a value of another dtype is cast when the graph is built",
        "Type mismatch between value",
        is_of_other_dtype,
    ),
    Accepted(
        EVERY_OP,
        ANY,
        INVALID,
        "a container may have any name",
        "container contains invalid characters",
    ),
    Accepted(
        EVERY_OP,
        VALUES,
        INVALID,
        "a variable of unknown shape takes any value; TensorFlow gives it the shape of a scalar",
        "Assign requires shapes of both tensors to match. lhs shape= []",
        has_variable_of_unknown_shape,
    ),
    Accepted(
        EVERY_OP,
        ANY,
        INVALID,
        "integers of attributes have 64 bits; TensorFlow's kernels keep 32 of some",
        "out of range for an int32",
    ),
    Accepted(
        "MatrixSetDiagV2 MatrixSetDiagV3",
        VALUES,
        INVALID,
        "TensorFlow's shape function takes the rank of several diagonals for that of one",
        "building: Shapes must be equal rank",
    ),
    Accepted(
        "SplitV",
        VALUES,
        INVALID,
        "the sizes are compared when the axis is known; TensorFlow's shape function takes an unknown one for the last",
        "building: can't split axis",
        has_unknown_operand,
    ),
    Accepted("TensorSliceDataset", ANY, INVALID, "metadata is not read", "Could not parse the 'metadata'"),
    Accepted(
        "PriorityQueue",
        VALUES,
        INVALID,
        "TensorFlow's own queue, made with its shapes, does not fit the node the second time it runs",
        "Shared queue",
    ),
    Accepted(
        "Conv2D",
        VALUES,
        INVALID,
        "a product with a filter without elements is zeros",
        "filter must not have zero elements",
        has_empty_operand,
    ),
    Accepted("ImageSummary", VALUES, INVALID, "any number of images may be the most", "must be < 2^31"),
    Accepted("ClipByValue", VALUES, INVALID, "bounds broadcast", "clip_value_min and clip_value_max must be"),
    Accepted(
        "Substr",
        VALUES,
        INVALID,
        "shapes are compared when they are known; TensorFlow's shape function refuses one that is not",
        "building: pos and len shapes must match",
        has_unknown_operand,
    ),
    # What is decided otherwise
    Accepted(
        "ArgMax ArgMin",
        VALUES,
        INVALID,
        "the only element of a scalar is at 0, as in NumPy and in TensorFlow's shape function",
        "in the range [0, 0)",
    ),
    Accepted(
        "Enter RefEnter NextIteration RefNextIteration",
        INVALID,
        VALUES,
        "a loop that is not complete is refused",
    ),
    Accepted(
        "TemporaryVariable",
        INVALID,
        VALUES,
        "a shape must be known; TensorFlow takes an unknown one for that of a scalar",
        only=has("shape", None),
    ),
    Accepted(
        "Variable VariableV2",
        UNINITIALIZED,
        VALUES,
        "a variable without elements has to be initialized too",
        only=is_empty_variable,
    ),
    Accepted(
        "SerializeSparse SerializeManySparse",
        UNIMPLEMENTED,
        ANY,
        "sparse tensors are serialized as strings only",
        only=lambda call: call.attrs.get("out_type") is not None and call.attrs["out_type"].name == "variant",
    ),
    Accepted(
        "NonMaxSuppressionWithOverlaps SparseAdd HistogramFixedWidth",
        VALUES,
        ANY,
        "TensorFlow takes numbers below the normal ones for zero",
        only=has_denormals,
    ),
    Accepted(
        "SparseAdd",
        VALUES,
        VALUES,
        "a threshold of another dtype is converted; TensorFlow takes its bytes for those of a value",
        only=has_unlike_threshold,
    ),
    Accepted(
        "MatchingFiles",
        VALUES,
        VALUES,
        "no name has a zero byte; TensorFlow's patterns end there",
        only=has_zero_byte,
    ),
    Accepted(
        "BroadcastGradientArgs",
        VALUES,
        VALUES,
        "a dimension of one element in both shapes need not be summed over",
    ),
    Accepted(
        "MatrixInverse Lu",
        VALUES,
        INVALID,
        "TensorFlow's search for a pivot that is zero finds some that are no numbers, depending on their places",
        "not invertible",
        has_infinite_or_nan,
    ),
    Accepted(
        "DestroyTemporaryVariable",
        MISSING,
        INVALID,
        "a variable of no name is one that does not exist",
        "Missing var_name",
    ),
    Accepted(
        "RefMerge Merge",
        VALUES,
        VALUES,
        "which of the inputs comes first is by chance",
        only=has_unlike_shapes,
    ),
    Accepted(
        "FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3",
        VALUES,
        VALUES,
        "reserved outputs hold nothing; TensorFlow's values contradict the shapes that it infers for them",
    ),
    Accepted(
        "SelfAdjointEigV2",
        VALUES,
        VALUES,
        "vectors that are left out are empty, as TensorFlow's shape function says, not a scalar",
        only=has("compute_v", False),
    ),
    Accepted(
        "Svd",
        VALUES,
        VALUES,
        "vectors that are left out are empty, as TensorFlow's shape function says, not a scalar",
        only=has("compute_uv", False),
    ),
    Accepted(
        "NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4",
        VALUES,
        VALUES,
        "the overlap of boxes without ends is NaN, so which of them are kept follows from the order of comparisons",
        only=has_infinite_or_nan,
    ),
    Accepted("ParallelConcat", INVALID, VALUES, "TensorFlow leaves rows that no value fills uninitialized"),
    Accepted(
        "StatelessRandomUniformInt",
        INVALID,
        VALUES,
        "limits have to be scalars for outputs without elements too",
    ),
    Accepted("ApplyAddSign", INVALID, VALUES, "all coefficients have to be scalars"),
    Accepted("AvgPoolGrad", INVALID, VALUES, "the gradient has to have the shape of the output"),
    Accepted(
        "DepthwiseConv2dNative",
        VALUES,
        VALUES,
        "oneDNN gives the output of an empty batch the shape of the images",
        only=has_empty_operand,
    ),
)
