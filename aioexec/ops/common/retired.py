"""Ops that TensorFlow has deprecated for new GraphDefs: the GraphDef version, and the replacement."""

from __future__ import annotations

from aioexec.graph.registry import retire

for name, version, instead in (
    ("Conv3DBackpropFilter", 10, "Use Conv3DBackpropFilterV2"),
    ("Conv3DBackpropInput", 10, "Use Conv3DBackpropInputV2"),
    ("MatrixExponential", 27, "Use Python implementation tf.linalg.matrix_exponential instead."),
    ("RandomPoisson", 25, "Replaced by RandomPoissonV2"),
    ("TensorArrayConcat", 16, "Use TensorArrayGradV3"),
    ("TensorArrayPack", 16, "Use TensorArrayGatherV3 with RangeOp"),
    ("TensorArrayScatter", 19, "Use TensorArrayGradV3"),
    ("TensorArrayUnpack", 20, "Use TensorArrayScatterV3 with RangeOp"),
    *(
        (f"TensorArray{verb}", 16, f"Use TensorArray{verb}V3")
        for verb in ("", "Close", "Gather", "Grad", "Read", "Size", "Split", "Write")
    ),
    *(
        (f"TensorArray{verb}V2", 26, f"Use TensorArray{verb}V3")
        for verb in ("", "Close", "Gather", "Grad", "Read", "Scatter", "Size", "Split", "Write")
    ),
):
    retire(name, version, instead)
