"""Which module registers which op: it is imported when the op is first asked for.

Written by `python -m tests.import_tables`, which a test repeats: change what it is made from, and run it.
"""

from typing import Final

_OPS: Final = {
    "aioexec.ops.array.arrays": "BroadcastTo ConjugateTranspose ExpandDims Reshape Squeeze Tile Transpose",
    "aioexec.ops.array.bitcast": "Bitcast",
    "aioexec.ops.array.filling": "Const Fill LinSpace OneHot OnesLike Range ZerosLike",
    "aioexec.ops.array.gathering": "Gather GatherNd GatherV2 ScatterNd",
    "aioexec.ops.array.identity": (
        "Identity IdentityN Placeholder PlaceholderWithDefault PreventGradient Snapshot StopGradient"
    ),
    "aioexec.ops.array.inplace": "DeepCopy Empty InplaceAdd InplaceSub InplaceUpdate ParallelConcat",
    "aioexec.ops.array.joining": "Concat ConcatV2 Pack Split SplitV Unpack",
    "aioexec.ops.array.ordering": "Reverse ReverseSequence Roll",
    "aioexec.ops.array.padding": "MirrorPad MirrorPadGrad Pad PadV2",
    "aioexec.ops.array.partitioning": "DynamicPartition DynamicStitch ParallelDynamicStitch Where",
    "aioexec.ops.array.reverse": "ReverseV2",
    "aioexec.ops.array.searching": "LowerBound NthElement UnravelIndex UpperBound",
    "aioexec.ops.array.set_difference": "ListDiff",
    "aioexec.ops.array.shapes_of": (
        "BroadcastArgs BroadcastGradientArgs ConcatOffset InvertPermutation Rank Shape ShapeN Size"
    ),
    "aioexec.ops.array.slicing": "Slice StridedSlice StridedSliceGrad",
    "aioexec.ops.array.space_and_batch": (
        "BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth"
    ),
    "aioexec.ops.array.unique": "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2",
    "aioexec.ops.containers.accumulators": (
        "AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep AccumulatorTakeGradient "
        "ConditionalAccumulator ResourceAccumulatorApplyGradient ResourceAccumulatorNumAccumulated "
        "ResourceAccumulatorSetGlobalStep ResourceAccumulatorTakeGradient ResourceConditionalAccumulator "
        "SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator"
    ),
    "aioexec.ops.containers.barrier": (
        "Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize BarrierTakeMany"
    ),
    "aioexec.ops.containers.optional": "OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone",
    "aioexec.ops.containers.queue_verbs": (
        "QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo "
        "QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2 "
        "QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2"
    ),
    "aioexec.ops.containers.queues": (
        "FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 "
        "RandomShuffleQueue RandomShuffleQueueV2"
    ),
    "aioexec.ops.containers.stacks": (
        "Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush StackPushV2 StackV2"
    ),
    "aioexec.ops.containers.staging": (
        "MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey OrderedMapClear "
        "OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage OrderedMapUnstage "
        "OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage"
    ),
    "aioexec.ops.containers.tensor_array": (
        "TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat "
        "TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3 "
        "TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape TensorArrayPack "
        "TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatter TensorArrayScatterV2 "
        "TensorArrayScatterV3 TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit "
        "TensorArraySplitV2 TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3 "
        "TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3"
    ),
    "aioexec.ops.containers.tensor_list": (
        "EmptyTensorList TensorListElementShape TensorListGetItem TensorListLength TensorListPopBack "
        "TensorListPushBack TensorListReserve TensorListResize TensorListSetItem"
    ),
    "aioexec.ops.containers.tensor_list_joins": (
        "TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListFromTensor TensorListGather "
        "TensorListPushBackBatch TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 "
        "TensorListSplit TensorListStack"
    ),
    "aioexec.ops.control_flow.dependencies": "NoOp",
    "aioexec.ops.control_flow.numerics": "CheckNumerics",
    "aioexec.ops.control_flow.primitives": (
        "ControlTrigger Enter Exit LoopCond Merge NextIteration RefEnter RefExit RefIdentity RefMerge "
        "RefNextIteration RefSelect RefSwitch Switch"
    ),
    "aioexec.ops.control_flow.printing": "Assert Print",
    "aioexec.ops.control_flow.structured_nodes": "_Conditional _Loop",
    "aioexec.ops.control_flow.transfer": "_HostRecv _HostSend _Recv _Send",
    "aioexec.ops.convolution.conv": "Conv2D Conv2DBackpropFilter Conv2DBackpropInput",
    "aioexec.ops.convolution.conv3d": (
        "Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2"
    ),
    "aioexec.ops.convolution.depthwise": (
        "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput"
    ),
    "aioexec.ops.functions.call_ops": "PartitionedCall StatefulPartitionedCall SymbolicGradient _Arg _Retval",
    "aioexec.ops.functions.control_flow": "Case If StatelessCase StatelessIf StatelessWhile ToBool While",
    "aioexec.ops.functions.python": "PyFunc PyFuncStateless",
    "aioexec.ops.image.boxes": (
        "DrawBoundingBoxes DrawBoundingBoxesV2 NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 "
        "NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps"
    ),
    "aioexec.ops.image.codecs": (
        "DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng EncodeJpeg EncodeJpegVariableQuality EncodePng "
        "ExtractJpegShape"
    ),
    "aioexec.ops.image.colors": "AdjustContrastv2 AdjustHue AdjustSaturation HSVToRGB RGBToHSV",
    "aioexec.ops.image.crops": "CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage",
    "aioexec.ops.image.resize": (
        "ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor "
        "ResizeNearestNeighborGrad"
    ),
    "aioexec.ops.io.checkpoint_remapping": "GenerateVocabRemapping LoadAndRemapMatrix",
    "aioexec.ops.io.checkpoints": (
        "MergeV2Checkpoints Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 ShardedFilename "
        "ShardedFilespec"
    ),
    "aioexec.ops.io.datasets": (
        "BatchDataset BatchDatasetV2 Iterator IteratorFromStringHandle IteratorFromStringHandleV2 "
        "IteratorGetNext IteratorGetNextSync IteratorToStringHandle IteratorV2 MakeIterator MapDataset "
        "OneShotIterator RepeatDataset TensorSliceDataset"
    ),
    "aioexec.ops.io.decoding": "DecodeCSV DecodePaddedRaw DecodeRaw",
    "aioexec.ops.io.examples": "ParseExample ParseExampleV2 ParseSingleExample",
    "aioexec.ops.io.files": "MatchingFiles ReadFile WriteFile",
    "aioexec.ops.io.readers": (
        "FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 "
        "ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted "
        "ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2 ReaderReset "
        "ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState ReaderSerializeStateV2 "
        "TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2"
    ),
    "aioexec.ops.io.summaries": (
        "AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary TensorSummary "
        "TensorSummaryV2"
    ),
    "aioexec.ops.io.tensor_protos": "ParseTensor SerializeTensor",
    "aioexec.ops.linalg.decompositions": "Cholesky CholeskyGrad Lu Qr SelfAdjointEigV2 Svd",
    "aioexec.ops.linalg.einsum": "Einsum",
    "aioexec.ops.linalg.linear_equations": (
        "LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve MatrixSolveLs MatrixTriangularSolve"
    ),
    "aioexec.ops.linalg.matrix_diagonals": (
        "Diag DiagPart MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 "
        "MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3"
    ),
    "aioexec.ops.linalg.matrix_functions": "MatrixExponential MatrixLogarithm MatrixSquareRoot",
    "aioexec.ops.linalg.products": "BatchMatMul BatchMatMulV2 BatchMatMulV3 Cross MatMul",
    "aioexec.ops.lookup.tables": (
        "HashTable HashTableV2 InitializeTable InitializeTableFromTextFile InitializeTableFromTextFileV2 "
        "InitializeTableV2 LookupTableExport LookupTableExportV2 LookupTableFind LookupTableFindV2 "
        "LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 "
        "LookupTableSize LookupTableSizeV2 MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable "
        "MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableHashTableV2"
    ),
    "aioexec.ops.math.arithmetic": (
        "AccumulateNV2 Add AddN AddV2 Div FloorDiv FloorMod Mod Mul Pow RealDiv SquaredDifference Sub "
        "TruncateDiv TruncateMod"
    ),
    "aioexec.ops.math.binary_functions": "Atan2 DivNoNan MulNoNan NextAfter Xdivy Xlog1py Xlogy",
    "aioexec.ops.math.bitwise": "BitwiseAnd BitwiseOr BitwiseXor Invert LeftShift PopulationCount RightShift",
    "aioexec.ops.math.cast": "Cast",
    "aioexec.ops.math.comparison": (
        "ApproximateEqual Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd "
        "LogicalNot LogicalOr NotEqual Select SelectV2"
    ),
    "aioexec.ops.math.complex_numbers": "Angle Complex ComplexAbs Conj Imag Real",
    "aioexec.ops.math.extremes": "ClipByValue Maximum Minimum",
    "aioexec.ops.math.fourier": "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D",
    "aioexec.ops.math.histograms": "Bincount Bucketize DenseBincount HistogramFixedWidth",
    "aioexec.ops.math.math_functions": (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Erfc Exp Expm1 Floor Inv InvGrad Log Log1p "
        "Neg Reciprocal ReciprocalGrad Rint Round Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin Sinh Sqrt "
        "SqrtGrad Square Tan Tanh TanhGrad"
    ),
    "aioexec.ops.math.special_functions": (
        "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e "
        "BesselY0 BesselY1 Betainc Dawsn Digamma Erfinv Expint FresnelCos FresnelSin Igamma IgammaGradA "
        "Igammac Lgamma Ndtri Polygamma RandomGammaGrad Spence Zeta"
    ),
    "aioexec.ops.nn.activations": (
        "Elu EluGrad LeakyRelu LeakyReluGrad Relu Relu6 Relu6Grad ReluGrad Selu SeluGrad Softplus "
        "SoftplusGrad Softsign SoftsignGrad"
    ),
    "aioexec.ops.nn.cross_entropy": "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    "aioexec.ops.nn.fake_quantization": (
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient"
    ),
    "aioexec.ops.nn.nn_ops": "BiasAdd BiasAddGrad InTopK InTopKV2 L2Loss TopKV2",
    "aioexec.ops.nn.softmax": "LogSoftmax Softmax",
    "aioexec.ops.normalization.batch_norm": (
        "FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 "
        "FusedBatchNormV3"
    ),
    "aioexec.ops.normalization.local_response": "LRN LRNGrad",
    "aioexec.ops.pooling.patches": (
        "Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput ExtractImagePatches"
    ),
    "aioexec.ops.pooling.pool2d": "AvgPool AvgPoolGrad MaxPool MaxPoolGrad MaxPoolGradGrad",
    "aioexec.ops.pooling.pool3d": "AvgPool3D AvgPool3DGrad MaxPool3D MaxPool3DGrad MaxPool3DGradGrad",
    "aioexec.ops.pooling.selection": (
        "MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2 "
        "MaxPoolWithArgmax"
    ),
    "aioexec.ops.random.candidate_samplers": (
        "AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler "
        "LearnedUnigramCandidateSampler LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler "
        "UniformCandidateSampler"
    ),
    "aioexec.ops.random.distributions": (
        "ParameterizedTruncatedNormal RandomGamma RandomPoisson RandomPoissonV2"
    ),
    "aioexec.ops.random.generators": (
        "RngReadAndSkip RngSkip StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform "
        "StatefulUniformFullInt StatefulUniformInt"
    ),
    "aioexec.ops.random.random_ops": (
        "Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal"
    ),
    "aioexec.ops.random.stateless": (
        "StatelessMultinomial StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomGetAlg "
        "StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomNormal "
        "StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt "
        "StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2 "
        "StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2"
    ),
    "aioexec.ops.reduction.arg_reduction": "ArgMax ArgMin",
    "aioexec.ops.reduction.cumulative": "Cumprod Cumsum CumulativeLogsumexp",
    "aioexec.ops.reduction.reductions": "All Any EuclideanNorm Max Mean Min Prod Sum",
    "aioexec.ops.reduction.segments": (
        "SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum "
        "SegmentSumV2 UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum"
    ),
    "aioexec.ops.sparse.arithmetic": (
        "SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseReduceMax "
        "SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseSparseMaximum SparseSparseMinimum "
        "SparseTensorDenseAdd SparseTensorDenseMatMul"
    ),
    "aioexec.ops.sparse.protos": (
        "DeserializeManySparse DeserializeSparse SerializeManySparse SerializeSparse"
    ),
    "aioexec.ops.sparse.rows": "SparseFillEmptyRows SparseFillEmptyRowsGrad SparseSoftmax",
    "aioexec.ops.sparse.segments": (
        "SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtN "
        "SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad "
        "SparseSegmentSumWithNumSegments"
    ),
    "aioexec.ops.sparse.tensors": (
        "SparseConcat SparseReorder SparseReshape SparseSlice SparseSliceGrad SparseSplit SparseToDense"
    ),
    "aioexec.ops.sparse.tensors_maps": (
        "AddManySparseToTensorsMap AddSparseToTensorsMap TakeManySparseFromTensorsMap"
    ),
    "aioexec.ops.state.counting": "CountUpTo ResourceCountUpTo",
    "aioexec.ops.state.scatter_nd_updates": (
        "ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub "
        "ResourceScatterNdUpdate ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdNonAliasingAdd ScatterNdSub "
        "ScatterNdUpdate TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub "
        "TensorScatterUpdate"
    ),
    "aioexec.ops.state.scatter_updates": (
        "ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul "
        "ResourceScatterSub ResourceScatterUpdate ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul "
        "ScatterSub ScatterUpdate"
    ),
    "aioexec.ops.state.session_handles": (
        "DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor"
    ),
    "aioexec.ops.state.strided_updates": (
        "ResourceStridedSliceAssign StridedSliceAssign TensorStridedSliceUpdate"
    ),
    "aioexec.ops.state.temporary_variable": "DestroyTemporaryVariable TemporaryVariable",
    "aioexec.ops.state.variable_gather": "ResourceGather ResourceGatherNd",
    "aioexec.ops.state.variable_ops": (
        "Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp "
        "DestroyResourceOp IsVariableInitialized ReadVariableOp VarHandleOp VarIsInitializedOp Variable "
        "VariableShape VariableV2"
    ),
    "aioexec.ops.strings.edit_distance": "EditDistance",
    "aioexec.ops.strings.formats": "PrintV2 StringFormat",
    "aioexec.ops.strings.numbers": (
        "AsString StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber"
    ),
    "aioexec.ops.strings.regular_expressions": (
        "RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace"
    ),
    "aioexec.ops.strings.string_ops": (
        "DecodeBase64 EncodeBase64 ReduceJoin StringJoin StringLength StringLower StringSplit StringSplitV2 "
        "StringStrip StringUpper Substr UnsortedSegmentJoin"
    ),
    "aioexec.ops.training.optimizer_updates": (
        "ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign "
        "ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign "
        "ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp ResourceApplyAdaMax "
        "ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2 "
        "ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp "
        "ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum "
        "ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad "
        "ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceSparseApplyAdadelta "
        "ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA ResourceSparseApplyAdagradV2 "
        "ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 "
        "ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad "
        "ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp SparseApplyAdadelta "
        "SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyCenteredRMSProp "
        "SparseApplyFtrl SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad "
        "SparseApplyProximalGradientDescent SparseApplyRMSProp"
    ),
}

OP_MODULES: Final = {op: module for module, ops in _OPS.items() for op in ops.split()}
"""The module by op."""
