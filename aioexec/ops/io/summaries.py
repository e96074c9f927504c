"""Summary ops: encode scalars, histograms, images, audio and tensors as serialised Summary protos."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.errors import InvalidArgumentError
from aioexec.formats.png import encode_png
from aioexec.formats.wav import encode_wav
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, plain
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.shapes import Dims

_HIGHEST = np.finfo(np.float64).max
_DARK = 1e-6
"""Images whose maximum is below are drawn black."""


def _serialized(summary: Any) -> Array:
    result = np.empty((), object)
    result[()] = summary.SerializeToString()
    return result


def _scalar(value: Array, what: str) -> bytes:
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be scalar")
    content: Any = value[()]
    return bytes(content)


def _text(value: Array, what: str = "tag") -> str:
    """Decode a scalar string for a proto."""
    return _scalar(value, what).decode(errors="replace")


# Numbers


def _scalars(tags: Array, values: Array) -> Array:
    from aioexec.formats.protos import Summary

    if tags.shape != values.shape:
        single = f" (tag '{_text(tags)}')" if not tags.ndim else ""
        raise InvalidArgumentError(
            f"tags and values are not the same shape: {shown(tags.shape)} != {shown(values.shape)}{single}"
        )
    summary = Summary()
    numbers = values.astype(np.float32).reshape(-1).tolist()
    for tag, number in zip(tags.reshape(-1), numbers, strict=True):
        summary.value.add(tag=tag.decode(errors="replace"), simple_value=number)
    return _serialized(summary)


# Histograms


@cache
def _limits() -> Array:
    """Return the upper bucket limits of TensorFlow's histograms, which grow by 10 % per bucket."""
    growing, limit = [], 1.0e-12
    while limit < 1.0e20:
        growing.append(limit)
        limit *= 1.1
    growing.append(_HIGHEST)
    return np.array([*(-limit for limit in reversed(growing)), 0.0, *growing])


def _histogram(context: KernelContext) -> Compute:
    def compute(tag: Array, values: Array) -> Array:
        from aioexec.formats.protos import Summary

        summary = Summary()
        value = summary.value.add(tag=_text(tag, "tags"))
        numbers = values.reshape(-1).astype(np.float64)
        if np.isnan(numbers).any():
            raise InvalidArgumentError(f"Nan in summary histogram for: {context.node_name}")
        if np.isinf(numbers).any():
            raise InvalidArgumentError(f"Infinity in Histogram for: {context.node_name}")
        _fill_histogram(value.histo, numbers)
        return _serialized(summary)

    return compute


def _fill_histogram(histogram: Any, numbers: Array) -> None:
    """Fill a HistogramProto, merging consecutive empty buckets."""
    limits = _limits()
    places = np.searchsorted(limits, numbers, side="right")
    counts = np.bincount(np.minimum(places, limits.size - 1), minlength=limits.size)
    histogram.min, histogram.max = numbers.min(initial=_HIGHEST), numbers.max(initial=-_HIGHEST)
    histogram.num = numbers.size
    histogram.sum, histogram.sum_squares = _total(numbers), _total(numbers * numbers)
    last_of_run = np.append((counts[:-1] > 0) | (counts[1:] > 0), True)
    histogram.bucket_limit.extend(limits[last_of_run].tolist())
    histogram.bucket.extend(counts[last_of_run].tolist())


def _total(numbers: Array) -> float:
    """Sum sequentially as TensorFlow does; NumPy's pairwise summation rounds differently."""
    return float(np.add.accumulate(numbers)[-1]) if numbers.size else 0.0


# Images


def _images(context: KernelContext) -> Compute:
    most, bad_colour = context.attrs["max_images"], np.asarray(context.attrs["bad_color"])
    if bad_colour.dtype != np.uint8:
        raise InvalidArgumentError(f"bad_color must be uint8, got {dt.as_dtype(bad_colour.dtype).name}")
    if bad_colour.ndim != 1:
        raise InvalidArgumentError(f"bad_color must be a vector, got shape {shown(bad_colour.shape)}")

    def compute(tag: Array, images: Array) -> Array:
        from aioexec.formats.protos import Summary

        if tag.ndim:
            raise InvalidArgumentError("Tags must be a scalar")
        _check_images(images, bad_colour)
        base, summary = _text(tag), Summary()
        for k, image in enumerate(images[:most]):
            pixels = image if image.dtype == np.uint8 else _as_pixels(image, bad_colour)
            value = summary.value.add(tag=f"{base}/image/{k}" if most > 1 else f"{base}/image")
            value.image.height, value.image.width, value.image.colorspace = image.shape
            value.image.encoded_image_string = encode_png(pixels)
        return _serialized(summary)

    return compute


def _check_images(images: Array, bad_colour: Array) -> None:
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(f"Tensor must be 4-D with last dim 1, 3, or 4, not {shown(images.shape)}")
    if max(images.shape) >= 1 << 31 or (images.size >= 1 << 31 and images.shape[0] == 1):
        raise InvalidArgumentError(f"Tensor too large for summary {shown(images.shape)}")
    if 0 in images.shape[1:]:
        raise InvalidArgumentError(f"input tensor must have non-zero dims. Found: {shown(images.shape)}.")
    if images.dtype != np.uint8 and bad_colour.size < images.shape[3]:
        raise InvalidArgumentError(
            f"expected depth <= bad_color.size, got depth = {images.shape[3]}, bad_color.size = {bad_colour.size}"
        )


