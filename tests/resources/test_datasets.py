"""Datasets iterated without an event loop: elements, their order, and results of unavailable ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, OutOfRangeError
from aioexec.resources.datasets.batches import BatchDataset
from aioexec.resources.datasets.dataset import Dataset, Pass
from aioexec.resources.datasets.iterators import Iterator
from aioexec.resources.datasets.mapping import Function, MapDataset
from aioexec.resources.datasets.selections import RepeatDataset
from aioexec.resources.datasets.sources import SliceDataset
from aioexec.resources.datasets.work import Call, InWorker, Request


class Unused:
    """A session's tasks, of which there are none."""

    def keep(self, work: Any) -> None: ...


class Work:
    """Begins nothing: the tests give the answers."""

    def call(self, body: Any, inputs: Any) -> Call:
        return Call(body, inputs)

    def start(self, request: Request) -> None: ...


WORK: Any = Work()


def slices(*rows: Any, dtype: Any = np.int32) -> SliceDataset:
    return SliceDataset((dtypes.as_dtype(dtype),), (np.array(rows, dtype),))


def mapped(source: Dataset, name: str = "f") -> MapDataset:
    return MapDataset(source, Function(name, ()), source.dtypes, source.dims)


def answered(request: Request) -> None:
    """Let a function double what it is given; other calls are made, and every other request is just done."""
    if isinstance(request, Call):
        request.answer = tuple(2 * part for part in request.inputs)
    else:
        request.answer = request.function() if isinstance(request, InWorker) else ()


def failed(request: Any) -> None:
    request.error = InvalidArgumentError("no")


def rest(through: Pass) -> list[Any]:
    """The first components of all elements there are."""
    found = []
    while (element := through.next(WORK)) is not None:
        if isinstance(element, Request):
            answered(element)
        else:
            found.append(element[0].tolist())
    return found


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (slices(1, 2, 3), [1, 2, 3]),
        (slices([1, 2], [3, 4]), [[1, 2], [3, 4]]),
        (BatchDataset(slices(1, 2, 3), 2), [[1, 2], [3]]),
        (BatchDataset(slices(1, 2, 3), 2, drops_remainder=True), [[1, 2]]),
        (BatchDataset(BatchDataset(slices(1, 2, 3, 4), 2), 5), [[[1, 2], [3, 4]]]),
        (RepeatDataset(slices(1, 2), 2), [1, 2, 1, 2]),
        (RepeatDataset(slices(1, 2), 0), []),
        (RepeatDataset(slices(), -1), []),
        (RepeatDataset(RepeatDataset(slices(7), 2), 2), [7, 7, 7, 7]),
        (BatchDataset(RepeatDataset(slices(1, 2, 3), 2), 4), [[1, 2, 3, 1], [2, 3]]),
        (mapped(slices(1, 2)), [2, 4]),
        (BatchDataset(mapped(mapped(slices(1, 2, 3))), 2), [[4, 8], [12]]),
        (mapped(BatchDataset(slices(1, 2, 3), 2)), [[2, 4], [6]]),
    ],
)
def test_elements_come_in_their_order(dataset: Dataset, expected: list[Any]):
    assert rest(dataset.begin({})) == expected
    assert rest(dataset.begin({})) == expected, "a dataset can be gone through again"


def test_a_pass_that_has_ended_stays_so():
    through = RepeatDataset(slices(1), 1).begin({})

    assert rest(through) == [1]
    assert through.next(WORK) is None


def test_a_dataset_without_end_goes_on():
    through = RepeatDataset(slices(1, 2), -1).begin({})

    assert [through.next(WORK)[0].item() for _ in range(5)] == [1, 2, 1, 2, 1]


def test_a_request_without_an_answer_is_made_again():
    through = BatchDataset(mapped(slices(1, 2)), 2).begin({})

    first = through.next(WORK)
    assert isinstance(first, Call)
    assert through.next(WORK) is first
    answered(first)
    second = through.next(WORK)
    assert isinstance(second, Call)
    assert second is not first
    assert [part.tolist() for part in second.inputs] == [2]


