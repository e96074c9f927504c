"""Functions of `tf.nn` against TensorFlow's: values, static shapes, gradients and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, Built, values, whole
from tests.interop.train.engines import compare, table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROWS, add = table()
ERRORS, add_error = table()
Make = Callable[..., Any]
Dims = Sequence[int | None]


def of(make: Make, *inputs: Any, known: Any = None) -> Builder:
    """What `make(tf, *inputs)` returns for placeholders that hold the inputs, and its gradients."""

    def build(tf: Any) -> Built:
        dims = (
            [each.shape for each in inputs]
            if known is None
            else [known, *(each.shape for each in inputs[1:])]
        )
        fed = [tf.placeholder(each.dtype.name, shape) for each, shape in zip(inputs, dims, strict=True)]
        made = make(tf, *fed)
        outputs = list(made) if isinstance(made, list | tuple) else [made]
        floats = [each for each in outputs if each.dtype.is_floating]
        if floats:
            total = sum(tf.reduce_sum(tf.sin(each)) for each in floats)
            slopes = tf.gradients(total, [each for each in fed if each.dtype.is_floating])
            outputs += [tf.convert_to_tensor(each) for each in slopes if each is not None]
        return Built(outputs, [dict(zip(fed, inputs, strict=True))])

    return build


def nn(function: str, *arguments: Any, **options: Any) -> Make:
    return lambda tf, *inputs: getattr(tf.nn, function)(*inputs, *arguments, **options)


# Convolution

LINE, LINES = values(1, 3, 11, 4), values(2, 3, 4, 11)
IMAGE, IMAGES = values(3, 2, 9, 8, 4), values(4, 2, 4, 9, 8)
VOLUME = values(5, 2, 5, 6, 7, 3)
OF_LINES, OF_IMAGES, OF_VOLUMES = values(6, 3, 4, 5), values(7, 3, 2, 4, 5), values(8, 2, 3, 2, 3, 4)

for padding in ("SAME", "VALID"):
    for stride in (1, 2, 3):
        add(f"conv1d {padding} {stride}", of(nn("conv1d", stride, padding), LINE, OF_LINES))
    add(
        f"conv1d {padding} dilated",
        of(
            lambda tf, x, w, p=padding: tf.stop_gradient(tf.nn.conv1d(x, w, 1, p, dilations=2)),
            LINE,
            OF_LINES,
        ),
    )
    add(f"conv1d {padding} unknown", of(nn("conv1d", 1, padding), LINE, OF_LINES, known=[None, None, 4]))
    for inputs in ((LINE, OF_LINES), (IMAGE, OF_IMAGES), (VOLUME, OF_VOLUMES)):
        count = inputs[0].ndim - 2
        where = f"{count}D {padding}"
        add(f"convolution {where}", of(nn("convolution", padding), *inputs))
        add(f"convolution {where} strides", of(nn("convolution", padding, strides=[2] * count), *inputs))
        if count < 3:
            rates = [2, 3][:count]
            add(f"convolution {where} dilated", of(nn("convolution", padding, dilation_rate=rates), *inputs))
        add(f"convolution {where} named", of(nn("convolution", padding=padding, name="own"), *inputs))
add("conv1d with a list", of(nn("conv1d", [2], "SAME"), LINE, OF_LINES))
add("conv1d with three", of(nn("conv1d", [1, 2, 1], "SAME", data_format="NWC"), LINE, OF_LINES))
add_error("conv1d with two", of(nn("conv1d", [2, 2], "SAME"), LINE, OF_LINES))
add_error("conv1d of another format", of(nn("conv1d", 1, "SAME", data_format="NC"), LINE, OF_LINES))
add_error("convolution strides and rates", of(nn("convolution", "SAME", [2], [2]), LINE, OF_LINES))

for padding in ("SAME", "VALID"):
    width = 22 if padding == "SAME" else 23
    of_lines, of_images = values(9, 3, 5, 4), values(10, 3, 2, 5, 4)
    shape = [3, width, 5]
    add(f"conv1d_transpose {padding}", of(nn("conv1d_transpose", shape, 2, padding), LINE, of_lines))
    add(f"conv_transpose 1D {padding}", of(nn("conv_transpose", shape, 2, padding), LINE, of_lines))
    sizes = [2, 18, 16, 5] if padding == "SAME" else [2, 19, 16, 5]
    add(f"conv_transpose 2D {padding}", of(nn("conv_transpose", sizes, 2, padding), IMAGE, of_images))
    for rate in (1, 2, 3):
        more = [0, 0] if padding == "SAME" else [2 * rate, rate]
        sizes = [2, 9 + more[0], 8 + more[1], 5]
        make = nn("atrous_conv2d_transpose", sizes, rate, padding)
        add(f"atrous_conv2d_transpose {padding} {rate}", of(make, IMAGE, of_images))
add(
    "conv_transpose 3D",
    of(nn("conv_transpose", [2, 10, 12, 14, 4], 2), VOLUME, values(11, 2, 3, 2, 4, 3)),
)
add(
    "conv1d_transpose of a tensor",
    of(
        lambda tf, x, w: tf.nn.conv1d_transpose(x, w, tf.stack([tf.shape(x)[0], 22, 5]), 2),
        LINE,
        values(9, 3, 5, 4),
    ),
)
add_error("conv_transpose of a matrix", of(nn("conv_transpose", [3, 5], 2), LINE, OF_LINES))
add_error(
    "atrous_conv2d_transpose at 0",
    of(nn("atrous_conv2d_transpose", [2, 9, 8, 5], 0, "SAME"), IMAGE, values(1, 3, 2, 5, 4)),
)

# Pooling

for kind in ("MAX", "AVG"):
    for value in (LINE, IMAGE, VOLUME):
        count = value.ndim - 2
        for padding in ("SAME", "VALID"):
            add(f"pool {kind} {count}D {padding}", of(nn("pool", [3] * count, kind, padding), value))
            make = nn("pool", [3] * count, kind, padding, strides=[2] * count)
            add(f"pool {kind} {count}D {padding} strides", of(make, value))
        make = nn("pool", [2] * count, kind, "VALID", dilation_rate=[2] * count)
        add(f"pool {kind} {count}D dilated", of(make, value))
        add(
            f"pool {kind} {count}D of any size",
            of(make, value, known=[None] * (count + 1) + [value.shape[-1]]),
        )
    low = kind.lower()
    for padding in ("SAME", "VALID"):
        add(f"{low}_pool1d {padding}", of(nn(f"{low}_pool1d", 3, 2, padding), LINE))
        for value in (LINE, IMAGE, VOLUME):
            add(f"{low}_pool_v2 {value.ndim} {padding}", of(nn(f"{low}_pool_v2", 2, 2, padding), value))
        add(f"{low}_pool2d {padding}", of(nn(f"{low}_pool2d", [1, 3, 2, 1], [1, 2, 2, 1], padding), IMAGE))
    add_error(f"pool {kind} dilated SAME", of(nn("pool", [2], kind, "SAME", [2]), LINE))
    add_error(f"pool {kind} of large strides", of(nn("pool", [2], kind, "SAME", strides=[3]), LINE))
    add_error(f"pool {kind} of strides and rates", of(nn("pool", [2], kind, "VALID", [2], [2]), LINE))
    add_error(f"pool {kind} of a matrix", of(nn("pool", [2], kind, "VALID"), LINE[0]))
    add_error(f"{low}_pool_v2 of a matrix", of(nn(f"{low}_pool_v2", 2, 2, "SAME"), LINE[0]))
add_error("pool of another type", of(nn("pool", [2], "SUM", "VALID"), LINE))
for padding in ("SAME", "VALID"):
    windows: dict[str, Any] = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": padding}
    add(f"erosion2d {padding}", of(nn("erosion2d", **windows), IMAGE, values(12, 3, 2, 4)))


def moved_to_batch(padding: str, rates: Any, axes: Any = None, **options: Any) -> Make:
    """A convolution whose dilation comes from with_space_to_batch."""
    return lambda tf, x, w: tf.nn.with_space_to_batch(
        x,
        rates,
        padding,
        lambda given, count, inner: tf.nn.convolution(given, w, inner),
        filter_shape=[3, 2],
        spatial_dims=axes,
        **options,
    )


for padding in ("SAME", "VALID"):
    for apart in ([1, 1], [2, 3], [1, 2]):
        add(f"with_space_to_batch {padding} {apart}", of(moved_to_batch(padding, apart), IMAGE, OF_IMAGES))
    add(
        f"with_space_to_batch {padding} of any size",
        of(moved_to_batch(padding, [2, 2], [1, 2]), IMAGE, OF_IMAGES, known=[None, None, None, 4]),
    )
add_error("with_space_to_batch of wrong axes", of(moved_to_batch("SAME", [2, 2], [2, 1]), IMAGE, OF_IMAGES))
add_error("with_space_to_batch of zero", of(moved_to_batch("SAME", [0, 2]), IMAGE, OF_IMAGES))
add(
    "with_space_to_batch along the second axis",
    of(
        lambda tf, x: tf.nn.with_space_to_batch(
            x,
            [3],
            "VALID",
            lambda given, count, inner: tf.nn.max_pool(given, [1, 1, 2, 1], 1, inner),
            spatial_dims=[2],
        ),
        IMAGE,
    ),
)
for sizes, block, base in (([7, 8], [2, 3], None), ([7, 8], [2, 3], [[1, 2], [0, 1]]), ([5], [5], [[0, 0]])):
    add(
        f"required_space_to_batch_paddings {sizes} {base}",
        of(
            lambda tf, x, sizes=sizes, block=block, base=base: [
                *tf.required_space_to_batch_paddings(sizes, block, base),
                *tf.required_space_to_batch_paddings(x, block, base),
            ],
            np.array(sizes, np.int32),
        ),
    )

# Activations, losses, masks

X = values(13, 4, 6, low=-3.0, high=3.0)
add("crelu", of(nn("crelu"), X))
add("crelu along the first axis", of(nn("crelu", axis=0), X))
add("swish", of(nn("swish"), X))
add("silu with beta", of(nn("silu", 1.5), X))
COUNTS = whole(14, 4, 6, low=0, high=9).astype(np.float32)
for full in (False, True):
    add(f"log_poisson_loss {full}", of(nn("log_poisson_loss", full), COUNTS, X))
add_error("log_poisson_loss of other shapes", of(nn("log_poisson_loss"), COUNTS, X[:3]))
add(
    "weighted_cross_entropy by targets",
    of(
        lambda tf, z, x: tf.nn.weighted_cross_entropy_with_logits(targets=z, logits=x, pos_weight=2.0),
        (COUNTS > 4).astype(np.float32),
        X,
    ),
)
for longest in (None, 3, 9):
    for kind in ("bool", "float32", "int64"):
        add(
            f"sequence_mask {longest} {kind}",
            of(
                lambda tf, n, longest=longest, kind=kind: tf.sequence_mask(n, longest, kind),
                np.array([[1, 0], [5, 3]], np.int32),
            ),
        )
add("sequence_mask of int64", of(lambda tf, n: tf.sequence_mask(n, name="own"), np.array([2, 7], np.int64)))
add_error("sequence_mask of a vector", of(lambda tf, n: tf.sequence_mask(n, [3]), np.array([2, 7], np.int32)))

# Embeddings

TABLE = values(15, 7, 3)
PLACES = np.array([[0, 0], [0, 1], [1, 0], [3, 2], [4, 0]], np.int64)
IDS = np.array([2, 6, -1, 5, 0], np.int64)
WEIGHTS = np.array([1.0, 2.0, 1.0, 0.0, 0.5], np.float32)


def safe(weighted: bool = False, shape: Sequence[int] = (5, 4), places: Any = PLACES, **options: Any) -> Make:
    def make(tf: Any, table: Any, ids: Any, weights: Any) -> Any:
        sparse = tf.SparseTensor(places, ids, shape)
        scale = tf.SparseTensor(places, weights, shape) if weighted else None
        return tf.nn.safe_embedding_lookup_sparse(table, sparse, scale, **options)

    return make


for combiner in ("mean", "sum", "sqrtn"):
    for default in (None, 3):
        for weighted in (False, True):
            make = safe(weighted, combiner=combiner, default_id=default)
            add(
                f"safe_embedding_lookup_sparse {combiner} {default} {weighted}", of(make, TABLE, IDS, WEIGHTS)
            )
DEEP = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 2]], np.int64)
add("safe_embedding_lookup_sparse of rank 3", of(safe(shape=(2, 2, 4), places=DEEP), TABLE, IDS, WEIGHTS))
add("safe_embedding_lookup_sparse with a norm", of(safe(max_norm=0.5), TABLE, IDS, WEIGHTS))
add(
    "safe_embedding_lookup_sparse in parts",
    of(lambda tf, table, ids, weights: safe()(tf, [table[:4], table[4:]], ids, weights), TABLE, IDS, WEIGHTS),
)
add_error(
    "safe_embedding_lookup_sparse of nothing",
    of(lambda tf, table, ids, weights: safe()(tf, [], ids, weights), TABLE, IDS, WEIGHTS),
)

# Connectionist temporal classification

LOGITS = values(16, 9, 3, 5, low=-2.0, high=2.0)
WORDS = np.array([[1, 3, 0, 0], [2, 2, 1, 0], [3, 0, 0, 0]], np.int32)
COUNT = np.array([3, 3, 1], np.int32)
STEPS = np.array([9, 7, 4], np.int32)


def sparse_labels(tf: Any) -> Any:
    places = [[b, k] for b, count in enumerate(COUNT) for k in range(count)]
    return tf.SparseTensor(places, [int(WORDS[b, k]) for b, k in places], [3, 4])


add(
    "ctc_loss", of(lambda tf, x, n: tf.nn.ctc_loss(tf.cast(sparse_labels(tf), tf.int32), x, n), LOGITS, STEPS)
)
add(
    "ctc_loss of batches",
    of(
        lambda tf, x, n: tf.nn.ctc_loss(
            tf.cast(sparse_labels(tf), tf.int32), logits=x, sequence_length=n, time_major=False
        ),
        LOGITS.transpose(1, 0, 2).copy(),
        STEPS,
    ),
)
add(
    "ctc_loss of halves",
    of(
        lambda tf, x, n: tf.nn.ctc_loss(tf.cast(sparse_labels(tf), tf.int32), tf.cast(x, tf.float16), n),
        LOGITS,
        STEPS,
    ),
)
add_error(
    "ctc_loss of dense labels", of(lambda tf, x, n: tf.nn.ctc_loss(tf.constant(WORDS), x, n), LOGITS, STEPS)
)
for blank in (0, 2, 4, -1):
    moved = np.where(blank % 5 <= WORDS, (WORDS + 1) % 5, WORDS).astype(np.int32)
    add(
        f"ctc_loss_v2 of dense labels {blank}",
        of(
            lambda tf, y, x, n, steps, blank=blank: tf.nn.ctc_loss_v2(y, x, n, steps, blank_index=blank),
            moved,
            LOGITS,
            COUNT,
            STEPS,
        ),
    )
    add(
        f"ctc_loss_v2 {blank}",
        of(
            lambda tf, x, steps, blank=blank: tf.nn.ctc_loss_v2(
                tf.cast(sparse_labels(tf), tf.int32), x, None, steps, blank_index=blank
            ),
            LOGITS,
            STEPS,
        ),
    ) if blank in (4, -1) else None
add(
    "ctc_loss_v2 of batches",
    of(
        lambda tf, y, x, n, steps: tf.nn.ctc_loss_v2(y + 1, x, n, steps, logits_time_major=False),
        WORDS,
        LOGITS.transpose(1, 0, 2).copy(),
        COUNT,
        STEPS,
    ),
)
add(
    "ctc_loss_v2 of an empty label",
    of(lambda tf, y, x, n, steps: tf.nn.ctc_loss_v2(y + 1, x, n - 1, steps), WORDS, LOGITS, COUNT, STEPS),
)
add_error(
    "ctc_loss_v2 without a blank",
    of(
        lambda tf, x, steps: tf.nn.ctc_loss_v2(tf.cast(sparse_labels(tf), tf.int32), x, None, steps),
        LOGITS,
        STEPS,
    ),
)


def decoded(function: str, **options: Any) -> Make:
    def make(tf: Any, x: Any, n: Any) -> Any:
        paths, scores = getattr(tf.nn, function)(x, n, **options)
        parts = [part for path in paths for part in (path.indices, path.values, path.dense_shape)]
        return [*parts, tf.stop_gradient(scores)]

    return make


for merges in (False, True):
    add(
        f"ctc_greedy_decoder {merges}",
        of(decoded("ctc_greedy_decoder", merge_repeated=merges), LOGITS, STEPS),
    )
    add(
        f"ctc_beam_search_decoder {merges}",
        of(
            decoded("ctc_beam_search_decoder", beam_width=9, top_paths=3, merge_repeated=merges),
            LOGITS,
            STEPS,
        ),
    )
add(
    "ctc_beam_search_decoder_v2",
    of(decoded("ctc_beam_search_decoder_v2", beam_width=20, top_paths=2), LOGITS, STEPS),
)
add(
    "collapse_repeated",
    of(
        nn("collapse_repeated"),
        np.array([[1, 1, 2, 2, 2], [3, 0, 0, 3, 3], [5, 5, 5, 5, 5]], np.int32),
        np.array([5, 3, 4], np.int32),
    ),
)
add(
    "collapse_repeated of int64",
    of(nn("collapse_repeated"), np.array([[1, 1, 2], [3, 3, 3]], np.int64), np.array([2, 3], np.int64)),
)


@pytest.mark.parametrize("name", ROWS)
async def test_functions_agree_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ROWS[name], 60.0) == []


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name]) == []