def _as_pixels(image: Array, bad_colour: Array) -> Array:
    """Scale floats to 0 … 255; with negative values to ±127 around 128. Pixels that are not finite get `bad_colour`."""
    finite = np.isfinite(image).all(-1)
    shining = image[finite]
    single = np.float32 if image.dtype == np.float64 else image.dtype.type  # the dtype of the scale factor
    low, high = shining.min(initial=np.inf), shining.max(initial=-np.inf)
    white, offset = (127, 128) if low < 0 else (255, 0)
    greatest = single(max(abs(low), abs(high)) if low < 0 else high)
    scale = image.dtype.type(single(white) / greatest if greatest >= _DARK else 0)
    pixels = np.empty(image.shape, np.uint8)
    pixels[finite] = (shining * scale + image.dtype.type(offset)).astype(np.uint8)
    pixels[~finite] = bad_colour.reshape(-1)[: image.shape[2]]
    return pixels


# Sounds


def _sounds(context: KernelContext) -> Compute:
    most = context.attrs["max_outputs"]

    def compute(tag: Array, clips: Array, sample_rate: Array) -> Array:
        from aioexec.formats.protos import Summary

        if clips.ndim not in (2, 3):
            raise InvalidArgumentError(f"Tensor must be 3-D or 2-D, got: {shown(clips.shape)}")
        if tag.ndim:
            raise InvalidArgumentError("Tag must be a scalar")
        if sample_rate.size != 1 or not 0 < (rate := float(sample_rate.reshape(-1)[0])) < 1 << 32:
            raise InvalidArgumentError("sample_rate must be > 0")
        if clips.ndim == 3 and clips.shape[2] >= 1 << 16:
            raise InvalidArgumentError(f"num_channels must be in (0, 2^16), got: {clips.shape[2]}")
        base, summary = _text(tag), Summary()
        for k, clip in enumerate(clips[:most]):
            frames = clip[:, None] if clip.ndim == 1 else clip
            if not frames.shape[1]:
                raise InvalidArgumentError("audio is null")
            value = summary.value.add(tag=f"{base}/audio/{k}" if most > 1 else f"{base}/audio")
            sound = value.audio
            sound.sample_rate, sound.content_type = rate, "audio/wav"
            sound.length_frames, sound.num_channels = frames.shape
            sound.encoded_audio_string = encode_wav(frames, max(1, round(rate)))
        return _serialized(summary)

    return compute


# Tensors


def _tensor(context: KernelContext) -> Compute:
    def compute(tensor: Array) -> Array:
        from aioexec.formats.protos import Summary

        summary = Summary()
        value = summary.value.add(node_name=context.node_name)
        _fill_tensor(value.tensor, tensor, context.input_dtypes[0])
        return _serialized(summary)

    return compute


def _tagged_tensor(context: KernelContext) -> Compute:
    def compute(tag: Array, tensor: Array, metadata: Array) -> Array:
        from google.protobuf.message import DecodeError

        from aioexec.formats.protos import Summary

        summary = Summary()
        value = summary.value.add(tag=_text(tag))
        described = _scalar(metadata, "serialized_summary_metadata")
        _fill_tensor(value.tensor, tensor, context.input_dtypes[1])
        value.metadata.SetInParent()
        try:
            value.metadata.ParseFromString(described)
        except DecodeError:  # malformed metadata is ignored
            value.metadata.Clear()
            value.metadata.SetInParent()
        return _serialized(summary)

    return compute


def _fill_tensor(proto: Any, tensor: Array, dtype: dt.DType) -> None:
    """Fill a TensorProto: raw content, or a list for strings."""
    from aioexec.formats.tensor_codec import list_elements, shape_to_proto

    proto.dtype = dtype.as_datatype_enum
    proto.tensor_shape.CopyFrom(shape_to_proto(tensor.shape))
    if dtype in (dt.string, dt.resource, dt.variant):
        list_elements(proto, tensor, dtype)
    else:
        proto.tensor_content = tensor.tobytes()


# Merging


def _merged(*summaries: Array) -> Array:
    from google.protobuf.message import DecodeError

    from aioexec.formats.protos import Summary

    merged, tags = Summary(), set[str]()
    for serialized in (each for summary in summaries for each in summary.reshape(-1)):
        try:
            given = Summary.FromString(serialized)
        except DecodeError as error:
            raise InvalidArgumentError("Could not parse one of the summary inputs") from error
        for value in given.value:
            if value.tag and value.tag in tags:
                raise InvalidArgumentError(f"Duplicate tag {value.tag} found in summary inputs ")
            tags.add(value.tag)
            merged.value.append(value)
    return _serialized(merged)


# Rows


def _one(context: ShapeContext) -> Sequence[Dims]:
    return [()]


_REALS = "T:type@12"
_ROWS: tuple[tuple[str, Reference], ...] = (
    (f"ScalarSummary(tags:string, values:T) -> (summary:string) [{_REALS}]", plain(_scalars)),
    (f"HistogramSummary(tag:string, values:T) -> (summary:string) [{_REALS}=float]", _histogram),
    (
        "ImageSummary(tag:string, tensor:T) -> (summary:string) "
        "[max_images:int>=1=3; T:type{uint8|float|half|double}=float; bad_color:tensor=uint8[255, 0, 0, 255]]",
        _images,
    ),
    (
        "AudioSummaryV2(tag:string, tensor:float, sample_rate:float) -> (summary:string) [max_outputs:int>=1=3]",
        _sounds,
    ),
    (
        "TensorSummary(tensor:T) -> (summary:string) "
        "[T:type; description:string=''; labels:list(string)=[]; display_name:string='']",
        _tensor,
    ),
    (
        "TensorSummaryV2(tag:string, tensor:T, serialized_summary_metadata:string) -> (summary:string) [T:type]",
        _tagged_tensor,
    ),
    ("MergeSummary(inputs:N*string) -> (summary:string) [N:int>=1]", plain(_merged)),
)
for _signature, _kernel in _ROWS:
    register(_signature, shape=_one, kernel=_kernel, gradient=NOT_DIFFERENTIABLE)
