"""Windows over images: where each begins, for convolutions and pooling. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.programs.program import Program, full
from aioexec.graph.kernels.kernel import Attrs, Operand
from aioexec.graph.kernels.launches import View

Shape = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of two dimensions, as the attributes and shapes of an op give them.

    Attributes:
        axes: of image, rows, columns and channels, in the shapes.
        size: rows and columns of a window.
        step, dilation: for rows and columns.
        before: rows and columns of padding before the image.
    """

    axes: tuple[int, int, int, int]
    size: Pair
    step: Pair
    dilation: Pair
    before: Pair

    @property
    def reach(self) -> Pair:
        """Rows and columns between the first and the last element of a window."""
        return (self.size[0] - 1) * self.dilation[0], (self.size[1] - 1) * self.dilation[1]

    def of(self, values: Sequence[int]) -> tuple[int, int, int, int]:
        """What a shape or strides have for image, rows, columns and channels."""
        image, rows, columns, channels = (values[axis] for axis in self.axes)
        return image, rows, columns, channels


def windows(attrs: Attrs, size: Pair, image: Shape, outputs: Shape) -> Windows:
    """The windows of this size over an image, one for each element of the outputs."""
    axes = (0, 2, 3, 1) if attrs["data_format"].startswith("NC") else (0, 1, 2, 3)
    rows, columns = axes[1], axes[2]
    strides, dilations = attrs["strides"], attrs.get("dilations", (1, 1, 1, 1))
    step, dilation = (strides[rows], strides[columns]), (dilations[rows], dilations[columns])
    before = [0, 0]
    for place, axis in enumerate((rows, columns)):
        if attrs["padding"] == "SAME":
            needed = (outputs[axis] - 1) * step[place] + (size[place] - 1) * dilation[place] + 1
            before[place] = max(needed - image[axis], 0) // 2
        elif attrs["padding"] == "EXPLICIT":
            before[place] = attrs["explicit_paddings"][2 * axis]
    return Windows(axes, size, step, dilation, (before[0], before[1]))


def padded(
    program: Program, source: Operand, dtype: str, shape: Shape, at: Windows, outputs: Shape, value: str = "0"
) -> View:
    """The image, in new memory with padding around it if windows reach beyond it."""
    wanted = list(shape)
    is_inside = True
    for place, axis in enumerate(at.axes[1:3]):
        last = (outputs[axis] - 1) * at.step[place] + at.reach[place]
        end = max(last + 1, at.before[place] + shape[axis])
        is_inside &= at.before[place] == 0 and last < shape[axis]
        wanted[axis] = end
    if is_inside:
        return full(source, dtype, shape)
    target = program.space(dtype, tuple(wanted))
    program.elementwise(f"y = {value}", [], [("y", target)], tuple(wanted))
    offset = sum(pad * target.strides[axis] for pad, axis in zip(at.before, at.axes[1:3], strict=True))
    inner = View(Operand("scratch", target.operand.index, offset), dtype, target.strides)
    program.elementwise("y = x", [("x", full(source, dtype, shape))], [("y", inner)], shape)
    return target


def step_strides(at: Windows, view: View) -> tuple[int, int, int, int]:
    """Strides from window to window in rows and columns, and inside a window in rows and columns."""
    _, rows, columns, _ = at.of(view.strides)
    return rows * at.step[0], columns * at.step[1], rows * at.dilation[0], columns * at.dilation[1]


def spread_out(
    program: Program, given: View, shape: Shape, at: Windows, image: Shape, value: str = "0"
) -> View:
    """Values of windows at the distances that the windows have in the image, `value` elsewhere.

    The window at an element of the image covers the values of those windows that the element is in, the last one first. Those
    of windows in the padding alone are left out.
    """
    wanted, taken = list(shape), list(shape)
    places = []
    skipped = 0  # bytes of values that are left out
    for place, axis in enumerate(at.axes[1:3]):
        step, begin = at.step[place], at.reach[place] - at.before[place]
        first = max(-(begin // step), 0)
        begin += first * step
        taken[axis] = max(shape[axis] - first, 0)
        skipped += first * given.strides[axis]
        wanted[axis] = max(image[axis] + at.reach[place], begin + (taken[axis] - 1) * step + 1)
        places.append((axis, begin, step))
    if tuple(wanted) == shape:
        return given
    target = program.space(given.dtype, tuple(wanted))
    program.elementwise(f"y = {value}", [], [("y", target)], tuple(wanted))
    offset = sum(begin * target.strides[axis] for axis, begin, _ in places)
    strides = list(target.strides)
    for axis, _, step in places:
        strides[axis] *= step
    inner = View(Operand("scratch", target.operand.index, offset), given.dtype, tuple(strides))
    begin_at = Operand(given.operand.kind, given.operand.index, given.operand.offset + skipped)
    source = View(begin_at, given.dtype, given.strides)
    program.elementwise("y = x", [("x", source)], [("y", inner)], tuple(taken))
    return target
