"""Steps of one op each: the ops, dtypes and forms that programs use most, with their gradients.

For `usual_kernels`, which records which kernels they need.
"""

from collections.abc import Callable, Iterator
from typing import Any

import aioexec as ax

FLOATS = (ax.float32, ax.float64)
NUMBERS = (*FLOATS, ax.int32, ax.int64)

UNARY_OF_FLOATS = (
    "abs ceil cos erf exp expm1 floor log log1p negative reciprocal rint round rsqrt sigmoid sign sin sqrt square "
    "tan tanh"
)
ACTIVATIONS = "relu relu6 elu selu softplus softsign leaky_relu softmax log_softmax"
BINARY = "add subtract multiply maximum minimum squared_difference"
BINARY_OF_FLOATS = "divide pow"
BINARY_OF_INTEGERS = "floordiv floormod"
COMPARISONS = "equal not_equal less less_equal greater greater_equal"
REDUCTIONS = "reduce_sum reduce_mean reduce_max reduce_min reduce_prod"
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: ax.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: ax.train.MomentumOptimizer(0.1, 0.9),
    "Nesterov momentum": lambda: ax.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adam": ax.train.AdamOptimizer,
    "Adagrad": lambda: ax.train.AdagradOptimizer(0.1),
    "Adadelta": ax.train.AdadeltaOptimizer,
    "RMSProp": lambda: ax.train.RMSPropOptimizer(0.1),
    "centered RMSProp": lambda: ax.train.RMSPropOptimizer(0.1, centered=True),
    "FTRL": lambda: ax.train.FtrlOptimizer(0.1),
}


def steps() -> Iterator[list[Any]]:
    """The fetches of each step, in the default graph."""
    for dtype in NUMBERS:
        yield from elementwise(dtype)
        yield from reductions(dtype)
        yield from arrays(dtype)
    for dtype in FLOATS:
        yield from activations(dtype)
        yield from products(dtype)
    yield from casts()
    yield from losses()
    yield from images()
    yield from random_numbers()
    yield from embeddings()


def variable(shape: list[int], dtype: Any = ax.float32, value: float = 0.5) -> Any:
    """A new variable; what is computed of it is not folded during planning."""
    return ax.Variable(ax.cast(ax.fill(shape, value), dtype), use_resource=True)


def with_gradients(result: Any, *inputs: Any) -> Iterator[list[Any]]:
    """A step of the result, and one of its gradients."""
    yield [result]
    yield [each for each in ax.gradients(result, list(inputs)) if each is not None]


def elementwise(dtype: Any) -> Iterator[list[Any]]:
    x, y, row, scalar = (variable(shape, dtype, 2) for shape in ([4, 6], [4, 6], [6], []))
    floats = dtype in FLOATS
    for name in UNARY_OF_FLOATS.split() if floats else ("abs", "negative", "sign", "square"):
        result = getattr(ax, name)(x)
        yield from with_gradients(result, x) if floats else iter([[result]])
    for name in f"{BINARY} {BINARY_OF_FLOATS if floats else BINARY_OF_INTEGERS}".split():
        for one, other in ((x, y), (x, scalar), (scalar, x), (x, row)):
            result = getattr(ax, name)(one, other)
            yield from with_gradients(result, one, other) if floats else iter([[result]])
    for name in COMPARISONS.split():
        for other in (y, scalar):
            yield [getattr(ax, name)(x, other)]
    yield from with_gradients(ax.where(ax.greater(x, y), x, y), x, y) if floats else iter(())
    yield [ax.add_n([x, y, x + y])]
    yield [ax.clip_by_value(x, 0, 1)]


def reductions(dtype: Any) -> Iterator[list[Any]]:
    x = variable([3, 4, 6], dtype)
    for name in REDUCTIONS.split():
        for axis in (None, 0, 1, 2, [0, 1], [1, 2]):
            result = getattr(ax, name)(x, axis)
            yield from with_gradients(result, x) if dtype in FLOATS else iter([[result]])
    for axis in (0, 1, 2):
        yield [ax.argmax(x, axis)]
        yield [ax.argmin(x, axis)]
    for axis in (None, 1):
        yield [ax.reduce_any(ax.greater(x, x), axis)]
        yield [ax.reduce_all(ax.greater(x, x), axis)]
    yield [ax.cumsum(x, 1)]


def arrays(dtype: Any) -> Iterator[list[Any]]:
    x, y = variable([4, 6], dtype), variable([4, 6], dtype)
    cube = variable([2, 3, 4, 5], dtype)
    indices = ax.Variable([0, 2, 1], dtype=ax.int32)
    results = [
        ax.concat([x, y], 0),
        ax.concat([x, y], 1),
        ax.stack([x, y]),
        ax.stack([x, y], 1),
        *ax.split(x, 2, 1),
        *ax.unstack(x),
        x[1:3, ::2],
        x[:, None],
        x[..., -1],
        ax.transpose(x),
        ax.transpose(cube, [0, 2, 1, 3]),
        ax.transpose(cube, [0, 3, 1, 2]),
        ax.reshape(x, [-1]),
        ax.tile(x, [2, 1]),
        ax.pad(x, [[1, 1], [0, 2]]),
        ax.gather(x, indices),
        ax.gather(x, indices, axis=1),
        ax.gather_nd(x, ax.Variable([[0, 1], [2, 3]])),
        ax.reverse(x, [1]),
    ]
    for result in results:
        yield from with_gradients(result, x) if dtype in FLOATS else iter([[result]])
    yield [ax.zeros_like(x), ax.ones_like(x)]
    yield [ax.one_hot(indices, 5, dtype=dtype)]
    yield [ax.range(ax.cast(ax.size(x), dtype))]


