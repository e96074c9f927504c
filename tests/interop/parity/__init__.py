"""Op by op against the real TensorFlow: each case is one node, imported from the same bytes and run by both engines.

A family of ops has a table, `tables/<family>.py`, with a list `CASES`. To write one:

    from tests.interop.parity.sweeps import FLOATS, all_dtypes, binary, reduction, sample, unary
    from tests.interop.parity.table import Case, case, const, function, node, partly, resource, unknown, variable

    CASES: list[Case] = [
        *unary("Sinh"),                                   # dtypes, shapes, special values, a bad dtype: about 25 cases
        *binary("Xdivy", low=0.5),                        # with broadcasting, about 30
        *reduction("EuclideanNorm"),
        *(case("Diag", sample(name, (2, 3))) for name in all_dtypes("Diag")),
        case("Gather", sample("float32", (4, 3)), [1, 0]),
        case("Gather", sample("float32", (4, 3)), [1, 4], bad=True),   # both must raise errors of one class
        case("Fill", const([2, 3]), 1.5),                 # the shape rule sees a constant's value
        case("Fill", unknown([2, 3]), 1.5),               # and here not even its shape
        case("ConcatV2", [x, y], 0),                      # a list where the op takes one; N and T follow
        case("ApplyGradientDescent", variable([1.0, 2.0]), 0.1, [1.0, 1.0]),   # its content afterwards is compared too
        case("TensorListLength", node("TensorListReserve", [2], 3, attrs={"element_dtype": "float32"})),
        case("PartitionedCall", [[1.0, 2.0]], attrs={
            "f": function("doubled", ["float32"], lambda tf, x: x * 2), "Tout": ["float32"],
        }),
        case("FIFOQueueV2", attrs={"component_types": ["int32"]}, steps=lambda queue: [
            [node("QueueEnqueueV2", queue, [1])],
            [node("QueueSizeV2", queue)],
        ]),
    ]

Every op gets at least 12 cases: the dtypes it allows, shapes (an empty one among them), its attributes, a bad input. Values,
dtypes, static shapes, classes of errors and gradients by each floating input are compared without being asked for. See
`table.case` for the options and `sweeps` for what makes cases by the dozen. What TensorFlow has no kernel for is not
counted. Run a table with

    python -m tests.interop.parity --family elementwise [--op Xdivy] [--jit eager]

and everything, writing REPORT.md, with `--report`. `test_parity.py` asserts the counts.
"""
