"""The ops that must have a table: those most used by programs of TensorFlow 1.x, and all that are registered here."""

from __future__ import annotations

import aioexec  # noqa: F401  (registers the ops)
from aioexec.graph import registry

NAMES = """
Abs AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep
AccumulatorTakeGradient Acos Add AddN AddV2 All Any ApplyAdagrad ApplyAdam ApplyFtrl
ApplyGradientDescent ApplyMomentum ApplyRMSProp ArgMax ArgMin AsString Assert Assign AssignAdd
AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp Atan AudioSummaryV2 AvgPool
AvgPoolGrad Barrier BarrierClose BarrierInsertMany BarrierReadySize BarrierTakeMany BatchDataset
BatchMatMulV2 BatchToSpaceND BiasAdd BiasAddGrad Bitcast BroadcastArgs BroadcastGradientArgs
BroadcastTo Cast Ceil CheckNumerics ClipByValue Concat ConcatOffset ConcatV2 ConditionalAccumulator
Const ControlTrigger Conv2D Conv2DBackpropFilter Conv2DBackpropInput Cos CountUpTo Cross Cumsum
DecodeCSV DecodeRaw DeleteSessionTensor DepthToSpace DepthwiseConv2dNative DestroyResourceOp
DestroyTemporaryVariable Diag DiagPart Div DivNoNan DynamicPartition DynamicStitch Elu EluGrad Empty
EncodeJpeg Enter Equal Erf Exit Exp ExpandDims Expm1 FIFOQueue FIFOQueueV2 FakeQuantWithMinMaxVars
Fill Floor FloorDiv FloorMod FusedBatchNormGradV3 FusedBatchNormV3 Gather GatherNd GatherV2
GetSessionHandleV2 GetSessionTensor Greater GreaterEqual HashTableV2 HistogramSummary Identity
IdentityN IdentityReaderV2 If ImageSummary InTopK InitializeTableV2 InvertPermutation IsFinite IsInf
IsNan IsVariableInitialized IteratorGetNext IteratorV2 L2Loss LRN LeakyRelu Less LessEqual LinSpace
ListDiff Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr LookupTableExportV2 LookupTableFindV2
LookupTableInsertV2 LookupTableSizeV2 LoopCond MakeIterator MapDataset MatMul MatchingFiles
MatrixBandPart MatrixDiag MatrixInverse MatrixSetDiag MatrixSolve Max MaxPool MaxPoolGrad Maximum Mean
Merge MergeSummary MergeV2Checkpoints Min Minimum MirrorPad Mod Mul MulNoNan Multinomial
MutableHashTableV2 Neg NextIteration NoOp NotEqual OneHot OneShotIterator OnesLike Pack Pad PadV2
PaddingFIFOQueueV2 ParallelDynamicStitch ParseExample PartitionedCall Placeholder
PlaceholderWithDefault Pow PreventGradient Print PrintV2 PriorityQueueV2 Prod PyFunc Qr QueueCloseV2
QueueDequeueManyV2 QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosedV2
QueueSizeV2 RandomShuffle RandomShuffleQueueV2 RandomStandardNormal RandomUniform RandomUniformInt
Range Rank ReadFile ReadVariableOp ReaderReadUpToV2 ReaderReadV2 RealDiv Reciprocal RefEnter RefExit
RefIdentity RefMerge RefNextIteration RefSelect RefSwitch Relu Relu6 Relu6Grad ReluGrad RepeatDataset
Reshape ResizeBilinear ResourceApplyAdagrad ResourceApplyAdam ResourceApplyGradientDescent
ResourceApplyMomentum ResourceApplyRMSProp ResourceGather ResourceScatterAdd ResourceScatterUpdate
Restore RestoreSlice RestoreV2 ReverseSequence ReverseV2 Rint Roll Round Rsqrt RsqrtGrad Save
SaveSlices SaveV2 ScalarSummary ScatterAdd ScatterNd ScatterNdUpdate ScatterSub ScatterUpdate
SegmentSum Select SelectV2 Selu Shape ShapeN ShardedFilename ShardedFilespec Sigmoid SigmoidGrad Sign
Sin Size Slice Snapshot Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign
SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits SparseTensorDenseMatMul SparseToDense
Split SplitV Sqrt SqrtGrad Square SquaredDifference Squeeze Stack StackCloseV2 StackPopV2 StackPushV2
StackV2 Stage StatefulPartitionedCall StatelessIf StatelessRandomNormal StatelessRandomUniform
StatelessWhile StaticRegexFullMatch StopGradient StridedSlice StridedSliceAssign StridedSliceGrad
StringJoin StringSplit StringToHashBucketFast StringToNumber Sub Sum Svd Switch SymbolicGradient
TFRecordReaderV2 Tan Tanh TanhGrad TemporaryVariable TensorArrayCloseV3 TensorArrayConcatV3
TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3
TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3 TensorListElementShape TensorListFromTensor
TensorListGetItem TensorListPopBack TensorListPushBack TensorListReserve TensorListSetItem
TensorListStack TensorSliceDataset TensorSummaryV2 TextLineReaderV2 Tile TopKV2 Transpose TruncateDiv
TruncatedNormal Unique UniqueV2 Unpack UnsortedSegmentSum Unstage VarHandleOp VarIsInitializedOp
Variable VariableShape VariableV2 Where While WholeFileReaderV2 WriteFile Xdivy Xlogy ZerosLike
"""

