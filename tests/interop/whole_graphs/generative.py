"""Programs with random numbers, with sampled losses, and with two networks that share a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.whole_graphs.building import (
    STEPS,
    Program,
    Run,
    dense,
    program,
    training,
    values,
    weights,
    whole,
    zeros,
)


@program
def word2vec(tf: Any) -> Program:
    words, size = 20, 8
    centre, context = (
        tf.placeholder(tf.int32, [None], name="centre"),
        tf.placeholder(tf.int32, [None, 1], name="context"),
    )
    start = tf.random_uniform_initializer(-1.0, 1.0, seed=3)
    table = tf.get_variable("embeddings", [words, size], initializer=start, use_resource=False)
    kernel, bias = (
        weights(tf, "nce_weights", [words, size], 4, resource=False),
        zeros(tf, "nce_biases", [words]),
    )
    found = tf.nn.embedding_lookup(table, centre)
    sampled = tf.nn.log_uniform_candidate_sampler(
        tf.cast(context, tf.int64), num_true=1, num_sampled=6, unique=True, range_max=words, seed=11
    )
    loss = tf.reduce_mean(
        tf.nn.nce_loss(kernel, bias, context, found, num_sampled=6, num_classes=words, sampled_values=sampled)
    )
    normed = table / tf.sqrt(tf.reduce_sum(tf.square(table), 1, keepdims=True))
    likeness = tf.matmul(normed, normed, transpose_b=True)

    def feeds(k: int) -> dict[Any, Any]:
        return {centre: whole(k, 8, high=words), context: whole([k, 1], 8, 1, high=words)}

    made = training(tf, loss, tf.train.GradientDescentOptimizer(0.5), feeds, [found])
    return Program([*made.runs, Run([likeness, *tf.nn.top_k(likeness, 4)])])


@program
def variational_autoencoder(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, 16], name="x")
    hidden = tf.nn.softplus(dense(tf, "encoder", x, 12, 1))
    mean, log_variance = dense(tf, "mean", hidden, 3, 2), dense(tf, "log_variance", hidden, 3, 3)
    noise = tf.random_normal(tf.shape(mean), seed=7)
    code = mean + tf.exp(0.5 * log_variance) * noise
    logits = dense(tf, "output", tf.nn.softplus(dense(tf, "decoder", code, 12, 4)), 16, 5)
    likelihood = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), 1)
    divergence = -0.5 * tf.reduce_sum(1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
    loss = tf.reduce_mean(likelihood + divergence)

    def feeds(k: int) -> dict[Any, Any]:
        return {x: (values(k % 5, 8, 16) > 0).astype(np.float32)}

    samples = [
        tf.truncated_normal([3, 4], seed=8),
        tf.random_uniform([5], 0, 100, tf.int32, seed=9),
        tf.multinomial(logits, 3, seed=10),
    ]
    return training(tf, loss, tf.train.AdamOptimizer(0.01), feeds, [mean, tf.sigmoid(logits), *samples])


@program
def deep_q_network(tf: Any) -> Program:
    """Two networks: one is trained on what the other, a late copy of it, expects."""
    actions, rows = 3, 6
    state, following = (tf.placeholder(tf.float32, [None, 4], name=name) for name in ("state", "following"))
    action, reward = (
        tf.placeholder(tf.int32, [None], name="action"),
        tf.placeholder(tf.float32, [None], name="reward"),
    )
    over = tf.placeholder(tf.bool, [None], name="over")

    def network(scope: str, x: Any, seed: int) -> Any:
        with tf.variable_scope(scope):
            return dense(tf, "values", tf.nn.relu(dense(tf, "hidden", x, 10, seed)), actions, seed + 1)

    q, late = network("online", state, 1), network("target", following, 5)
    taken = tf.gather_nd(q, tf.stack([tf.range(tf.shape(action)[0]), action], 1))
    best = tf.where(over, tf.zeros_like(reward), 0.9 * tf.reduce_max(late, 1))
    loss = tf.losses.huber_loss(tf.stop_gradient(reward + best), taken)
    mine, other = (tf.trainable_variables(scope) for scope in ("online", "target"))
    train = tf.train.RMSPropOptimizer(0.01, centered=True).minimize(loss, var_list=mine)
    copy = tf.group(*(tf.assign(there, here) for here, there in zip(mine, other, strict=True)))
    greedy = tf.cond(tf.reduce_any(over), lambda: tf.argmax(q, 1), lambda: tf.argmax(-q, 1))

    def feeds(k: int) -> dict[Any, Any]:
        return {
            state: values(k, rows, 4),
            following: values([k, 1], rows, 4),
            action: whole(k, rows, high=actions),
            reward: values([k, 2], rows),
            over: whole(k, rows, high=4) == 0,
        }

    runs = [Run(targets=[tf.global_variables_initializer()]), Run(targets=[copy])]
    for k in range(STEPS):
        runs.append(Run([loss], feeds(k), [train]))
        runs += [Run(targets=[copy])] if k % 10 == 9 else []
    return Program([*runs, Run([q, late, greedy], feeds(0))], typical=2)
