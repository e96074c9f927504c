"""Where the outcome of a call may differ from TensorFlow's, and why; used by the campaign `error_classes`.

An entry covers an op (or every op) only together with what differs: our class of error and TensorFlow's, part of what
TensorFlow says, and what must hold of the call. Whatever else differs for the same op is a finding.
"""

from __future__ import annotations

from tests.campaigns.accepted import (
    ABORTED,
    ANY,
    CONVOLUTIONS,
    EVERY_OP,
    GENERATORS,
    GRADIENTS_OF_FUNCTIONS,
    INTERNAL,
    INVALID,
    MISSING,
    POOLS,
    SPARSE_REDUCTIONS,
    UNIMPLEMENTED,
    VALUES,
    Accepted,
)
from tests.campaigns.accepted_decisions import DECIDED
from tests.campaigns.call_properties import (
    has,
    has_empty_operand,
    has_impossible_shape,
    has_odd_names,
    has_odd_windows,
    has_outside_index,
    has_short_counter,
    has_unlike_shapes,
    has_variable_of_strings,
    operands,
)

ACCEPTED = (
    *DECIDED,
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
        f"{CONVOLUTIONS} {POOLS}",
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
        CONVOLUTIONS,
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
        f"EncodePng EncodeJpeg EncodeJpegVariableQuality SparseConcat Conj {SPARSE_REDUCTIONS}",
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
        GRADIENTS_OF_FUNCTIONS,
        ANY,
        ANY,
        "operands of two shapes broadcast or are refused; TensorFlow compares the numbers of elements at most",
        only=has_unlike_shapes,
    ),
    Accepted(
        f"{SPARSE_REDUCTIONS} SparseSoftmax",
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
        GENERATORS,
        INVALID,
        VALUES,
        "a counter of one word is refused; TensorFlow reads the second word behind the end",
        only=has_short_counter,
    ),
    Accepted(
        GENERATORS,
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
        f"{CONVOLUTIONS} {POOLS}",
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
)
