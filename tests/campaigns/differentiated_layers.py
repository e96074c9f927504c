"""Random networks of the layers that passes rewrite, built by TensorFlow: in float32, and in float64 with random rounding.

The same seed gives the same network in both types. In float32 a parameter is a placeholder, a constant, or a variable of one of
both kinds. In float64 every parameter is fed, and each layer's result is multiplied by 1 + e with e drawn anew for each element
in each run, |e| <= `rounding`, which is fed too (Monte Carlo arithmetic); what passes back is multiplied by another 1 + e. With
rounding 0 the results are exact for the purpose; with that of float32, their spread shows the error that any order of
evaluation has. Where gradients cancel, as before a normalisation or a softmax, its steps are written out in float64, each with
its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EPSILON = 1e-3
MASKED = -1e4


class Layers:
    """A network under construction in TensorFlow's default graph.

    Attributes:
        wide: whether it is the one in float64.
        rounding: the placeholder of the largest relative error of a layer's result; None in float32.
        parameters: for each, the tensor or variable to differentiate by, and its value.
        feeds: placeholders with their values.
        positions: how many rows of features the input has.
    """

    def __init__(self, tf: Any, seed: int, wide: bool) -> None:
        self.tf, self.wide = tf, wide
        self.dtype = tf.float64 if wide else tf.float32
        self.rounding = tf.placeholder(tf.float64, []) if wide else None
        self.parameters: list[tuple[Any, Array]] = []
        self.feeds: dict[Any, Any] = {}
        self.positions = 0
        self._random, self._numbers = Random(seed), np.random.default_rng(seed)
        self._batch = self._random.randint(1, 3)

    def build(self) -> Any:
        """Add a network; return its loss."""
        if self._chance(0.5):
            rows = self._chain(self._image(), self._image_layers(), self._random.randint(2, 5))
            rows = self._image_to_rows(rows)
        else:
            sequence = self._chain(self._sequence(), self._sequence_layers(), self._random.randint(2, 5))
            rows = self.tf.reduce_mean(sequence, 1) if self._chance(0.5) else sequence[:, -1]
        return self._loss(self._rounded(rows))

    # Values

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _drawn(self, *shape: int, low: float = -1.0) -> Array:
        return self._numbers.uniform(low, 1.0, shape).astype(np.float32)

    def _fed(self, value: Array, dtype: Any, dims: list[int | None]) -> Any:
        placeholder = self.tf.placeholder(dtype, dims)
        self.feeds[placeholder] = value
        return placeholder

    def _parameter(self, *shape: int, low: float = -1.0, scale: float = 1.0) -> Any:
        tf, value = self.tf, self._drawn(*shape, low=low) * np.float32(scale)
        kind = self._random.choice(["placeholder", "constant", "variable", "variable", "reference"])
        if self.wide or kind == "placeholder":
            made = tensor = self._fed(value, self.dtype, list(shape))
        elif kind == "constant":
            made = tensor = tf.constant(value)
        else:
            made = tf.Variable(value, use_resource=kind == "variable")
            tensor = tf.convert_to_tensor(made)
        self.parameters.append((made, value))
        return tensor

    def _input(self, *shape: int) -> Any:
        """What the network is fed; float32 may not know the size of the batch."""
        value, is_known = self._drawn(*shape), self._chance(0.5)
        self.positions = value.size // shape[-1]
        tensor = self._fed(value, self.dtype, [shape[0] if is_known else None, *shape[1:]])
        self.parameters.append((tensor, value))
        return tensor

    def _rounded(self, x: Any) -> Any:
        if self.rounding is None:
            return x
        tf, shape = self.tf, self.tf.shape(x)
        here, back = (self.rounding * tf.random_uniform(shape, -1, 1, tf.float64) for _ in range(2))
        return x * (1 + back) + tf.stop_gradient(x * (here - back))

    def _chain(self, x: Any, layers: list[Callable[[Any], Any]], count: int) -> Any:
        before = [x]
        for _ in range(count):
            y = self._rounded(self._random.choice(layers)(before[-1]))
            same = [each for each in before if each.shape.as_list() == y.shape.as_list()]
            if same and self._chance(0.4):
                y = self._rounded(y + self._random.choice(same))
            before.append(y)
        return before[-1]

    # Layers of both

    def _dense(self, x: Any, units: int) -> Any:
        tf, inner = self.tf, int(x.shape[-1])
        flat = x if x.shape.rank == 2 else tf.reshape(x, [-1, inner])
        y = self._rounded(tf.matmul(flat, self._parameter(inner, units, scale=inner**-0.5)))
        bias = self._parameter(units, scale=0.3)
        y = tf.nn.bias_add(y, bias) if self._chance(0.5) else y + bias
        return y if x.shape.rank == 2 else tf.reshape(y, [-1, *x.shape.as_list()[1:-1], units])

    def _activation(self, x: Any) -> Any:
        tf = self.tf
        return self._random.choice(
            [
                lambda: tf.nn.relu(x),
                lambda: tf.nn.relu6(x),
                lambda: tf.nn.leaky_relu(x, 0.25),
                lambda: tf.tanh(x),
                lambda: tf.nn.elu(x),
                lambda: x * tf.sigmoid(x),
                lambda: x * 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3.0)))),
                lambda: x * 0.5 * (1.0 + tf.erf(x / np.sqrt(2.0))),
            ]
        )()

    def _layer_norm(self, x: Any) -> Any:
        tf, size = self.tf, int(x.shape[-1])
        scale, shift = self._parameter(size, low=0.3), self._parameter(size)
        mean = self._rounded(tf.reduce_mean(x, -1, keepdims=True))
        centred = self._rounded(x - mean)
        squares = (
            tf.squared_difference(x, tf.stop_gradient(mean)) if self._chance(0.5) else tf.square(centred)
        )
        variance = self._rounded(tf.reduce_mean(squares, -1, keepdims=True))
        return self._random.choice(
            [
                lambda: self._normalized(x, mean, variance, shift, scale),
                lambda: centred * tf.rsqrt(variance + EPSILON) * scale + shift,
                lambda: centred / tf.sqrt(variance + EPSILON) * scale + shift,
            ]
        )()

    def _softmax(self, x: Any) -> Any:
        tf, is_one_node = self.tf, self._chance(0.6)
        if is_one_node and not self.wide:
            return tf.nn.softmax(x)
        powers = self._rounded(tf.exp(x - tf.stop_gradient(tf.reduce_max(x, -1, keepdims=True))))
        return powers / self._rounded(tf.reduce_sum(powers, -1, keepdims=True))

    # Layers of sequences, [batch, time, features]

    def _sequence(self) -> Any:
        time, features = self._random.randint(3, 9), self._random.randint(1, 3)
        if self._chance(0.7):
            return self._input(self._batch, time, 4 * features)
        words = self._numbers.integers(0, 11, (self._batch, time)).astype(np.int32)
        table, self.positions = self._parameter(11, 4 * features), words.size
        return self.tf.nn.embedding_lookup(table, self._fed(words, self.tf.int32, [None, time]))

    def _sequence_layers(self) -> list[Callable[[Any], Any]]:
        return [
            self._attention,
            self._attention,
            self._layer_norm,
            self._layer_norm,
            self._recurrence,
            self._causal,
            self._activation,
            lambda x: self._dense(x, self._random.choice([4, 8, 20])),
        ]

    def _attention(self, x: Any) -> Any:
        tf, time, width = self.tf, int(x.shape[1]), int(x.shape[2])
        heads = self._random.choice([count for count in (1, 2, 4) if width % count == 0])
        split = [-1, time, heads, width // heads]
        q, k, v = (
            tf.transpose(tf.reshape(self._rounded(self._dense(x, width)), split), [0, 2, 1, 3])
            for _ in range(3)
        )
        scale = np.float32((width // heads) ** -0.5)
        if self._chance(0.3):
            q, scale = q * scale, np.float32(1)
        if self._chance(0.3):
            scores = tf.matmul(q, tf.transpose(k, [0, 1, 3, 2]))
        else:
            scores = tf.matmul(q, k, transpose_b=True)
        scores = self._rounded(scores) * scale
        if self._chance(0.5):
            mask = np.triu(np.full((time, time), MASKED, np.float32), 1)
            scores = scores + tf.constant(mask, self.dtype)
        context = self._rounded(tf.matmul(self._rounded(self._softmax(scores)), v))
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, time, width])

    def _causal(self, x: Any) -> Any:
        """A dilated convolution in time, of phases, that sees nothing later."""
        tf, n, dilation = self.tf, self._random.choice([3, 8]), self._random.choice([1, 2, 4])
        time, channels = int(x.shape[1]), int(x.shape[2])
        filters = self._parameter(1, 2, channels, n, scale=(2 * channels) ** -0.5)
        early = dilation
        if dilation == 1:
            padded = tf.expand_dims(tf.pad(x, [[0, 0], [1, 0], [0, 0]]), 1)
            return tf.squeeze(tf.nn.conv2d(padded, filters, [1, 1, 1, 1], "VALID"), [1])
        late = -(time + early) % dilation
        phases = tf.space_to_batch_nd(x, [dilation], [[early, late]])
        y = tf.nn.conv2d(tf.expand_dims(phases, 1), filters, [1, 1, 1, 1], "VALID")
        y = tf.batch_to_space_nd(self._rounded(tf.squeeze(y, [1])), [dilation], [[0, late]])
        return tf.reshape(y, [-1, time, n])

    def _recurrence(self, x: Any) -> Any:
        tf, units = self.tf, self._random.choice([3, 8])
        time, features = int(x.shape[1]), int(x.shape[2])
        cell = self._random.choice([self._simple_cell, self._gru, self._lstm])(features, units)
        first = tf.zeros(tf.stack([tf.shape(x)[0], units]), self.dtype)
        if self._chance(0.3):
            states, rows = (first, first), []
            for t in range(time):
                states = cell(x[:, t], states)
                rows.append(states[0])
            return tf.stack(rows, 1)
        by_time = tf.transpose(x, [1, 0, 2])
        array = tf.TensorArray(self.dtype, time).unstack(by_time)
        written = tf.TensorArray(self.dtype, time)

        def body(t: Any, h: Any, c: Any, out: Any) -> Any:
            h, c = cell(array.read(t), (h, c))
            return t + 1, h, c, out.write(t, h)

        loop = tf.while_loop(lambda t, *_: t < time, body, [0, first, first, written])
        return tf.reshape(tf.transpose(loop[3].stack(), [1, 0, 2]), [-1, time, units])

    def _cell_parameters(self, inner: int, units: int) -> tuple[Any, Any]:
        return self._parameter(inner, units, scale=inner**-0.5), self._parameter(units, scale=0.3)

    def _simple_cell(self, features: int, units: int) -> Callable[..., Any]:
        weights, bias = self._cell_parameters(features + units, units)

        def cell(row: Any, states: Any) -> Any:
            y = self._rounded(self.tf.matmul(self.tf.concat([row, states[0]], 1), weights))
            return self.tf.tanh(self.tf.nn.bias_add(y, bias)), states[1]

        return cell

    def _lstm(self, features: int, units: int) -> Callable[..., Any]:
        tf = self.tf
        weights, bias = self._cell_parameters(features + units, 4 * units)

        def cell(row: Any, states: Any) -> Any:
            y = self._rounded(tf.matmul(tf.concat([row, states[0]], 1), weights))
            i, j, f, o = tf.split(tf.nn.bias_add(y, bias), 4, 1)
            c = self._rounded(states[1] * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j))
            return tf.tanh(c) * tf.sigmoid(o), c

        return cell

    def _gru(self, features: int, units: int) -> Callable[..., Any]:
        tf = self.tf
        gates, offsets = self._cell_parameters(features + units, 2 * units)
        weights, bias = self._cell_parameters(features + units, units)

        def cell(row: Any, states: Any) -> Any:
            y = self._rounded(tf.matmul(tf.concat([row, states[0]], 1), gates))
            r, u = tf.split(tf.sigmoid(tf.nn.bias_add(y, offsets)), 2, 1)
            new = self._rounded(tf.matmul(tf.concat([row, r * states[0]], 1), weights))
            return u * states[0] + (1 - u) * tf.tanh(tf.nn.bias_add(new, bias)), states[1]

        return cell

    # Layers of images, [batch, height, width, channels]

    def _image(self) -> Any:
        height, width = self._random.randint(4, 9), self._random.randint(4, 9)
        return self._input(self._batch, height, width, self._random.choice([3, 8, 16]))

    def _image_layers(self) -> list[Callable[[Any], Any]]:
        return [
            self._conv,
            self._conv,
            self._dilated,
            self._depthwise,
            self._batch_norm,
            self._batch_norm,
            self._activation,
            self._pool,
            self._channel_scale,
        ]

    def _filters(self, size: int, channels: int, n: int) -> Any:
        return self._parameter(size, size, channels, n, scale=(size * size * channels) ** -0.5)

    def _conv(self, x: Any) -> Any:
        tf, n = self.tf, self._random.choice([4, 7, 16])
        size, stride = self._random.choice([1, 3]), self._random.choice([1, 1, 2])
        stride = stride if min(x.shape.as_list()[1:3]) > 2 else 1
        filters, strides = self._filters(size, int(x.shape[3]), n), [1, stride, stride, 1]
        if self._chance(0.5):
            y = tf.nn.conv2d(x, filters, strides, "SAME")
        else:
            pads = [[size // 2, self._random.randint(size // 2, 2)] for _ in range(2)]
            y = tf.nn.conv2d(tf.pad(x, [[0, 0], *pads, [0, 0]]), filters, strides, "VALID")
        if self._chance(0.5):
            y = tf.nn.bias_add(self._rounded(y), self._parameter(n, scale=0.3))
        return y

    def _dilated(self, x: Any) -> Any:
        """A convolution of phases."""
        tf, block = self.tf, self._random.choice([2, 3])
        filters = self._filters(3, int(x.shape[3]), 5)
        late = [-size % block for size in x.shape.as_list()[1:3]]
        pads = [[block, block + more] for more in late]
        phases = tf.space_to_batch_nd(x, [block, block], pads)
        y = self._rounded(tf.nn.conv2d(phases, filters, [1, 1, 1, 1], "VALID"))
        y = tf.batch_to_space_nd(y, [block, block], [[0, more] for more in late])
        return tf.reshape(y, [-1, *x.shape.as_list()[1:3], 5])

    def _depthwise(self, x: Any) -> Any:
        filters = self._parameter(3, 3, int(x.shape[3]), 1, scale=1 / 3)
        return self.tf.nn.depthwise_conv2d_native(x, filters, [1, 1, 1, 1], "SAME")

    def _batch_norm(self, x: Any) -> Any:
        tf, channels = self.tf, int(x.shape[3])
        scale, shift = self._parameter(channels, low=0.3), self._parameter(channels)
        is_fused, is_training = self._chance(0.6), self._chance(0.5)
        if is_training:
            if is_fused and not self.wide:
                return tf.nn.fused_batch_norm(x, scale, shift, epsilon=EPSILON)[0]
            mean, variance = tf.nn.moments(x, [0, 1, 2])
        else:
            mean, variance = self._parameter(channels), self._parameter(channels, low=0.3)
            if is_fused and not self.wide:
                return tf.nn.fused_batch_norm(
                    x, scale, shift, mean, variance, epsilon=EPSILON, is_training=False
                )[0]
        return self._normalized(x, self._rounded(mean), self._rounded(variance), shift, scale)

    def _normalized(self, x: Any, mean: Any, variance: Any, shift: Any, scale: Any) -> Any:
        if not self.wide:
            return self.tf.nn.batch_normalization(x, mean, variance, shift, scale, EPSILON)
        inverse = self._rounded(self._rounded(self.tf.rsqrt(variance + EPSILON)) * scale)
        return self._rounded(x * inverse) + self._rounded(shift - self._rounded(mean * inverse))

    def _channel_scale(self, x: Any) -> Any:
        channels = int(x.shape[3])
        return x * self._parameter(channels, low=0.3) + self._parameter(channels)

    def _pool(self, x: Any) -> Any:
        pool = self._random.choice([self.tf.nn.max_pool, self.tf.nn.avg_pool])
        stride = 2 if min(x.shape.as_list()[1:3]) > 3 else 1
        return pool(x, [1, 2, 2, 1], [1, stride, stride, 1], "SAME")

    def _image_to_rows(self, x: Any) -> Any:
        if self._chance(0.5):
            return self.tf.reduce_mean(x, [1, 2])
        return self.tf.reshape(x, [-1, int(np.prod(x.shape.as_list()[1:]))])

    # Loss

    def _loss(self, rows: Any) -> Any:
        tf, classes = self.tf, 5
        logits = self._rounded(self._dense(rows, classes))
        labels = self._numbers.integers(0, classes, self._batch).astype(np.int32)
        fed = self._fed(labels, tf.int32, [None])
        kind = self._random.choice(["sparse", "dense", "squares"])
        if kind == "sparse":
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=fed, logits=logits)
        elif kind == "dense":
            dense = tf.one_hot(fed, classes, dtype=self.dtype)
            losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=dense, logits=logits)
        else:
            losses = tf.reduce_sum(tf.square(logits - tf.one_hot(fed, classes, dtype=self.dtype)), 1)
        return tf.reduce_mean(self._rounded(losses))
