"""Loops in the graph: the Mandelbrot set by tf.while_loop, ripples of a pond, a recurrence by tf.scan, factorials by tf.cond."""

import numpy as np
import tensorflow as tf


def mandelbrot(n, iterations):
    Y, X = np.mgrid[-1.3:1.3:n * 1j, -2:1:n * 1j]
    xs = tf.constant((X + 1j * Y).astype(np.complex64))

    def body(i, zs, ns):
        zs_ = zs * zs + xs
        not_diverged = tf.square(tf.real(zs_)) + tf.square(tf.imag(zs_)) < 16
        return i + 1, tf.where(not_diverged, zs_, zs), ns + tf.cast(not_diverged, tf.float32)

    _, _, counts = tf.while_loop(lambda i, zs, ns: i < iterations, body,
                                 [tf.constant(0), tf.zeros_like(xs), tf.zeros([n, n])])
    return tf.reduce_mean(counts)


def make_kernel(a):
    """Transform a 2D array into a convolution kernel"""
    a = np.asarray(a)
    a = a.reshape(list(a.shape) + [1, 1])
    return tf.constant(a, dtype=1)


def laplace(x):
    x = tf.expand_dims(tf.expand_dims(x, 0), -1)
    laplace_k = make_kernel([[0.5, 1.0, 0.5], [1.0, -6., 1.0], [0.5, 1.0, 0.5]])
    y = tf.nn.depthwise_conv2d(x, laplace_k, [1, 1, 1, 1], padding='SAME')
    return y[0, :, :, 0]


def pond(sess, n, steps):
    u_init = np.zeros([n, n], dtype=np.float32)
    u_init[n // 2, n // 3] = 1.0
    eps = tf.placeholder(tf.float32, shape=())
    damping = tf.placeholder(tf.float32, shape=())
    U = tf.Variable(u_init)
    Ut = tf.Variable(np.zeros([n, n], dtype=np.float32))
    U_ = U + eps * Ut
    Ut_ = Ut + eps * (laplace(U) - damping * Ut)
    with tf.control_dependencies([U_, Ut_]):
        step = tf.group(U.assign(U_), Ut.assign(Ut_))
    sess.run(tf.global_variables_initializer())
    for i in range(steps):
        step.run({eps: 0.03, damping: 0.04}, session=sess)
    yield U.eval(session=sess).std()
    yield sess.run(Ut).std()


def main(steps):
    results = []
    sess = tf.Session()
    results.append(sess.run(mandelbrot(12, steps)))

    elems = tf.constant(np.linspace(0, 1, 6), tf.float32)
    sums = tf.scan(lambda a, x: 0.5 * a + x, elems, initializer=tf.constant(1.0))
    gradient = tf.gradients(sums, elems)[0]
    results.extend([sess.run(sums)[-1], sess.run(gradient).sum()])

    n = tf.placeholder(tf.int32, [])
    i, product = tf.while_loop(lambda i, p: tf.less_equal(i, n), lambda i, p: (i + 1, p * i), (1, 1))
    value = tf.cond(n > 3, lambda: product, lambda: -product)
    results += [value.eval(feed_dict={n: k}, session=sess) for k in (3, 5)]
    squares = tf.map_fn(lambda v: v * v, tf.range(5))
    total = tf.foldl(lambda a, v: a + v, squares)
    results.append(total.eval(session=sess))
    for value in pond(sess, 10, steps):
        results.append(value)
    sess.close()
    return results


if __name__ == '__main__':
    print(main(100))
