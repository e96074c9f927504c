"""Programs with queue-based input, and a frozen Keras model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.whole_graphs.building import Program, Run, program, values


@program
def queues_and_readers(tf: Any) -> Program:
    """Lines of files, parsed, shuffled and batched; what queue runners would run in threads is run in turn."""
    names = [str(Path(__file__).parent / "data" / f"part{k}.csv") for k in range(2)]
    files = tf.train.string_input_producer(names, shuffle=True, seed=3, num_epochs=2)
    key, line = tf.TextLineReader(skip_header_lines=1).read(files)
    a, b, label, word = tf.decode_csv(line, [[0.0], [0.0], [0], [""]])
    features = tf.stack([a, b])
    batch, labels, words = tf.train.shuffle_batch(
        [features, label, word],
        batch_size=3,
        capacity=30,
        min_after_dequeue=0,
        seed=5,
        allow_smaller_final_batch=True,
    )
    total = tf.reduce_sum(batch * tf.expand_dims(tf.cast(labels, tf.float32), 1))
    runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
    enqueue = {runner.queue.name.split("/")[0]: runner for runner in runners}
    first, second = enqueue["input_producer"], enqueue["shuffle_batch"]
    runs = [Run(targets=[tf.global_variables_initializer(), tf.local_variables_initializer()])]
    for _ in range(2):
        runs.append(Run(targets=first.enqueue_ops))
        runs += [Run([key], targets=second.enqueue_ops) for _ in range(3)]
        runs.append(Run([batch, labels, words, total]))
    runs += [Run(targets=second.enqueue_ops) for _ in range(4)]
    runs += [Run(targets=[first.close_op]), Run(targets=[second.close_op])]
    return Program([*runs, *(Run([batch, labels, words, total]) for _ in range(2))], typical=4)


@program
def frozen_keras_model(tf: Any) -> Program:
    """A Keras model, its variables turned into constants, as a GraphDef."""
    import tensorflow
    from tensorflow.python.eager import context
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    keras = tensorflow.keras
    with context.eager_mode():
        keras.utils.set_random_seed(4)
        layers = [
            keras.layers.Conv2D(6, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
            keras.layers.DepthwiseConv2D(3, padding="same"),
            keras.layers.LayerNormalization(),
            keras.layers.Activation("gelu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(5, activation="softmax"),
        ]
        model = keras.Sequential([keras.Input((10, 10, 2)), *layers])
        call = tensorflow.function(lambda x: model(x, training=False))
        concrete = call.get_concrete_function(
            tensorflow.TensorSpec([None, 10, 10, 2], tensorflow.float32, "x")
        )
        frozen = convert_variables_to_constants_v2(concrete)
    feed, fetch = frozen.inputs[0].name, frozen.outputs[0].name
    runs = [Run([fetch], {feed: values(k, 3, 10, 10, 2)}) for k in range(3)]
    return Program(runs, graph_def=frozen.graph.as_graph_def())
