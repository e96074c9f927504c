"""A Transformer encoder that learns to reverse sequences: attention, layer normalization, positions, warm-up."""

import numpy as np
import tensorflow as tf

vocab, maxlen, d_model, num_heads, num_blocks = 8, 5, 8, 2, 2
init = tf.variance_scaling_initializer(scale=1.0, mode='fan_avg', distribution='uniform')


def ln(inputs, epsilon=1e-8, scope="ln"):
    """Layer normalization."""
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        params_shape = inputs.get_shape()[-1:]
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        beta = tf.get_variable("beta", params_shape, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", params_shape, initializer=tf.ones_initializer())
        normalized = (inputs - mean) / ((variance + epsilon) ** (.5))
        return gamma * normalized + beta


def dense(x, units, name, activation=None):
    return tf.layers.dense(x, units, activation=activation, use_bias=False, kernel_initializer=init, name=name)


def multihead_attention(queries, keys, values, dropout_rate, training, scope="multihead_attention"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        Q, K, V = dense(queries, d_model, 'q'), dense(keys, d_model, 'k'), dense(values, d_model, 'v')

        # Split and concat
        Q_ = tf.concat(tf.split(Q, num_heads, axis=2), axis=0)
        K_ = tf.concat(tf.split(K, num_heads, axis=2), axis=0)
        V_ = tf.concat(tf.split(V, num_heads, axis=2), axis=0)

        outputs = tf.matmul(Q_, tf.transpose(K_, [0, 2, 1]))
        outputs /= (d_model // num_heads) ** 0.5
        outputs = tf.nn.softmax(outputs)
        outputs = tf.layers.dropout(outputs, rate=dropout_rate, training=training)
        outputs = tf.matmul(outputs, V_)
        outputs = tf.concat(tf.split(outputs, num_heads, axis=0), axis=2)
        return ln(outputs + queries)


def ff(inputs, num_units, scope="positionwise_feedforward"):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        outputs = dense(inputs, num_units[0], 'inner', tf.nn.relu)
        outputs = dense(outputs, num_units[1], 'outer')
        return ln(outputs + inputs)


def positional_encoding():
    position_enc = np.array([[pos / np.power(10000, (i - i % 2) / d_model) for i in range(d_model)]
                             for pos in range(maxlen)])
    position_enc[:, 0::2] = np.sin(position_enc[:, 0::2])
    position_enc[:, 1::2] = np.cos(position_enc[:, 1::2])
    return tf.convert_to_tensor(position_enc, tf.float32)


def label_smoothing(inputs, epsilon=0.1):
    V = inputs.get_shape().as_list()[-1]
    return ((1 - epsilon) * inputs) + (epsilon / V)


def noam_scheme(init_lr, global_step, warmup_steps=4.):
    step = tf.cast(global_step + 1, dtype=tf.float32)
    return init_lr * warmup_steps ** 0.5 * tf.minimum(step * warmup_steps ** -1.5, step ** -0.5)


def main(steps):
    tf.set_random_seed(13)
    x = tf.placeholder(tf.int32, [None, maxlen])
    y = tf.reverse(x, [1])
    with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
        embeddings = tf.get_variable('weight_mat', shape=(vocab, d_model), initializer=init)
        enc = tf.nn.embedding_lookup(embeddings, x) * d_model ** 0.5 + positional_encoding()
        for i in range(num_blocks):
            with tf.variable_scope("num_blocks_{}".format(i), reuse=tf.AUTO_REUSE):
                enc = multihead_attention(enc, enc, enc, dropout_rate=0.1, training=True)
                enc = ff(enc, num_units=[16, d_model])
    logits = tf.einsum('ntd,dk->ntk', enc, tf.transpose(embeddings))
    y_ = label_smoothing(tf.one_hot(y, depth=vocab))
    ce = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=y_)
    nonpadding = tf.to_float(tf.not_equal(y, 0))
    loss = tf.reduce_sum(ce * nonpadding) / (tf.reduce_sum(nonpadding) + 1e-7)

    global_step = tf.train.get_or_create_global_step()
    lr = noam_scheme(0.02, global_step)
    train_op = tf.train.AdamOptimizer(lr, beta2=0.98).minimize(loss, global_step=global_step)

    rng = np.random.RandomState(14)
    out = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(steps):
            _, _loss, _lr, _gs = sess.run([train_op, loss, lr, global_step], {x: rng.randint(0, vocab, (8, maxlen))})
            out += [_loss, _lr]
    return out


if __name__ == '__main__':
    main(300)
