"""An estimator with a model function: trained, evaluated, and asked for predictions."""

import tempfile

import numpy as np
import tensorflow as tf


def model_fn(features, labels, mode, params):
    """A network of one hidden layer."""
    net = tf.layers.dense(features['x'], params['units'], tf.nn.relu, name='hidden',
                          kernel_initializer=tf.random_normal_initializer(stddev=0.5, seed=1))
    logits = tf.layers.dense(net, 2, name='logits', kernel_initializer=tf.random_normal_initializer(stddev=0.5, seed=2))
    predictions = {'classes': tf.argmax(logits, axis=1), 'probabilities': tf.nn.softmax(logits, name='softmax')}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = tf.train.GradientDescentOptimizer(learning_rate=params['rate'])
        train_op = optimizer.minimize(loss=loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)

    eval_metric_ops = {'accuracy': tf.metrics.accuracy(labels=labels, predictions=predictions['classes'])}
    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops=eval_metric_ops)


def main(steps):
    rng = np.random.RandomState(160)
    x = rng.randn(40, 3).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)

    config = tf.estimator.RunConfig(model_dir=tempfile.mkdtemp(), tf_random_seed=7)
    classifier = tf.estimator.Estimator(model_fn=model_fn, config=config, params={'units': 8, 'rate': 0.5})
    train_input_fn = tf.estimator.inputs.numpy_input_fn({'x': x}, y, batch_size=10, num_epochs=None, shuffle=False)
    eval_input_fn = tf.estimator.inputs.numpy_input_fn({'x': x}, y, batch_size=40, num_epochs=1, shuffle=False)

    results = []
    for _ in range(2):
        classifier.train(input_fn=train_input_fn, steps=steps)
        metrics = classifier.evaluate(input_fn=eval_input_fn)
        results += [metrics['loss'], metrics['accuracy'], metrics['global_step']]
    predictions = list(classifier.predict(input_fn=eval_input_fn))
    results += [p['probabilities'][0] for p in predictions[:4]]
    for i, p in enumerate(classifier.predict(eval_input_fn)):
        results.append(i * p['classes'])
    results.append(classifier.get_variable_value('hidden/kernel').sum())
    return results


if __name__ == '__main__':
    tf.logging.set_verbosity(tf.logging.INFO)
    main(100)