def test_an_element_whose_function_fails_is_skipped():
    through = mapped(slices(1, 2)).begin({})
    failed(through.next(WORK))

    with pytest.raises(InvalidArgumentError, match="no"):
        through.next(WORK)
    assert rest(through) == [4]


def test_a_batch_one_of_whose_elements_fails_is_given_up():
    through = BatchDataset(mapped(slices(1, 2, 3)), 2).begin({})
    answered(through.next(WORK))
    failed(through.next(WORK))

    with pytest.raises(InvalidArgumentError):
        through.next(WORK)
    assert rest(through) == [[6]]


def test_a_large_batch_is_to_be_joined_elsewhere():
    through = BatchDataset(slices(np.zeros(20_000), np.ones(20_000), dtype=np.float32), 2).begin({})

    request = through.next(WORK)
    assert isinstance(request, InWorker)
    assert request.function()[0].tolist() == [[0.0] * 20_000, [1.0] * 20_000]


def test_many_small_elements_are_to_be_joined_elsewhere():
    through = BatchDataset(slices(*range(2000)), 2000).begin({})

    while not isinstance(request := through.next(WORK), InWorker):
        assert isinstance(request, Request)
        answered(request)

    assert request.function()[0].tolist() == list(range(2000))


def test_many_elements_are_gathered_in_turns():
    through = BatchDataset(slices(*range(600)), 600).begin({})

    requests = 0
    while isinstance(found := through.next(WORK), Request):
        answered(found)
        requests += 1

    assert requests == 2
    assert found[0].tolist() == list(range(600))


def test_rows_of_one_batch_have_one_shape():
    class Uneven:
        dtypes = (dtypes.int32,)
        dims = (None,)

        def begin(self, memory: Any) -> Any:
            rows = iter([(np.zeros(2, np.int32),), (np.zeros(3, np.int32),)])

            class Through:
                def next(self, work: Any) -> Any:
                    return next(rows, None)

            return Through()

    with pytest.raises(
        InvalidArgumentError, match=r"First element had shape \[2\] and element 1 had shape \[3\]"
    ):
        BatchDataset(Uneven(), 2).begin({}).next(WORK)


def test_datasets_that_make_no_sense_are_refused():
    with pytest.raises(InvalidArgumentError, match="at least 1-dimensional"):
        SliceDataset((dtypes.int32,), (np.array(1, np.int32),))
    with pytest.raises(InvalidArgumentError, match="same size in the 0th dimension"):
        SliceDataset((dtypes.int32,) * 2, (np.zeros(2, np.int32), np.zeros(3, np.int32)))
    with pytest.raises(InvalidArgumentError, match="Batch size must be greater than zero"):
        BatchDataset(slices(1), 0)


def test_an_iterator_takes_only_what_it_gives():
    iterator, background = Iterator("i", "", "", [dtypes.int32], [(2,)]), Unused()

    with pytest.raises(
        InvalidArgumentError, match=r"Incompatible shapes at component 0: expected \[2\] but got \[\]"
    ):
        iterator.begin(slices(1))
    with pytest.raises(InvalidArgumentError, match="Data type mismatch at component 0"):
        iterator.begin(slices([1, 2], dtype=np.float32))
    iterator.begin(slices([1, 2]))
    assert iterator.next_nowait(background)[0].tolist() == [1, 2]
    with pytest.raises(OutOfRangeError, match="End of sequence"):
        iterator.next_nowait(background)


def test_shapes_say_what_is_known():
    source = slices([1, 2], [3, 4])

    assert source.dims == ((2,),)
    assert BatchDataset(source, 3).dims == ((None, 2),)
    assert BatchDataset(source, 3, drops_remainder=True).dims == ((3, 2),)
    assert RepeatDataset(source, 3).dims == ((2,),)
