"""The hash function that all processes share."""

from aioexec.formats.murmur import combined, murmur64


def test_the_id_of_an_outermost_loop_is_the_one_tensorflow_puts_on_the_wire():
    assert combined(0, combined(0, murmur64(b"myloop"))) == 16276825952878220107


def test_the_order_of_what_is_combined_counts():
    assert combined(1, 2) != combined(2, 1)
