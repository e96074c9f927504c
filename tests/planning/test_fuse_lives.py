"""The reuse of memory by heirs after rows have moved."""

from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch, Operand
from aioexec.planning.fusion.lifetimes import Move, update_live_ranges
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import PendingRow

KERNEL = ElementwiseKernel("y = x", (("x", "float32"),), (("y", "float32"),), "vv")


def copy(source: Buffer, target: Buffer, position: int) -> PendingRow:
    launch = Launch(KERNEL, (Operand("input", 0), Operand("output", 0)), (), (), 100)
    return PendingRow(launch, ((source, 0), (target, 0)), position)


def test_an_heir_that_a_moved_reader_has_dropped_may_be_written_by_another_row_that_moves():
    parent, heir, other = Buffer(64, born=0, dies=2), Buffer(64, born=2, dies=5), Buffer(64, born=1, dies=5)
    parent.heirs.append(heir)
    reader, writer = copy(parent, other, 1), copy(other, heir, 2)

    update_live_ranges([parent, heir, other], [reader, writer], [Move(reader, 2), Move(writer, 3)])

    assert parent.heirs == []
    assert parent.dies == 2
    assert heir.born == 2
