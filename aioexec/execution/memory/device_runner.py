"""Runs one item on a device with memory of its own: gives it the work of the nodes, in order, and waits for none of it.

Where the device has programs, one of them does the work of each piece of the item, once it exists.
"""

from __future__ import annotations

import traceback

from aioexec.errors import OpError
from aioexec.execution.engine import JitMode
from aioexec.execution.memory.device_work import DeviceWork
from aioexec.execution.memory.item_programs import ItemPrograms
from aioexec.execution.memory.pieces import Piece, cut_pieces
from aioexec.execution.programs.structures import inputs_of, store
from aioexec.execution.propagator import Values
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.plan import Item


class DeviceRunner:
    """Runs one item for all steps of a session.

    Its variables need no leases: the kernels read and replace their contents now, in one call on the event loop, and the device
    keeps the order.

    Constant: `_pieces`, with the programs of each.
    """

    def __init__(self, item: Item, jit: JitMode) -> None:
        self.item = item
        self._pieces = [(piece, ItemPrograms(piece, jit)) for piece in cut_pieces(item)]

    def begin(self, values: Values, work: DeviceWork) -> None:
        """Give the device the work of the item's nodes.

        Args:
            values: those of the step: holds the inputs, and receives the outputs.

        Raises:
            OpError: of the node whose kernel raised, or of the first node of a program.
        """
        for piece, programs in self._pieces:
            program = programs.find(values, work)
            if program is None or not program.begin(values, work):
                self._run_nodes(piece, values, work)
                continue
            for dropped in piece.dropped:
                for value in dropped:
                    values[value] = None

    def _run_nodes(self, piece: Piece, values: Values, work: DeviceWork) -> None:
        for instruction, dropped in zip(piece.item.instructions, piece.dropped, strict=True):
            try:
                self._run(instruction, values, work)
            except Exception as error:
                # The error may be kept, and must not keep buffers: frames, or closures of theirs, refer to them.
                if isinstance(error, OpError):
                    error.__traceback__ = None
                else:
                    traceback.clear_frames(error.__traceback__)
                raise locate(error, instruction, self.item.device) from error
            for value in dropped:
                values[value] = None

    def _run(self, instruction: Instruction, values: Values, work: DeviceWork) -> None:
        inputs, role = inputs_of(instruction, values), instruction.node.row.role
        launcher = work.launcher(instruction.node)
        if role is Role.COPY_TO_DEVICE:
            result = launcher.copy_in(inputs[0])
        elif role is Role.VARIABLE:
            result = instruction.compute()
        elif role is Role.LOOP_COND:
            result = inputs[0]
        else:
            result = instruction.compute(launcher, *inputs)
            if instruction.node.row.writes:
                launcher.wait_for_inputs(inputs)
        store(values, instruction, result)
        launcher.finish([values[value] for value in instruction.outputs])
