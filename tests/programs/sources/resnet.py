"""A residual network by tf.layers with a Momentum optimizer and a training flag."""

import numpy as np
import tensorflow as tf

_BATCH_NORM_DECAY = 0.9
_BATCH_NORM_EPSILON = 1e-5


def batch_norm_relu(inputs, is_training, relu=True):
    inputs = tf.layers.batch_normalization(
        inputs=inputs, axis=3, momentum=_BATCH_NORM_DECAY, epsilon=_BATCH_NORM_EPSILON,
        center=True, scale=True, training=is_training, fused=True)
    return tf.nn.relu(inputs) if relu else inputs


def fixed_padding(inputs, kernel_size):
    pad_total = kernel_size - 1
    pad_beg = pad_total // 2
    pad_end = pad_total - pad_beg
    return tf.pad(inputs, [[0, 0], [pad_beg, pad_end], [pad_beg, pad_end], [0, 0]])


def conv2d_fixed_padding(inputs, filters, kernel_size, strides):
    """Strided 2-D convolution with explicit padding."""
    if strides > 1:
        inputs = fixed_padding(inputs, kernel_size)
    return tf.layers.conv2d(
        inputs=inputs, filters=filters, kernel_size=kernel_size, strides=strides,
        padding=('SAME' if strides == 1 else 'VALID'), use_bias=False,
        kernel_initializer=tf.variance_scaling_initializer())


def building_block(inputs, filters, is_training, projection_shortcut, strides):
    shortcut = inputs
    inputs = batch_norm_relu(inputs, is_training)
    if projection_shortcut is not None:
        shortcut = projection_shortcut(inputs)
    inputs = conv2d_fixed_padding(inputs, filters, 3, strides)
    inputs = batch_norm_relu(inputs, is_training)
    inputs = conv2d_fixed_padding(inputs, filters, 3, 1)
    return inputs + shortcut


def block_layer(inputs, filters, blocks, strides, is_training, name):
    def projection_shortcut(inputs):
        return conv2d_fixed_padding(inputs, filters=filters, kernel_size=1, strides=strides)

    # Only the first block per block_layer uses projection_shortcut and strides
    inputs = building_block(inputs, filters, is_training, projection_shortcut, strides)
    for i in range(1, blocks):
        inputs = building_block(inputs, filters, is_training, None, 1)
    return tf.identity(inputs, name)


def resnet_generator(num_blocks, num_classes):
    def model(inputs, is_training):
        inputs = conv2d_fixed_padding(inputs=inputs, filters=4, kernel_size=3, strides=1)
        inputs = tf.identity(inputs, 'initial_conv')
        for i, (filters, strides) in enumerate([(4, 1), (8, 2)]):
            inputs = block_layer(inputs, filters, num_blocks, strides, is_training, 'block_layer%d' % (i + 1))
        inputs = batch_norm_relu(inputs, is_training)
        inputs = tf.layers.average_pooling2d(inputs=inputs, pool_size=4, strides=1, padding='VALID')
        inputs = tf.reshape(inputs, [-1, 8])
        return tf.layers.dense(inputs=inputs, units=num_classes,
                               kernel_initializer=tf.random_normal_initializer(stddev=0.3))

    return model


def main(steps, batch_size=12):
    tf.set_random_seed(19)
    images = tf.placeholder(tf.float32, [None, 8, 8, 3])
    labels = tf.placeholder(tf.int32, [None])
    training = tf.placeholder_with_default(False, [])
    logits = resnet_generator(1, 3)(images, training)
    cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = cross_entropy + 2e-4 * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if 'batch_normalization' not in v.name])
    global_step = tf.train.get_or_create_global_step()
    learning_rate = tf.train.piecewise_constant(global_step, [4, 8], [0.1, 0.05, 0.01])
    update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update_ops):
        train_op = tf.train.MomentumOptimizer(learning_rate, 0.9).minimize(loss, global_step)

    rng = np.random.RandomState(5)
    prototypes = rng.randn(3, 8, 8, 3)
    results = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1, steps + 1):
            kinds = rng.randint(0, 3, batch_size)
            batch = prototypes[kinds] + rng.randn(batch_size, 8, 8, 3)
            _, value = sess.run([train_op, loss], {images: batch, labels: kinds, training: True})
            results.append(value)
        # Evaluate with the moving averages
        results.append(cross_entropy.eval({images: prototypes, labels: range(3)}))
    return results


if __name__ == '__main__':
    main(20)
