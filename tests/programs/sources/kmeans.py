"""k-means clustering in the graph: distances by broadcasting, new centers by unsorted segment sums."""

import numpy as np
import tensorflow as tf


def bucket_mean(data, bucket_ids, num_buckets):
    total = tf.unsorted_segment_sum(data, bucket_ids, num_buckets)
    count = tf.unsorted_segment_sum(tf.ones_like(data), bucket_ids, num_buckets)
    return total / tf.maximum(count, 1.0)


def main(steps, N=60, K=3):
    rng = np.random.RandomState(110)
    middles = np.array([[0, 0], [4, 4], [-4, 3]], dtype=np.float32)
    values = middles[rng.randint(0, 3, N)] + rng.randn(N, 2).astype(np.float32)

    points = tf.Variable(values)
    cluster_assignments = tf.Variable(tf.zeros([N], dtype=tf.int64))
    # Silly initialization: use the first K points as the starting centroids
    centroids = tf.Variable(tf.slice(tf.constant(values), [0, 0], [K, 2]))

    rep_centroids = tf.reshape(tf.tile(centroids, [N, 1]), [N, K, 2])
    rep_points = tf.reshape(tf.tile(points, [1, K]), [N, K, 2])
    sum_squares = tf.reduce_sum(tf.square(rep_points - rep_centroids), reduction_indices=2)
    best_centroids = tf.argmin(sum_squares, 1)
    did_assignments_change = tf.reduce_any(tf.not_equal(best_centroids, cluster_assignments))
    means = bucket_mean(points, best_centroids, K)
    inertia = tf.reduce_sum(tf.reduce_min(sum_squares, 1))

    # Do not write to the assigned clusters variable until after computing whether the assignments have changed
    with tf.control_dependencies([did_assignments_change]):
        do_updates = tf.group(centroids.assign(means), cluster_assignments.assign(best_centroids))

    sess = tf.Session()
    sess.run(tf.global_variables_initializer())
    changed = True
    iters = 0
    history = []
    while changed and iters < steps:
        iters += 1
        history.append(sess.run(inertia))
        [changed, _] = sess.run([did_assignments_change, do_updates])
    [centers, assignments] = sess.run([centroids, cluster_assignments])
    sess.close()
    return history + [iters, np.abs(centers).sum()] + np.bincount(assignments).tolist()


if __name__ == '__main__':
    print(main(100))
