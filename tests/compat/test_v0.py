"""`ax.compat.v0`: names and argument orders of TensorFlow 0.x."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import aioexec as ax
import aioexec.compat.v0 as v0
from aioexec.formats.protos import Summary
from tests.ops.evaluate import evaluate

X = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
SYMMETRIC = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)
COMPLEX = np.array([3 + 4j, 1j], np.complex64)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


CASES = {
    "mul": (lambda: v0.mul(X, X), X * X),
    "sub": (lambda: v0.sub(X, 1.0), X - 1),
    "neg": (lambda: v0.neg(X), -X),
    "inv": (lambda: v0.inv(X), 1 / X),
    "complex_abs": (lambda: v0.complex_abs(COMPLEX), abs(COMPLEX)),
    "concat": (lambda: v0.concat(1, [X, X]), np.concatenate([X, X], 1)),
    "concat_v2": (lambda: v0.concat_v2([X, X], 1), np.concatenate([X, X], 1)),
    "split": (lambda: v0.split(1, 2, X)[1], X[:, 1:]),
    "split_v": (lambda: v0.split_v(X, [1, 1], 1)[0], X[:, :1]),
    "pack": (lambda: v0.pack([X, X], 1), np.stack([X, X], 1)),
    "unpack": (lambda: v0.unpack(X, axis=1)[1], X[:, 1]),
    "select": (lambda: v0.select(X > 2, X, -X), np.where(X > 2, X, -X)),
    "listdiff": (lambda: v0.listdiff([1, 2, 3], [2]).idx, np.array([0, 2])),
    "batch_matmul": (lambda: v0.batch_matmul(X[None], X[None], adj_y=True), (X @ X.T)[None]),
    "batch_matrix_inverse": (lambda: v0.batch_matrix_inverse(X[None]), np.linalg.inv(X)[None]),
    "batch_matrix_determinant": (lambda: v0.batch_matrix_determinant(X[None]), np.linalg.det(X)[None]),
    "batch_matrix_transpose": (lambda: v0.batch_matrix_transpose(X[None]), X.T[None]),
    "batch_matrix_diag": (lambda: v0.batch_matrix_diag(X), np.stack([np.diag(row) for row in X])),
    "batch_matrix_diag_part": (lambda: v0.batch_matrix_diag_part(X[None]), np.diag(X)[None]),
    "batch_matrix_set_diag": (
        lambda: v0.batch_matrix_set_diag(X, [0.0, 0.0]),
        np.array([[0, 2.0], [3.0, 0]]),
    ),
    "batch_matrix_band_part": (lambda: v0.batch_matrix_band_part(X, 0, 0), np.diag(np.diag(X))),
    "batch_matrix_solve": (lambda: v0.batch_matrix_solve(X, X), np.eye(2)),
    "batch_matrix_solve_ls": (lambda: v0.batch_matrix_solve_ls(X, X), np.eye(2)),
    "batch_matrix_triangular_solve": (
        lambda: v0.batch_matrix_triangular_solve(np.tril(X), np.tril(X)),
        np.eye(2),
    ),
    "batch_cholesky": (lambda: v0.batch_cholesky(SYMMETRIC), np.linalg.cholesky(SYMMETRIC)),
    "batch_self_adjoint_eig": (
        lambda: v0.batch_self_adjoint_eig(SYMMETRIC)[0],
        np.linalg.eigvalsh(SYMMETRIC),
    ),
    "batch_self_adjoint_eigvals": (
        lambda: v0.batch_self_adjoint_eigvals(SYMMETRIC),
        np.linalg.eigvalsh(SYMMETRIC),
    ),
    "batch_svd": (lambda: v0.batch_svd(X, compute_uv=False), np.linalg.svd(X, compute_uv=False)),
    "batch_fft": (lambda: v0.batch_fft(COMPLEX), np.fft.fft(COMPLEX)),
    "batch_ifft": (lambda: v0.batch_ifft(COMPLEX), np.fft.ifft(COMPLEX)),
    "batch_fft2d": (lambda: v0.batch_fft2d(COMPLEX[None]), np.fft.fft2(COMPLEX[None])),
    "batch_ifft2d": (lambda: v0.batch_ifft2d(COMPLEX[None]), np.fft.ifft2(COMPLEX[None])),
    "batch_fft3d": (lambda: v0.batch_fft3d(COMPLEX[None, None]), np.fft.fftn(COMPLEX[None, None])),
    "batch_ifft3d": (lambda: v0.batch_ifft3d(COMPLEX[None, None]), np.fft.ifftn(COMPLEX[None, None])),
    "nn.softmax_cross_entropy_with_logits": (
        lambda: v0.nn.softmax_cross_entropy_with_logits(X, np.eye(2, dtype=np.float32)),
        np.log1p(np.exp([1.0, -2.0])),
    ),
    "nn.sparse_softmax_cross_entropy_with_logits": (
        lambda: v0.nn.sparse_softmax_cross_entropy_with_logits(X, [0, 1]),
        np.log1p(np.exp([1.0, -2.0])),
    ),
    "nn.sigmoid_cross_entropy_with_logits": (
        lambda: v0.nn.sigmoid_cross_entropy_with_logits(X, np.ones_like(X)),
        np.log1p(np.exp(-X)),
    ),
    "image.resize_images": (
        lambda: v0.image.resize_images(X[None, :, :, None], 4, 4, 1),
        X.repeat(2, 0).repeat(2, 1)[None, :, :, None],
    ),
    "image.per_image_whitening": (
        lambda: v0.image.per_image_whitening(X[:, :, None]),
        ((X - X.mean()) / X.std())[:, :, None],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_old_name_computes_what_it_did(name):
    build, expected = CASES[name]

    np.testing.assert_allclose(evaluate(build()), expected, rtol=1e-5, atol=1e-6)


def test_every_docstring_names_the_later_name():
    for name in CASES:
        owner = v0
        for part in name.split("."):
            owner = getattr(owner, part)
        assert "1.0" in str(owner.__doc__) or "0.x" in str(owner.__doc__), name
        assert owner.__name__ == name.rpartition(".")[2]


def test_summaries_have_the_tags_they_are_given():
    v0.scalar_summary("loss", 0.5)
    v0.scalar_summary(["a", "b"], [1.0, 2.0], name="several")
    v0.histogram_summary("h", X)
    v0.image_summary("pictures", np.zeros((1, 2, 2, 1), np.float32))
    v0.audio_summary("clips", np.zeros((1, 4), np.float32), 8000.0)

    merged = Summary.FromString(evaluate(v0.merge_all_summaries()).item())

    assert [value.tag for value in merged.value] == [
        "loss",
        "a",
        "b",
        "h",
        "pictures/image/0",
        "clips/audio/0",
    ]
    assert [value.simple_value for value in merged.value[:3]] == [0.5, 1.0, 2.0]


def test_summaries_can_be_collected_elsewhere():
    one = v0.scalar_summary("one", 1.0, collections=["mine"])

    assert v0.merge_all_summaries() is None
    assert v0.get_collection("mine") == [one]
    merged = Summary.FromString(evaluate(v0.merge_summary([one])).item())
    assert [value.tag for value in merged.value] == ["one"]


async def test_a_summary_writer_is_a_file_writer(tmp_path):
    writer = v0.train.SummaryWriter(str(tmp_path))
    writer.add_summary(Summary(value=[Summary.Value(tag="loss", simple_value=1.0)]).SerializeToString(), 1)
    await writer.close()

    assert await asyncio.to_thread(tags_in, tmp_path) == ["loss"]


def tags_in(folder):
    (path,) = folder.iterdir()
    return [value.tag for event in ax.train.summary_iterator(path) for value in event.summary.value]


def test_other_names_are_those_of_the_package():
    assert v0.Session is ax.Session
    assert v0.train.AdamOptimizer is ax.train.AdamOptimizer
    assert v0.nn.relu is ax.nn.relu
    assert v0.nn.rnn is ax.nn.static_rnn
    assert v0.nn.bidirectional_rnn is ax.nn.static_bidirectional_rnn
    assert v0.nn.state_saving_rnn is ax.nn.static_state_saving_rnn
    assert v0.nn.seq2seq is ax.contrib.legacy_seq2seq
    assert v0.image.flip_up_down is ax.image.flip_up_down
    assert v0.initialize_all_variables is ax.initialize_all_variables
    with pytest.raises(AttributeError, match="no_such_name"):
        v0.no_such_name
