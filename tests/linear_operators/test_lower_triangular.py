"""Lower triangular operators: what is above the diagonal is not read, and promises are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError

TRIL = np.array([[2.0, 9.0], [1.0, 4.0]], np.float32)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with ax.Graph().as_default() as graph:
        yield graph


async def run(*fetches: Any) -> Any:
    async with ax.Session() as session:
        return await session.run(list(fetches))


async def test_products_and_solutions_read_the_lower_triangle():
    operator = ax.linalg.LinearOperatorLowerTriangular(TRIL)

    product, solution, dense, determinant, log_determinant, trace = await run(
        operator.matvec([1.0, 1.0]),
        operator.solvevec([2.0, 5.0]),
        operator.to_dense(),
        operator.determinant(),
        operator.log_abs_determinant(),
        operator.trace(),
    )

    np.testing.assert_allclose(product, [2.0, 5.0])
    np.testing.assert_allclose(solution, [1.0, 1.0])
    np.testing.assert_allclose(dense, [[2.0, 0.0], [1.0, 4.0]])
    assert (determinant, log_determinant, trace) == pytest.approx((8.0, np.log(8.0), 6.0))


def test_the_properties_of_an_operator():
    operator = ax.linalg.LinearOperatorLowerTriangular(TRIL[None], is_positive_definite=True, name="own")

    assert (operator.name, operator.dtype, operator.tensor_rank) == ("own", ax.float32, 3)
    assert (operator.shape.as_list(), operator.batch_shape.as_list()) == ([1, 2, 2], [1])
    assert (operator.domain_dimension.value, operator.range_dimension.value) == (2, 2)
    assert (operator.is_square, operator.is_non_singular, operator.is_positive_definite) == (True, True, True)
    assert operator.is_self_adjoint is None
    assert operator.parameters["name"] == "own"
    assert operator.graph_parents == [operator.tril]
    assert operator.matmul(TRIL).name.startswith("own/matmul/")


def test_promises_that_contradict_one_another_are_refused():
    with pytest.raises(GraphValueError, match="always non-singular"):
        ax.linalg.LinearOperatorLowerTriangular(TRIL, is_positive_definite=True, is_non_singular=False)
    with pytest.raises(GraphValueError, match="square"):
        ax.linalg.LinearOperatorLowerTriangular(TRIL, is_square=False)
    with pytest.raises(GraphValueError, match="at least 2 dimensions"):
        ax.linalg.LinearOperatorLowerTriangular(TRIL[0])
    with pytest.raises(GraphTypeError, match="float32"):
        ax.linalg.LinearOperatorLowerTriangular(TRIL).matmul(ax.constant(TRIL, ax.float64))


async def test_what_is_not_promised_is_not_computed_or_is_asserted():
    singular = ax.linalg.LinearOperatorLowerTriangular(TRIL, is_non_singular=False)
    hidden = ax.placeholder_with_default(TRIL - 2 * np.eye(2, dtype=np.float32), [2, 2])

    with pytest.raises(NotImplementedError, match="singular"):
        singular.solve(TRIL)
    with pytest.raises(NotImplementedError, match="self-adjoint"):
        singular.eigvals()
    with pytest.raises(InvalidArgumentError, match="Diagonal contained zero values"):
        await run(ax.linalg.LinearOperatorLowerTriangular(hidden).assert_non_singular())
