"""Style transfer: the image is the variable; Gram matrices of a fixed network compare styles."""

import numpy as np
import tensorflow as tf


class Network:
    """Convolutions with weights that are given as arrays."""

    def __init__(self, seed=90):
        rng = np.random.RandomState(seed)
        self.weights = [0.5 * rng.randn(3, 3, i, o).astype(np.float32) for i, o in [(3, 4), (4, 6)]]

    def net_preloaded(self, input_image):
        net = {}
        current = input_image
        for i, kernels in enumerate(self.weights):
            current = tf.nn.conv2d(current, tf.constant(kernels), strides=(1, 1, 1, 1), padding='SAME')
            current = tf.nn.relu(current)
            net['relu%d' % i] = current
            current = tf.nn.max_pool(current, ksize=(1, 2, 2, 1), strides=(1, 2, 2, 1), padding='SAME')
        return net


def _tensor_size(tensor):
    from operator import mul
    from functools import reduce
    return reduce(mul, (d.value for d in tensor.get_shape()), 1)


def stylize(network, content, style, iterations, content_weight=5e0, style_weight=1e2, tv_weight=1e2):
    shape = (1,) + content.shape
    content_features, style_features = {}, {}

    # compute content features in feedforward mode
    g = tf.Graph()
    with g.as_default(), g.device('/cpu:0'), tf.Session() as sess:
        image = tf.placeholder('float', shape=shape)
        net = network.net_preloaded(image)
        content_features['relu1'] = net['relu1'].eval(feed_dict={image: np.array([content])})

    # compute style features in feedforward mode
    g = tf.Graph()
    with g.as_default(), g.device('/cpu:0'), tf.Session() as sess:
        image = tf.placeholder('float', shape=(1,) + style.shape)
        net = network.net_preloaded(image)
        for layer in sorted(net):
            features = net[layer].eval(feed_dict={image: np.array([style])})
            features = np.reshape(features, (-1, features.shape[3]))
            style_features[layer] = np.matmul(features.T, features) / features.size

    # make stylized image using backpropagation
    with tf.Graph().as_default():
        image = tf.Variable(content[None] * 0.5 + 0.1)
        net = network.net_preloaded(image)

        content_loss = content_weight * 2 * tf.nn.l2_loss(net['relu1'] - content_features['relu1']) / \
            content_features['relu1'].size
        style_losses = []
        for layer, style_gram in style_features.items():
            _, height, width, number = map(lambda i: i.value, net[layer].get_shape())
            feats = tf.reshape(net[layer], (-1, number))
            gram = tf.matmul(tf.transpose(feats), feats) / (height * width * number)
            style_losses.append(2 * tf.nn.l2_loss(gram - style_gram) / style_gram.size)
        style_loss = style_weight * sum(style_losses)
        tv_loss = tv_weight * (
            tf.nn.l2_loss(image[:, 1:, :, :] - image[:, :shape[1] - 1, :, :]) / _tensor_size(image[:, 1:, :, :]) +
            tf.nn.l2_loss(image[:, :, 1:, :] - image[:, :, :shape[2] - 1, :]) / _tensor_size(image[:, :, 1:, :]))
        loss = content_loss + style_loss + 1e-2 * tv_loss

        train_step = tf.train.AdamOptimizer(0.05).minimize(loss)

        best_loss = float('inf')
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(iterations):
                train_step.run()
                this_loss = loss.eval()
                if this_loss < best_loss:
                    best_loss = this_loss
                    best = image.eval()
                yield i, this_loss, best.reshape(shape[1:])


def main(steps):
    rng = np.random.RandomState(91)
    content, style = rng.rand(8, 8, 3).astype('float32'), rng.rand(6, 6, 3).astype('float32')
    losses = []
    for iteration, loss, image in stylize(Network(), content, style, steps):
        losses.append(loss)
    return losses + [image.mean()]


if __name__ == '__main__':
    main(100)
