"""The arena: no two buffers live at once share memory, unless one inherits the other's; and little of it is wasted."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from aioexec.planning.layout.buffers import ALIGNMENT, Buffer, lay_out


def test_an_empty_arena_has_no_size():
    assert lay_out([]) == 0
    assert lay_out([Buffer(100, slot=3)]) == 0


def test_buffers_that_live_one_after_another_share_memory():
    buffers = [Buffer(100, born=k, dies=k) for k in range(10)]

    assert lay_out(buffers) == 128


def test_buffers_that_live_at_once_do_not():
    buffers = [Buffer(100, born=0, dies=5) for _ in range(10)]

    assert lay_out(buffers) == 1280
    assert len({buffer.offset for buffer in buffers}) == 10


def test_a_chain_needs_two_buffers_or_one_if_heirs_take_over():
    def chain(inherit: bool) -> list[Buffer]:
        buffers = [Buffer(64, born=k, dies=k + 1) for k in range(100)]
        for parent, heir in itertools.pairwise(buffers):
            if inherit:
                parent.heirs.append(heir)
        return buffers

    assert lay_out(chain(inherit=False)) == 128
    assert lay_out(chain(inherit=True)) == 64


def test_an_heir_does_not_take_over_what_lives_on():
    parent = Buffer(64, born=0, dies=5)
    heir = Buffer(64, born=2, dies=3)
    parent.heirs.append(heir)

    lay_out([parent, heir])

    assert heir.offset != parent.offset


def test_an_heir_does_not_take_over_what_is_needed_behind_the_row_that_makes_it():
    parent, heir = Buffer(64, born=0, dies=1), Buffer(64, born=5, dies=6)
    parent.heirs.append(heir)
    parent.keep_past(5)

    lay_out([parent, heir])

    assert parent.dies == 5
    assert heir.offset != parent.offset


def test_an_heir_takes_over_what_was_needed_behind_an_earlier_row():
    parent, heir = Buffer(64, born=0, dies=6), Buffer(64, born=6, dies=7)
    parent.heirs.append(heir)
    parent.keep_past(5)

    lay_out([parent, heir])

    assert heir.offset == parent.offset


def test_of_two_heirs_the_one_that_is_born_when_the_parent_dies_takes_over():
    parent, early, late = Buffer(64, born=0, dies=3), Buffer(64, born=1, dies=9), Buffer(64, born=3, dies=9)
    parent.heirs += [early, late]

    lay_out([parent, early, late])

    assert late.offset == parent.offset
    assert early.offset != parent.offset


def test_an_heir_of_another_size_or_of_a_bound_buffer_gets_memory_of_its_own():
    small, large = Buffer(64, born=0, dies=1), Buffer(640, born=1, dies=2)
    small.heirs.append(large)
    bound, heir = Buffer(640, slot=0), Buffer(640, born=1, dies=2)
    bound.heirs.append(heir)

    lay_out([small, large, bound, heir])

    assert not overlap(small, large)
    assert not overlap(large, heir)


def test_free_memory_at_the_end_is_extended():
    first, second = Buffer(64, born=0, dies=0), Buffer(128, born=1, dies=1)

    assert lay_out([first, second]) == 128


def overlap(a: Buffer, b: Buffer) -> bool:
    return a.offset < b.offset + max(b.nbytes, 1) and b.offset < a.offset + max(a.nbytes, 1)


Lives = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 30), st.integers(0, 12)), max_size=40)


Places = st.integers(0, 39)


@given(lives=Lives, heirs=st.lists(st.tuples(Places, Places), max_size=40), bound=st.sets(Places))
def test_no_two_live_buffers_overlap(
    lives: list[tuple[int, int, int]], heirs: list[tuple[int, int]], bound: set[int]
):
    buffers = [Buffer(nbytes, born=born, dies=born + length) for nbytes, born, length in lives]
    for k in bound & set(range(len(buffers))):
        buffers[k].slot = 0
    claimed: dict[int, Buffer] = {}
    for p, h in heirs:
        if p < len(buffers) and h < len(buffers) and buffers[p].born < buffers[h].born and h not in claimed:
            buffers[p].heirs.append(
                buffers[h]
            )  # a buffer is the heir of one other: the input it may take over
            claimed[h] = buffers[p]

    size = lay_out(buffers)

    arena = [(k, buffer) for k, buffer in enumerate(buffers) if buffer.slot is None]
    for place, (k, a) in enumerate(arena):
        assert a.offset % ALIGNMENT == 0
        assert a.offset + a.nbytes <= size
        for j, b in arena[place + 1 :]:
            live_at_once = a.born <= b.dies and b.born <= a.dies
            takes_over = (claimed.get(j) is a and a.dies == b.born) or (
                claimed.get(k) is b and b.dies == a.born
            )
            assert not (live_at_once and overlap(a, b)) or takes_over, (a, b)
    assert size <= sum(-(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT for _, buffer in arena)
