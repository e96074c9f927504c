"""An immutable sequence: every version keeps its elements."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from aioexec.resources.persistent_vector import EMPTY, PersistentVector, vector_of

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers()),
        st.tuples(st.just("replace"), st.floats(0, 0.999), st.integers()),
        st.tuples(st.just("resize"), st.integers(0, 2100)),
    ),
    max_size=40,
)


def items(vector: PersistentVector) -> list[Any]:
    return [vector.get(index) for index in range(vector.length)]


def changed(version: tuple[PersistentVector, list[Any]], change: Any) -> tuple[PersistentVector, list[Any]]:
    """The next version of a vector, and of a list that should be equal."""
    vector, expected = version
    match change:
        case "append", item:
            return vector.appended(item), [*expected, item]
        case "replace", place, item if expected:
            index = int(place * len(expected))
            return vector.replaced(index, item), [*expected[:index], item, *expected[index + 1 :]]
        case "resize", length:
            return vector.resized(length), [*expected[:length], *[None] * (length - len(expected))]
    return version


@given(st.integers(0, 1100), CHANGES)
def test_every_version_keeps_its_items(count, changes):
    versions = [(vector_of(range(count)), list(range(count)))]
    for change in changes:
        versions.append(changed(versions[-1], change))

    for vector, expected in versions:
        assert items(vector) == expected
        present = [(index, item) for index, item in enumerate(expected) if item is not None]
        assert list(vector.present()) == present


def test_two_heirs_of_one_sequence_do_not_see_each_other():
    base = vector_of(range(31))

    one, other = base.appended("one"), base.appended("other")

    assert (one.get(31), other.get(31)) == ("one", "other")
    assert base.length == 31


def test_a_hundred_million_missing_items_take_no_room():
    vast = EMPTY.resized(100_000_000).replaced(99_999_999, "last")

    assert list(vast.present()) == [(99_999_999, "last")]
    assert vast.get(50_000_000) is None


def test_what_was_cut_off_does_not_come_back():
    assert items(vector_of(range(100)).resized(40).resized(42)) == [*range(40), None, None]
