"""Estimated work of reference kernels that take more than about a nanosecond per byte of their inputs and outputs.

Values are nanoseconds, measured with the slowest dtype and rounded up; `tests.campaigns.loop_holds` finds ops that are
missing. The Python overhead per row, matrix or position of a window dominates.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.graph import registry
from aioexec.graph.kernels.kernel import Attrs
from aioexec.graph.kernels.work import UNBOUNDED, Work, drawn, per_element, product, unbounded, value_of

_MOST_PARSED = 4096  # bytes up to which a proto is parsed to estimate its work


def _dims(given: Any) -> tuple[int, ...]:
    return getattr(given, "shape", ())


def _size(given: Any) -> int:
    return math.prod(_dims(given))


def _matrices(each: float, step: float) -> Work:
    """Per matrix of a batch, and per elementary step of an elimination: rows × columns × min(rows, columns)."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        total = 0.0
        for given in inputs:
            *batch, rows, columns = (1, 1, *_dims(given))
            total += math.prod(batch) * (each + step * rows * columns * max(1, min(rows, columns)))
        return total

    return work


def _product(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Multiplications of a matrix product. BLAS needs less time, but waits for its own threads on a busy machine."""
    x, y = inputs[0], inputs[1]
    (*_, height, width), (*_, rows, columns) = (1, 1, *_dims(x)), (1, 1, *_dims(y))
    if attrs.get("adj_y", attrs.get("transpose_b", False)):
        columns = rows
    if attrs.get("adj_x", attrs.get("transpose_a", False)):
        height = width
    return (6.0 if x.dtype.kind == "c" else 1.5) * max(_size(x) * columns, _size(y) * height)


def _einsum(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Multiplications: one for each combination of the operands' labels."""
    sizes: dict[str, int] = {}
    others = 1
    for term, given in zip(
        attrs["equation"].partition("->")[0].replace(" ", "").split(","), inputs, strict=False
    ):
        first, dots, last = term.partition("...")
        dims = _dims(given)
        sizes.update(zip(first, dims, strict=False))
        sizes.update(zip(reversed(last), reversed(dims), strict=False))
        if dots:
            others = max(others, math.prod(dims[len(first) : len(dims) - len(last)]))
    return 10.0 * others * product(sizes.values())


def _window(filter_at: int, each: float) -> Work:
    """Convolutions: per position of the filter, and per product of an element with a filter element."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        given = inputs[filter_at]
        dims = _dims(given)
        if len(dims) == 1:  # the operand holds the shape of the filter
            content = value_of(given)
            if content is None:
                return UNBOUNDED
            dims = tuple(abs(int(dim)) for dim in content[:8])
        others = max(_size(other) for k, other in enumerate(inputs) if k != filter_at)
        places = math.prod(dims[: max(len(dims) - 2, 2)])
        return places * each + math.prod(dims) * others * 0.5

    return work


def _pool(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Pooling: per position of the window, and per element there. Window sizes are an attribute or the last but one input."""
    sizes = attrs.get("ksize")
    if sizes is None:
        sizes = value_of(inputs[-2])
        if sizes is None:
            return UNBOUNDED
        sizes = sizes.reshape(-1)
    places = product(sizes)
    return places * 20_000.0 + places * 3.0 * max(map(_size, inputs))


def _classes(attrs: Attrs, inputs: Sequence[Any]) -> float:
    count = value_of(inputs[1])
    if count is None:
        return UNBOUNDED
    rows = (*_dims(inputs[0]), 1)[0]
    return rows * (12_000.0 + 150.0 * abs(int(count.reshape(-1)[0]))) + 30.0 * _size(inputs[0])


def _rows(nanoseconds: float, position: int = 0) -> Work:
    """Per row of an input."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        return nanoseconds * (*_dims(inputs[position]), 1)[0] + 10.0 * sum(map(_size, inputs))

    return work


def _loads(module: str, work: Work) -> Work:
    """Unbounded before the first call, in which the kernel imports a module, and `work` afterwards."""
    return lambda attrs, inputs: work(attrs, inputs) if module in sys.modules else UNBOUNDED


def _pairs(nanoseconds: float, first: int, second: int) -> Work:
    """Per pair of elements of two inputs."""
    return lambda attrs, inputs: (
        nanoseconds * _size(inputs[first]) * _size(inputs[second]) + 1000.0 * sum(map(_size, inputs))
    )


def _batched_gather(attrs: Attrs, inputs: Sequence[Any]) -> float:
    rank = attrs.get("batch_dims", 0)
    return 3000.0 * math.prod(_dims(inputs[1])[:rank]) if rank else 0.0


def _scattered(each: float) -> Work:
    """Per row of the variable that an index selects, even if the updates are a scalar."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        variable, indices = inputs[0], inputs[1]
        dims = _dims(getattr(variable, "buffer", None)) or _dims(variable)
        dims = dims or tuple(dim or 1 for dim in getattr(variable, "dims", None) or ())
        return _size(indices) * (each + 5.0 * math.prod(dims[1:]))

    return work


def _resized(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Per row and column of both images, and per element of the larger one."""
    largest = float(max(map(_size, inputs)))
    rows_and_columns = float(sum(sum(_dims(each)[1:3]) for each in inputs))
    if len(_dims(inputs[1])) == 1:
        content = value_of(inputs[1])
        if content is None:
            return UNBOUNDED
        batch, *_, channels = (1, *_dims(inputs[0]))[-4:]
        largest = max(largest, product(content) * batch * channels)
        rows_and_columns += float(np.abs(content.astype(np.float64)).sum())
    return 100.0 * largest + 4000.0 * rows_and_columns


def _resized_area(attrs: Attrs, inputs: Sequence[Any]) -> float:
    content = value_of(inputs[1])
    if content is None:
        return UNBOUNDED
    columns = sum(abs(int(size)) for size in content.reshape(-1))
    return 4000.0 * (columns + sum(_dims(inputs[0])[1:3])) + 10.0 * _size(inputs[0]) * max(columns, 1)


def _parsed(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Per byte, depending on how elements are listed, and per byte of memory for padding (see `expanded_bytes`)."""
    from aioexec.formats.protos import TensorProto
    from aioexec.formats.tensor_codec import expanded_bytes

    text = value_of(inputs[0]).item()
    if len(text) > _MOST_PARSED:
        return 600.0 * len(text)
    proto = TensorProto.FromString(text)
    is_of_numbers = attrs["out_type"].numpy != np.object_
    each = 1.0 if proto.tensor_content and is_of_numbers else 50.0 if is_of_numbers else 600.0
    return 3000.0 + each * len(text) + expanded_bytes(proto)


def _written(attrs: Attrs, inputs: Sequence[Any]) -> float:
    """Per number that is written as text, and per character to which it is padded."""
    longest: int = max(0, attrs.get("width", 0), attrs.get("precision", 0))
    return _size(inputs[0]) * (1500.0 + longest)


def _state(work: Work, names: str) -> None:
    for name in names.split():
        registry.complete(name, work=work)


_state(
    unbounded,
    "ParameterizedTruncatedNormal RandomGamma RandomPoisson RandomPoissonV2 StatelessRandomGammaV2 StatelessRandomGammaV3 "
    "StatelessRandomPoisson DecodePng DecodeJpeg DecodeBmp DecodeGif DecodeImage EncodeJpeg EncodePng "
    "",
)
for _each, _names in (
    (
        45,
        "RandomUniform RandomStandardNormal RandomUniformInt StatelessRandomUniform StatelessRandomNormal "
        "StatelessRandomUniformFullInt StatelessRandomUniformInt StatelessRandomUniformV2 StatelessRandomNormalV2 "
        "StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2",
    ),
    (180, "TruncatedNormal StatelessTruncatedNormal StatelessTruncatedNormalV2"),
):
    _state(drawn(_each), _names)
_state(drawn(45, 2), "StatefulUniform StatefulStandardNormalV2 StatefulUniformInt StatefulUniformFullInt")
_state(drawn(180, 2), "StatefulTruncatedNormal")
_state(_classes, "Multinomial StatelessMultinomial")
_state(_rows(300), "RandomShuffle")
_state(_rows(1000, 1), "SplitV")
for _each, _names in (
    (100, "Unique UniqueWithCounts"),
    (100, "HistogramSummary Erf Erfc"),
    (150, "Pow ListDiff RGBToHSV HSVToRGB NthElement SparseReduceMax SparseReduceMaxSparse"),
    (
        150,
        "SparseReduceSum SparseReduceSumSparse CropAndResize CropAndResizeGradImage CropAndResizeGradBoxes",
    ),
    (
        300,
        "BroadcastGradientArgs BroadcastArgs SparseAddGrad SparseSliceGrad SparseSoftmax SparseReorder SparseSplit",
    ),
    (300, "SparseSparseMaximum SparseSparseMinimum"),
    (1000, "DenseBincount"),
    (450, "UniqueV2 UniqueWithCountsV2"),
    (150, "ConcatOffset StringFormat"),
):
    _state(per_element(_each), _names)
for _each, _names in (
    (
        100,
        "BesselI0 BesselI0e BesselI1 BesselI1e BesselK0 BesselK0e BesselK1 BesselK1e BesselJ0 BesselJ1 BesselY0 BesselY1",
    ),
    (150, "Expint Dawsn Spence FresnelCos FresnelSin Lgamma"),
    (1000, "Digamma Erfinv Ndtri Igamma Igammac IgammaGradA Polygamma Zeta Betainc RandomGammaGrad"),
):
    _state(_loads("scipy.special", per_element(_each)), _names)
_state(_written, "AsString")
_state(_rows(2000), "LowerBound UpperBound")
_state(
    per_element(20_000, 0), "RegexReplace StaticRegexReplace ParseExample ParseExampleV2 ParseSingleExample"
)
_state(per_element(20_000, 0), "DecodeCSV")
_state(per_element(50, 1), "ImageSummary")
_state(per_element(12_000, 0), "StringToHashBucketStrong")
_state(per_element(5000, 0), "RegexFullMatch StaticRegexFullMatch")
_state(_pairs(150, 1, 4), "EditDistance")
_state(_einsum, "Einsum")
_state(_batched_gather, "GatherV2 ResourceGather")
_state(_product, "BatchMatMul BatchMatMulV2 BatchMatMulV3 MatMul")
_state(
    _matrices(20_000, 1.5),
    "Cholesky CholeskyGrad Qr MatrixInverse MatrixDeterminant LogMatrixDeterminant MatrixSolve MatrixSolveLs "
    "MatrixTriangularSolve",
)
_state(_matrices(50_000, 20), "Svd SelfAdjointEigV2")
_state(_loads("aioexec.formats.tensor_codec", _parsed), "ParseTensor")
_state(unbounded, "MatrixExponential MatrixLogarithm MatrixSquareRoot Lu")
_state(_window(1, 5000), "Conv2D Conv2DBackpropInput Conv2DBackpropFilter DepthwiseConv2dNative")
_state(_window(1, 5000), "DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter")
_state(
    _window(1, 5000),
    "Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2",
)
_state(_window(1, 25_000), "Dilation2D Dilation2DBackpropInput Dilation2DBackpropFilter")
_state(
    _pool,
    "MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2 AvgPool AvgPoolGrad MaxPoolWithArgmax "
    "MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax MaxPool3D MaxPool3DGrad MaxPool3DGradGrad AvgPool3D AvgPool3DGrad",
)
_state(_resized, "ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor")
_state(_resized, "ResizeNearestNeighborGrad")
_state(_resized_area, "ResizeArea")
for _kind in ("", "Resource"):
    for _verb in ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update"):
        _state(_scattered(6000.0 if _verb == "Div" else 300.0), f"{_kind}Scatter{_verb}")
    for _verb in ("Add", "Max", "Min", "Sub", "Update"):
        _state(per_element(1000, 1), f"{_kind}ScatterNd{_verb}")
    for _rule in (
        "Adadelta",
        "Adagrad",
        "AdagradDA",
        "AdagradV2",
        "CenteredRMSProp",
        "Ftrl",
        "FtrlV2",
        "Momentum",
    ):
        _state(per_element(150), f"{_kind}SparseApply{_rule}")
    for _rule in ("ProximalAdagrad", "ProximalGradientDescent", "RMSProp"):
        _state(per_element(150), f"{_kind}SparseApply{_rule}")
_state(per_element(150), "ResourceSparseApplyKerasMomentum")
_state(
    per_element(1000, 1),
    "ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate",
)
