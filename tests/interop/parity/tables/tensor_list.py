"""TensorLists, observed by stacking, their length and their element shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, case, const, given, node, unknown

DTYPES = [
    *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]
ANY = const(-1)
NONE = const(np.zeros(0, np.int32))


def typed(dtype: str) -> dict[str, Any]:
    return {"element_dtype": dtype}


def shape_const(shape: Any) -> Node:
    """An operand `element_shape`, also of elements without dimensions."""
    return const(np.array(shape, np.int32))


def empty(shape: Any = -1, dtype: str = "float32", limit: int = -1) -> Node:
    return node("EmptyTensorList", shape_const(shape), const(limit), attrs=typed(dtype))


def reserved(count: int, shape: Any = -1, dtype: str = "float32") -> Node:
    return node("TensorListReserve", shape_const(shape), const(count), attrs=typed(dtype))


def filled(rows: Any, shape: Any = -1) -> Node:
    """A list of the rows of a tensor, which may be fed."""
    return node("TensorListFromTensor", rows, shape_const(shape))


def pushed(made: Node, *elements: Any, dtype: str = "float32") -> Node:
    for element in elements:
        made = node("TensorListPushBack", made, element, attrs=typed(dtype))
    return made


def replaced(made: Node, index: int, item: Any, **attrs: Any) -> Node:
    return node("TensorListSetItem", made, index, item, attrs=typed("float32") | attrs)


def stacked(made: Node, shape: Any = -1, dtype: str = "float32") -> Node:
    return node("TensorListStack", made, shape_const(shape), attrs=typed(dtype))


def listed(op_type: str, *inputs: Any, dtype: str = "float32", shape: Any = -1, **options: Any) -> Case:
    """A case of an op that makes a list, looked at as a whole."""
    attrs = typed(dtype) | options.pop("attrs", {})
    if op_type == "TensorListResize":
        del attrs["element_dtype"]
    return case(
        op_type,
        *inputs,
        attrs=attrs,
        steps=lambda made: [
            [
                stacked(made, shape, dtype),
                node("TensorListLength", made),
                node("TensorListElementShape", made, attrs={"shape_type": "int32"}),
            ]
        ],
        **options,
    )


def entry(made: Node, k: int) -> Node:
    """The list at one place of a tensor of lists."""
    return node("StridedSlice", made, const([k]), const([k + 1]), const([1]), attrs={"shrink_axis_mask": 1})


def rows(dtype: str, count: int = 4) -> Any:
    return sample(dtype, (count, 2), 3)


X = rows("float32")
EMPTY_ROWS = np.zeros((0, 2), np.float32)


def making() -> Iterator[Case]:
    for dtype in DTYPES:
        item = sample(dtype, (2,), 5)
        yield listed("EmptyTensorList", const([2]), const(-1), dtype=dtype)
        yield listed("TensorListReserve", const([2]), const(3), dtype=dtype)
        yield listed("TensorListFromTensor", rows(dtype), const([2]), dtype=dtype)
        yield listed("TensorListScatter", rows(dtype), [3, 0, 1, 6], const([2]), dtype=dtype)
        yield listed("TensorListScatterV2", rows(dtype), [3, 0, 1, 6], const([2]), const(8), dtype=dtype)
        yield listed("TensorListSplit", rows(dtype), const([-1, 2]), const([2, 2], "int64"), dtype=dtype)
        yield listed("TensorListPushBack", pushed(empty([2], dtype), item, dtype=dtype), item, dtype=dtype)
        yield listed("TensorListSetItem", filled(rows(dtype)), 2, item, dtype=dtype)
        yield listed("TensorListResize", filled(rows(dtype)), 6, dtype=dtype)
        yield listed(
            "TensorListScatterIntoExistingList", filled(rows(dtype)), rows(dtype, 2), [1, 4], dtype=dtype
        )
        yield listed("TensorListConcatLists", filled(rows(dtype)), filled(rows(dtype, 2)), dtype=dtype)
        yield case(
            "TensorListPushBackBatch",
            node("Pack", [empty([2], dtype), filled(rows(dtype), [2])]),
            rows(dtype, 2),
            attrs=typed(dtype),
            steps=given(lambda made, dtype: [[stacked(entry(made, k), dtype=dtype) for k in (0, 1)]], dtype),
        )


def reading() -> Iterator[Case]:
    for dtype in DTYPES:
        of = typed(dtype)
        yield case("TensorListGetItem", filled(rows(dtype)), 2, const([2]), attrs=of)
        yield case("TensorListGetItem", reserved(3, [2], dtype), 2, ANY, attrs=of, note="zeros")
        yield case("TensorListStack", filled(rows(dtype)), const([2]), attrs=of)
        yield case("TensorListStack", reserved(3, [2], dtype), ANY, attrs=of, note="zeros")
        yield case("TensorListGather", filled(rows(dtype)), [3, 0, 0], ANY, attrs=of)
        yield case("TensorListConcat", filled(rows(dtype)), attrs=of)
        yield case("TensorListConcatV2", filled(rows(dtype)), ANY, const([], "int64"), attrs=of)
        yield case(
            "TensorListPopBack",
            filled(rows(dtype)),
            ANY,
            attrs=of,
            steps=given(lambda made, dtype: [[made[1], stacked(made, dtype=dtype)]], dtype),
        )
        yield case("TensorListLength", filled(rows(dtype)))
        yield case("TensorListElementShape", empty([2, -1], dtype), attrs={"shape_type": "int64"})


def shapes() -> Iterator[Case]:
    shape: Any
    for shape in ([], [2], [2, 3], [0], [2, 0]):
        element = sample("float32", tuple(shape), 1)
        yield listed("EmptyTensorList", shape_const(shape), const(-1))
        yield listed("EmptyTensorList", const(np.array(shape, np.int64)), const(2))
        yield listed("TensorListReserve", shape_const(shape), const(2))
        yield listed("TensorListReserve", const(np.array(shape, np.int64)), const(0))
        yield listed("TensorListFromTensor", [element, element], shape_const(shape))
        yield listed("TensorListFromTensor", unknown([element, element]), unknown(np.array(shape, np.int32)))
        yield listed("TensorListPushBack", empty(), element)
        yield listed("TensorListPushBack", empty(shape), unknown(element))
        yield listed("TensorListSetItem", reserved(3, shape), 1, element)
        yield listed("TensorListResize", filled([element, element], shape), 5)
        yield listed("TensorListResize", filled([element, element], shape), 1)
        yield case("TensorListStack", pushed(empty(), element, element), ANY, attrs=typed("float32"))
        yield case("TensorListGetItem", pushed(empty(), element, element), 1, ANY, attrs=typed("float32"))
        yield case("TensorListGather", reserved(3, shape), [1, 2, 1], ANY, attrs=typed("float32"))
        yield case("TensorListGather", reserved(3, shape), [], shape_const(shape), attrs=typed("float32"))
        for kind in ("int32", "int64"):
            yield case("TensorListElementShape", empty(shape), attrs={"shape_type": kind})
            yield case("TensorListElementShape", reserved(1, shape), attrs={"shape_type": kind})
    for shape in (-1, [-1], [2, -1]):
        yield case("TensorListElementShape", empty(shape), attrs={"shape_type": "int32"})
        yield case("TensorListLength", empty(shape))
        yield case("TensorListLength", reserved(7, shape))
        yield case("TensorListStack", empty(shape), ANY, attrs=typed("float32"), bad=True)
        yield case("TensorListGather", empty(shape), NONE, ANY, attrs=typed("float32"), bad=True)
        yield case("TensorListGetItem", reserved(2, shape), 0, ANY, attrs=typed("float32"), bad=True)


def gradients() -> Iterator[Case]:
    """Through lists, by what is read from them."""
    one = [0.5, -1.5]
    of = typed("float32")
    made = pushed(filled(X, [2]), one)
    yield case("TensorListStack", made, const([2]), attrs=of)
    yield case("TensorListStack", made, ANY, attrs=of | {"num_elements": 5})
    yield case("TensorListStack", replaced(made, 1, one), ANY, attrs=of)
    yield case("TensorListStack", replaced(made, 6, one, resize_if_index_out_of_bounds=True), ANY, attrs=of)
    yield case("TensorListStack", node("TensorListResize", made, 8), ANY, attrs=of)
    yield case("TensorListStack", node("TensorListResize", made, 3), ANY, attrs=of)
    yield case(
        "TensorListStack", node("TensorListScatterV2", X, [3, 0, 1, 6], const([2]), const(-1)), ANY, attrs=of
    )
    yield case("TensorListStack", node("TensorListScatter", X, [3, 0, 1, 6], const([2])), ANY, attrs=of)
    yield case(
        "TensorListStack", node("TensorListScatterIntoExistingList", made, X, [3, 0, 1, 4]), ANY, attrs=of
    )
    yield case("TensorListStack", node("ZerosLike", made), ANY, attrs=of)
    yield case("TensorListStack", node("AddN", [filled(X), filled(X)]), ANY, attrs=of)
    yield case("TensorListGetItem", made, 4, ANY, attrs=of)
    yield case("TensorListGetItem", replaced(made, 1, one), 1, const([2]), attrs=of)
    yield case(
        "TensorListGather", made, [4, 4, 0], ANY, attrs=of, note="a row that is read twice", grad=False
    )
    yield case("TensorListGather", made, [4, 1, 0], ANY, attrs=of)
    yield case("TensorListConcatV2", made, const([2]), const([], "int64"), attrs=of)
    yield case("TensorListConcatV2", pushed(empty(), [1.0], [2.0, 3.0]), ANY, const([], "int64"), attrs=of)
    yield case("TensorListConcat", pushed(empty(), [1.0], [2.0, 3.0]), attrs=of)
    yield case(
        "TensorListConcat", filled(sample("float32", (2, 3, 2))), attrs=of | {"element_shape": (None, 2)}
    )
    split = node("TensorListSplit", X, const([-1, 2]), const([1, 3], "int64"))
    yield case("TensorListConcatV2", split, const([-1, 2]), const([], "int64"), attrs=of)
    yield case("TensorListGetItem", split, 1, ANY, attrs=of)


def one_element() -> Iterator[Case]:
    of = typed("float32")
    some = replaced(reserved(3), 1, [1.0, 2.0])
    yield case("TensorListGetItem", some, 0, ANY, attrs=of, note="zeros like the others")
    yield case("TensorListGetItem", reserved(3), 0, const([2, 2]), attrs=of)
    yield case("TensorListGetItem", reserved(3), 0, const([2, -1]), attrs=of, bad=True)
    yield case("TensorListGetItem", reserved(3, [2]), 0, const([3]), attrs=of, bad=True)
    for index in (3, -1, 100):
        yield case("TensorListGetItem", some, index, ANY, attrs=of, bad=True)
        yield listed("TensorListSetItem", some, index, [1.0, 2.0], bad=True)
    yield case("TensorListGetItem", some, 1, ANY, attrs=typed("int32"), bad=True)
    yield case("TensorListGetItem", empty(), 0, ANY, attrs=of, bad=True)
    yield case("TensorListGetItem", some, 1, const(3), attrs=of, bad=True)
    yield case("TensorListGetItem", some, 1, const([[1]]), attrs=of, bad=True)
    yield listed("TensorListSetItem", some, 0, [3.0, 4.0])
    yield listed("TensorListSetItem", some, 5, [3.0, 4.0], attrs={"resize_if_index_out_of_bounds": True})
    yield listed("TensorListSetItem", some, 0, [[3.0]], bad=True, note="shapes that do not stack")
    yield listed("TensorListSetItem", reserved(3, [2]), 0, [3.0], bad=True)
    yield listed("TensorListSetItem", some, 0, const([3, 4]), attrs={"element_dtype": "int32"}, bad=True)
    yield listed("TensorListPushBack", empty(-1, limit=1), [1.0])
    yield listed("TensorListPushBack", pushed(empty(-1, limit=1), [1.0]), [1.0], bad=True)
    yield listed("TensorListPushBack", empty([2]), [1.0], bad=True)
    yield listed("TensorListPushBack", empty(), const([1, 2]), attrs={"element_dtype": "int32"}, bad=True)
    yield listed(
        "TensorListPushBack",
        pushed(empty([-1]), [1.0]),
        [1.0, 2.0],
        bad=True,
        note="shapes that do not stack",
    )
    for made, shape, bad in (
        (filled(X), ANY, False),
        (pushed(empty(), 1.0), const([3]), False),
        (reserved(2, [3]), ANY, False),
        (reserved(2), const([3]), False),
        (reserved(2), ANY, True),
        (some, ANY, True),
        (empty(), ANY, True),
        (empty([2]), const([2]), True),
    ):
        yield case(
            "TensorListPopBack",
            made,
            shape,
            attrs=of,
            bad=bad,
            steps=lambda popped: [[popped[1]], [node("TensorListLength", popped)]],
        )
    yield case(
        "TensorListPopBack",
        filled(X),
        ANY,
        attrs=typed("int32"),
        bad=True,
        steps=lambda popped: [[popped[1]]],
    )
    yield case("TensorListPopBack", filled(X), const(3), attrs=of, steps=lambda popped: [[popped[1]]])
    yield case(
        "TensorListPopBack", reserved(2), const(3), attrs=of, bad=True, steps=lambda popped: [[popped[1]]]
    )


def whole_lists() -> Iterator[Case]:
    of = typed("float32")
    some = replaced(reserved(3), 1, [1.0, 2.0])
    yield case("TensorListStack", some, ANY, attrs=of, note="zeros like the others")
    yield case("TensorListStack", filled(X), ANY, attrs=of | {"num_elements": 3}, bad=True)
    yield case("TensorListStack", filled(X), const([3]), attrs=of, bad=True)
    yield case("TensorListStack", filled(X), ANY, attrs=typed("int32"), bad=True)
    yield case("TensorListStack", pushed(empty(), 1.0, [1.0]), ANY, attrs=of, bad=True)
    yield case("TensorListStack", reserved(2), ANY, attrs=of, bad=True)
    yield case("TensorListStack", empty([-1]), const([2]), attrs=of)
    yield case("TensorListStack", filled(unknown(X)), ANY, attrs=of)
    yield case("TensorListStack", filled(X), unknown(np.array([2], np.int32)), attrs=of)
    for size, bad in ((0, False), (2, False), (4, False), (9, False), (-1, True)):
        yield listed("TensorListResize", filled(X, [2]), size, bad=bad)
    yield listed("TensorListResize", filled(X), [1], bad=True)
    yield case("TensorListGather", some, [0, 1], ANY, attrs=of)
    yield case("TensorListGather", some, [0], ANY, attrs=of, bad=True)
    yield case("TensorListGather", some, [0], const([2]), attrs=of)
    for index in (3, -1):
        yield case("TensorListGather", some, [index], ANY, attrs=of, bad=True)
    yield case("TensorListGather", filled(X), [1], ANY, attrs=typed("int32"), bad=True)
    yield case("TensorListGather", filled(X), [1], const([3]), attrs=of, bad=True)
    yield case("TensorListGather", filled(X), unknown(np.array([1, 2], np.int32)), ANY, attrs=of)
    yield case("TensorListElementShape", filled(X, [-1]), attrs={"shape_type": "int32"})
    yield case("TensorListElementShape", some, attrs={"shape_type": "int32"})
    yield case("TensorListLength", pushed(filled(X), [1.0, 2.0]))
    yield case("TensorListLength", node("TensorListResize", filled(X), 2))
    yield case("TensorListLength", node("ZerosLike", filled(X)))
    yield case("TensorListLength", X, bad=True)
    yield case("TensorListElementShape", X, attrs={"shape_type": "int32"}, bad=True)
    yield listed("TensorListConcatLists", filled(X, [2]), filled(X, [-1]), bad=True)
    yield listed("TensorListConcatLists", filled(X), filled(X), dtype="int32", bad=True)
    yield listed("TensorListConcatLists", empty([2]), filled(X, [2]))
    batch = node("Pack", [empty(), empty([2])])
    for value in ([1.0], [[1.0, 2.0]] * 3, [[1.0], [2.0]], 1.0):
        yield case(
            "TensorListPushBackBatch",
            batch,
            value,
            attrs=of,
            bad=True,
            steps=lambda made: [[node("Shape", made)]],
        )
    yield case(
        "TensorListPushBackBatch",
        empty(),
        [1.0],
        attrs=of,
        bad=True,
        steps=lambda made: [[node("Shape", made)]],
    )


def tensors_and_lists() -> Iterator[Case]:
    for inputs, bad in (
        ((const(3), const(-1)), True),
        ((const([-2]), const(-1)), True),
        ((const([[1]]), const(-1)), True),
        ((const([2]), const([1])), True),
        ((unknown(np.array(-1, np.int32)), const(5)), True),
    ):
        yield listed("EmptyTensorList", *inputs, bad=bad)
    for count, shape, bad in ((-1, [2], True), (0, [2], False), (5, [2], False), (5, -1, True), (2, 7, True)):
        yield listed("TensorListReserve", shape_const(shape), const(count), bad=bad)
    yield listed("TensorListReserve", const([2]), [1, 2], bad=True)
    yield listed("TensorListFromTensor", 1.0, ANY, bad=True)
    yield listed("TensorListFromTensor", unknown(1.0), ANY, bad=True)
    yield listed("TensorListFromTensor", X, const([3]), bad=True)
    yield listed("TensorListFromTensor", unknown(X), const([3]), bad=True)
    yield listed("TensorListFromTensor", X, const([-1]))
    yield listed("TensorListFromTensor", X, const(5), bad=True)
    yield listed("TensorListFromTensor", EMPTY_ROWS, const([2]))
    for op_type, more in (("TensorListScatter", ()), ("TensorListScatterV2", (const(-1),))):
        for tensor, indices, shape, bad in (
            (X, [0, 1, 2, 3], [-1], False),
            (X, [0, 0, 5, 3], [2], False),
            (X, [[0, 1], [5, 3]], [2], False),
            (EMPTY_ROWS, [], [2], False),
            (X, [0, 1], [2], True),
            (X, [0, 1, 2, 3, 4], [2], True),
            (X, [0, 1, 2, -3], [2], True),
            (X, [0, 1, 2, 3], [3], True),
            (1.0, [0], -1, True),
        ):
            yield listed(op_type, tensor, np.array(indices, np.int32), shape_const(shape), *more, bad=bad)
    for count, bad in ((4, False), (9, False), (0, True), (3, True), (-2, True)):
        yield listed("TensorListScatterV2", X, [0, 1, 2, 3], const([2]), const(count), bad=bad)
    for tensor, indices, bad in (
        (X, [0, 1, 2, 3], False),
        (X[:1], [4], False),
        (EMPTY_ROWS, [], False),
        (X, [0, 1], True),
        (np.ones((1, 3), np.float32), [0], True),
        (np.ones((1, 2), np.int32), [0], True),
    ):
        yield listed(
            "TensorListScatterIntoExistingList", filled(X), tensor, np.array(indices, np.int32), bad=bad
        )
    yield listed(
        "TensorListScatterIntoExistingList",
        filled(X),
        X[:1],
        [7],
        shape=[2],
        differs="TensorFlow leaves elements without shape between the end and an index beyond it",
    )
    for tensor, shape, lengths, bad in (
        (X, -1, [2, 2], False),
        (X, [2, 2], [2, 2], False),
        (X, [-1, -1], [2, 2], False),
        (np.zeros(0, np.float32), [-1], [0, 0], False),
        (X, -1, [1, 2], True),
        (X, -1, [1, 7], True),
        (X, -1, [-1, 5], True),
        (X, [-1, 3], [2, 2], True),
        (1.0, -1, [1], True),
        (X, -1, 4, True),
    ):
        yield listed("TensorListSplit", tensor, shape_const(shape), const(lengths, "int64"), bad=bad)


def concat() -> Iterator[Case]:
    some = replaced(reserved(2, [-1, 2]), 0, [[1.0, 2.0]])
    for made, shape, leading, bad in (
        (filled(X), -1, [], False),
        (empty(), -1, [], True),
        (empty(), [-1, 2], [], False),
        (empty([3, 2]), -1, [], False),
        (reserved(2), -1, [], True),
        (reserved(2, [3]), -1, [], False),
        (reserved(2, [-1, 2]), -1, [1, 2], False),
        (reserved(2, [-1, 2]), -1, [1], True),
        (reserved(2, [-1, 2]), -1, [], True),
        (some, -1, [7, 2], False),
        (pushed(empty(), 1.0), -1, [], True),
        (pushed(empty(), [1.0], [[1.0]]), -1, [], True),
        (pushed(empty(), [1.0]), [3], [], True),
        (pushed(empty(), [1.0]), [], [], True),
        (filled(X), [3, -1], [], True),
    ):
        yield case(
            "TensorListConcatV2",
            made,
            shape_const(shape),
            const(leading, "int64"),
            attrs=typed("float32"),
            bad=bad,
        )
    yield case("TensorListConcatV2", filled(X), ANY, const([], "int64"), attrs=typed("int32"), bad=True)
    for made, dims, bad in (
        (pushed(empty(), [1.0], [2.0, 3.0]), None, False),
        (pushed(empty(), [1.0], [2.0, 3.0]), (None,), False),
        (reserved(2, [3]), None, True),
        (empty(), None, True),
        (empty(), (None, 2), False),
        (pushed(empty(), 1.0), None, True),
    ):
        yield case("TensorListConcat", made, attrs=typed("float32") | {"element_shape": dims}, bad=bad)


CASES: list[Case] = [
    *making(),
    *reading(),
    *shapes(),
    *gradients(),
    *one_element(),
    *whole_lists(),
    *tensors_and_lists(),
    *concat(),
]
