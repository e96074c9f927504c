"""The loop body of attention: for each head and block of queries, the scores stay in the second-level cache."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, exp, gemm, offset
from aioexec.ops.linalg.product_loops import vector_times_matrix
from aioexec.ops.nn.softmax_loops import largest_of
from aioexec.ops.reduction.loops import sum_row

NO_MASK, ADDED, SUBTRACTED = range(3)
"""What happens to the mask."""


def attend(
    query: Pointer,
    key: Pointer,
    value: Pointer,
    mask: Pointer,
    output: Pointer,
    scores: Pointer,
    spare: Pointer,
    images: int,
    heads: int,
    rows: int,
    columns: int,
    depth: int,
    width: int,
    block: int,
    masking: int,
    query_image: int,
    query_head: int,
    query_row: int,
    key_image: int,
    key_head: int,
    key_row: int,
    key_is_turned: int,
    value_image: int,
    value_head: int,
    value_row: int,
    mask_image: int,
    mask_head: int,
    mask_row: int,
    mask_column: int,
    output_image: int,
    output_head: int,
    output_row: int,
    scale: float,
) -> int:
    """output = softmax(scale * query @ key^T + mask) @ value for each of images * heads matrices.

    Queries are [rows, depth], keys [columns, depth] or, if turned, [depth, columns], values [columns, width]. Strides are in
    elements, 0 where the mask repeats. `scores` holds block * columns elements; `spare` holds block + TILE.
    """
    spare[block] = scale
    factor = spare[block]
    for image in range(images):
        for head in range(heads):
            keys = offset(key, image * key_image + head * key_head)
            values = offset(value, image * value_image + head * value_head)
            for number in range((rows + block - 1) // block):  # a range with a step of 0 would raise
                start = number * block
                count = min(block, rows - start)
                queries = offset(query, image * query_image + head * query_head + start * query_row)
                target = offset(output, image * output_image + head * output_head + start * output_row)
                turned = key_is_turned != 0
                if rows == 1:
                    vector_times_matrix(queries, 1, keys, not turned, key_row, scores, columns, depth)
                else:
                    gemm(
                        False, not turned, count, columns, depth, 1.0, queries, query_row, keys, key_row, 0.0,
                        scores, columns,
                    )  # fmt: skip
                begin = image * mask_image + head * mask_head + start * mask_row
                for row in range(count):
                    line = offset(scores, row * columns)
                    masks = offset(mask, begin + row * mask_row)
                    scale_and_mask(line, masks, masking, mask_column, columns, factor)
                    spare[row] = exponentials(line, offset(spare, block), columns)
                if rows == 1:
                    vector_times_matrix(scores, 1, values, False, value_row, target, width, columns)
                else:
                    gemm(
                        False, False, count, width, columns, 1.0, scores, columns, values, value_row, 0.0,
                        target, output_row,
                    )  # fmt: skip
                divide_rows(target, spare, count, width, output_row)
    return 0


def scale_and_mask(x: Pointer, mask: Pointer, masking: int, step: int, n: int, factor: float) -> None:
    """x = x * factor + mask, or - mask."""
    if masking == NO_MASK:
        for i in range(n):
            x[i] = x[i] * factor
    elif step == 0:
        shift = mask[0] if masking == ADDED else -mask[0]
        for i in range(n):
            x[i] = x[i] * factor + shift
    elif masking == ADDED:
        for i in range(n):
            x[i] = x[i] * factor + mask[i]
    else:
        for i in range(n):
            x[i] = x[i] * factor - mask[i]


def exponentials(x: Pointer, spare: Pointer, n: int) -> float:
    """x = e^(x - the maximum of x); returns 1 / the sum of these. `spare` holds TILE elements."""
    largest = largest_of(x, spare, n)
    for i in range(n):  # all at once: a loop that also sums would begin with the second, and end with scalars
        x[i] = exp(x[i] - largest)
    total: float = sum_row(x, n, 0.0)
    return 1.0 / total


def divide_rows(x: Pointer, factors: Pointer, rows: int, n: int, stride: int) -> None:
    """Multiply each row by its factor."""
    for row in range(rows):
        line = offset(x, row * stride)
        factor = factors[row]
        for i in range(n):
            line[i] *= factor
