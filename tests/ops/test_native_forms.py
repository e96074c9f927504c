"""The helper that runs native forms alone."""

from __future__ import annotations

import numpy as np

from aioexec.graph.kernels.kernel import Spec
from tests.ops.native import alias


def test_an_output_may_be_a_part_of_an_array_of_strings():
    strings = np.array([[b"a", b"b"], [b"c", b"d"]], object)

    part = alias(strings, 2 * strings.itemsize, Spec(strings.dtype, (1, 2)))

    assert part.tolist() == [[b"c", b"d"]]