INEXPRESSIBLE = {
    "PyFunc": "its function is no part of a GraphDef",
    "PyFuncStateless": "its function is no part of a GraphDef",
}
"""Ops that cannot have cases, and why."""

_REASONS = {
    "their pipelines are compared in tests/interop/data and test_datasets_interop.py": """
BatchDataset BatchDatasetV2 CacheDataset ConcatenateDataset DatasetToSingleElement
DenseToSparseBatchDataset DirectedInterleaveDataset ExperimentalDenseToSparseBatchDataset
ExperimentalDirectedInterleaveDataset ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset
ExperimentalMapAndBatchDataset ExperimentalParallelInterleaveDataset ExperimentalRandomDataset
ExperimentalScanDataset ExperimentalTakeWhileDataset ExperimentalUnbatchDataset ExperimentalUniqueDataset
FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset GeneratorDataset
GroupByWindowDataset IgnoreErrorsDataset InterleaveDataset Iterator IteratorFromStringHandle
IteratorFromStringHandleV2 IteratorGetNext IteratorGetNextSync IteratorToStringHandle IteratorV2
LatencyStatsDataset LegacyParallelInterleaveDatasetV2 MakeIterator MapAndBatchDataset MapDataset
MaxIntraOpParallelismDataset ModelDataset OneShotIterator OptimizeDataset OptionsDataset
PaddedBatchDataset PaddedBatchDatasetV2 ParallelInterleaveDataset ParallelInterleaveDatasetV2
ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4 ParallelMapDataset ParallelMapDatasetV2
PrefetchDataset PrivateThreadPoolDataset RandomDataset RangeDataset ReduceDataset RepeatDataset
RewriteDataset ScanDataset ShardDataset ShuffleAndRepeatDataset ShuffleDataset SkipDataset
SparseTensorSliceDataset TFRecordDataset TakeDataset TakeWhileDataset TensorDataset TensorSliceDataset
TextLineDataset UnbatchDataset UniqueDataset WindowDataset ZipDataset
""",
    "they need files: tests/ops/io/test_readers.py holds what TensorFlow gave, whole_graphs a pipeline": """
FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 MatchingFiles ReadFile
ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted
ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 ReaderReset
ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2
TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2 WriteFile
""",
    "TensorFlow takes them in old graphs only": """
TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayConcat TensorArrayConcatV2 TensorArrayGather
TensorArrayGatherV2 TensorArrayGrad TensorArrayGradV2 TensorArrayPack TensorArrayRead TensorArrayReadV2
TensorArrayScatter TensorArrayScatterV2 TensorArraySize TensorArraySizeV2 TensorArraySplit
TensorArraySplitV2 TensorArrayUnpack TensorArrayV2 TensorArrayWrite TensorArrayWriteV2 Conv3DBackpropFilter
Conv3DBackpropInput RandomPoisson MutableDenseHashTable
""",
    "TensorFlow has no kernel for them on a CPU, or none any more": """
MatrixExponential ParallelConcat SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2
""",
    "it is compared as the gradient of MirrorPad": "MirrorPadGrad",
    "what it does is print": "PrintV2",
    "TensorFlow had it in contrib; tests/ops/nn compares it with results by hand": "GatherTree",
}
COMPARED_ELSEWHERE = {op_type: reason for reason, names in _REASONS.items() for op_type in names.split()}
"""Ops whose comparison is no table, and where or why."""

FEWER_CASES = {
    **dict.fromkeys(("ControlTrigger", "NoOp", "OptionalNone"), "there is nothing to vary"),
    **dict.fromkeys(
        ("AvgPool3D", "AvgPool3DGrad", "MaxPool3DGrad", "MaxPool3DGradGrad", "MaxPoolGradGradV2"),
        "TensorFlow has kernels for one dtype, and the other layouts for GPUs only",
    ),
    "MaxPoolGradGradWithArgmax": "TensorFlow has no kernel for it on a CPU",
    **dict.fromkeys(("IRFFT3D", "RFFT3D", "ParseTensor", "SparseSoftmax"), "still to be widened"),
    **dict.fromkeys(("SparseSparseMaximum", "SparseSparseMinimum", "SparseAddGrad"), "still to be widened"),
    **dict.fromkeys(
        ("SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad"), "still to be widened"
    ),
}
"""Ops with fewer than a dozen cases, and why."""


def wanted() -> set[str]:
    """The ops that must have a table; not those that only planning makes."""
    known = {row.name for row in registry.registered() if not row.name.startswith("_")}
    return (set(NAMES.split()) | known) - INEXPRESSIBLE.keys() - COMPARED_ELSEWHERE.keys()
