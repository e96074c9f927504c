"""Embeddings of sequences and of bags of words."""

from __future__ import annotations

from typing import Any

from aioexec.contrib.framework.variables import model_variable
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.array.unique import unique
from aioexec.ops.nn import safe_lookup
from aioexec.ops.nn.embedding import embedding_lookup, embedding_lookup_sparse
from aioexec.ops.reduction.reductions import reduce_mean
from aioexec.ops.state.variable_scope import variable_scope


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> Tensor:
    """As `aioexec.nn.embedding_lookup`, with one lookup for each different id."""
    with name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = convert_to_tensor(ids)
        different, places = unique(reshape(ids, [-1]))
        rows = embedding_lookup(params, different, partition_strategy)
        whole = concat([shape(ids), shape(rows)[1:]], 0)
        found: Tensor = reshape(gather(rows, places), whole)
        found.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return found


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str | None = None,
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
) -> Tensor:
    """As `aioexec.nn.safe_embedding_lookup_sparse`; the combiner is by default "mean"."""
    return safe_lookup.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or "mean",
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """Return rows [batch, length, embed_dim] of the variable `embeddings` [vocab_size, embed_dim] for ids [batch, length].

    Args:
        unique: look up each different id once.

    Raises:
        GraphValueError: a size is missing without `reuse`.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise GraphValueError(
            "Must specify vocab size and embedding dimension when not reusing. "
            f"Got vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        dims = None if vocab_size is None or embed_dim is None else [vocab_size, embed_dim]
        embeddings = model_variable(
            "embeddings", shape=dims, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        return (embedding_lookup_unique if unique else embedding_lookup)(embeddings, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """Return the mean [batch, embed_dim] of the embeddings of ids [batch, length].

    Args:
        sparse_lookup: look up each different id once; required if the ids are a SparseTensor.

    Raises:
        GraphTypeError: the ids are a SparseTensor without `sparse_lookup`.
    """
    with variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = model_variable(
            "embeddings",
            shape=[vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if isinstance(ids, SparseTensor):
            if not sparse_lookup:
                raise GraphTypeError("ids are expected to be dense Tensor, got SparseTensor")
            return embedding_lookup_sparse(embeddings, ids, None, combiner="mean")
        look_up = embedding_lookup_unique if sparse_lookup else embedding_lookup
        return reduce_mean(look_up(embeddings, ids), 1)