def activations(dtype: Any) -> Iterator[list[Any]]:
    x = variable([4, 6], dtype)
    for name in ACTIVATIONS.split():
        yield from with_gradients(getattr(ax.nn, name)(x), x)
    yield from with_gradients(ax.nn.bias_add(x, variable([6], dtype)), x)


def products(dtype: Any) -> Iterator[list[Any]]:
    a, b = variable([8, 8], dtype), variable([8, 8], dtype)
    batch = variable([2, 8, 8], dtype)
    for first in (False, True):
        for second in (False, True):
            product = ax.matmul(a, b, transpose_a=first, transpose_b=second)
            yield from with_gradients(product, a, b)
            yield from with_gradients(ax.matmul(batch, batch, transpose_a=first, transpose_b=second), batch)
            yield [ax.nn.relu(ax.nn.bias_add(product, variable([8], dtype)))]
    yield [ax.tensordot(batch, b, 1)]


def casts() -> Iterator[list[Any]]:
    dtypes = (*NUMBERS, ax.bool, ax.uint8, ax.float16)
    for source in dtypes:
        x = variable([4, 6], source)
        yield from ([ax.cast(x, target)] for target in dtypes if target is not source)


def losses() -> Iterator[list[Any]]:
    logits, labels = variable([4, 6]), variable([4, 6])
    classes = ax.Variable([0, 1, 2, 3])
    yield from with_gradients(
        ax.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits), logits
    )
    yield from with_gradients(
        ax.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits), logits
    )
    yield from with_gradients(ax.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), logits)
    yield from with_gradients(ax.nn.l2_loss(logits), logits)
    yield [ax.nn.in_top_k(logits, classes, 2)]
    yield list(ax.nn.top_k(logits, 2))
    yield [ax.clip_by_global_norm([logits, labels], 1.0)[0]]


def images() -> Iterator[list[Any]]:
    x = variable([2, 16, 16, 8])
    for size, stride in ((1, 1), (1, 2), (3, 1), (3, 2), (5, 1), (7, 2)):
        filters = variable([size, size, 8, 8])
        for padding in ("SAME", "VALID"):
            result = ax.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding=padding)
            yield from with_gradients(result, x, filters)
            yield [ax.nn.relu(ax.nn.bias_add(result, variable([8])))]
            depthwise = ax.nn.depthwise_conv2d(
                x, variable([size, size, 8, 1]), [1, stride, stride, 1], padding
            )
            yield from with_gradients(depthwise, x)
    first = variable([2, 16, 16, 3])
    for size, stride in ((3, 1), (3, 2), (5, 1), (7, 2)):
        filters = variable([size, size, 3, 8])
        yield from with_gradients(ax.nn.conv2d(first, filters, [1, stride, stride, 1], "SAME"), filters)
    transposed = ax.nn.conv2d_transpose(x, variable([3, 3, 8, 8]), [2, 32, 32, 8], [1, 2, 2, 1])
    yield from with_gradients(transposed, x)
    for pool in (ax.nn.max_pool, ax.nn.avg_pool):
        for size, stride in ((2, 2), (3, 1), (3, 2), (16, 1)):
            result = pool(x, [1, size, size, 1], [1, stride, stride, 1], "SAME" if size < 16 else "VALID")
            yield from with_gradients(result, x)
    for training in (False, True):
        scale = variable([8]), variable([8])
        statistics = (None, None) if training else (variable([8]), variable([8]))
        arguments = dict(zip(("scale", "offset", "mean", "variance"), (*scale, *statistics), strict=True))
        result, *_ = ax.nn.fused_batch_norm(x, **arguments, is_training=training)
        yield from with_gradients(result, x, *scale)
    yield from with_gradients(ax.nn.lrn(x), x)
    yield [ax.image.resize_bilinear(x, [32, 32]), ax.image.resize_nearest_neighbor(x, [32, 32])]


def random_numbers() -> Iterator[list[Any]]:
    for dtype in FLOATS:
        for function in (ax.random_uniform, ax.random_normal, ax.truncated_normal):
            yield [function([100], dtype=dtype, seed=1)]
        x = variable([4, 6], dtype)
        yield from with_gradients(ax.nn.dropout(x, rate=0.5, seed=1), x)
    yield [ax.random_uniform([100], 0, 10, ax.int32, seed=1)]
    yield [ax.random_shuffle(variable([10]), seed=1)]


def embeddings() -> Iterator[list[Any]]:
    table = variable([10, 8])
    for dtype in (ax.int32, ax.int64):
        indices = ax.Variable([[1, 2], [3, 1]], dtype=dtype)
        yield from with_gradients(ax.nn.embedding_lookup(table, indices), table)
        segments = ax.Variable([0, 0, 1], dtype=dtype)
        data = variable([3, 8])
        for function in (ax.segment_sum, ax.segment_mean, ax.segment_max):
            yield [function(data, segments)]
        yield [ax.unsorted_segment_sum(data, segments, 2)]


def training(optimizer: Any) -> Any:
    """The training operation of a small network with an embedding, for dense and sparse updates."""
    rows = ax.nn.embedding_lookup(variable([10, 8]), ax.Variable([1, 2, 1]))
    hidden = ax.nn.relu(ax.matmul(rows, variable([8, 8])) + variable([8]))
    return optimizer.minimize(ax.reduce_mean(ax.square(hidden)))
