"""Where public names come from: for each module, names by the module that has them.

`name=attribute` where they differ; `name=` is the module itself.

Written by `python -m tests.import_tables`, which a test repeats: change what it is made from, and run it.
"""

from typing import Final

PUBLIC: Final[dict[str, dict[str, str]]] = {
    "aioexec": {
        "aioexec.bitwise": "bitwise=",
        "aioexec.distribute": "distribute=",
        "aioexec.dtypes": (
            "DType as_dtype bfloat16 bool complex128 complex64 double dtypes= float16 float32 float64 half "
            "int16 int32 int64 int8 qint16 qint32 qint8 quint16 quint8 resource string uint16 uint32 uint64 "
            "uint8 variant"
        ),
        "aioexec.errors": "OpError errors=",
        "aioexec.formats.protos": (
            "AttrValue CallableOptions ConfigProto Event GPUOptions GraphDef GraphOptions HistogramProto "
            "LogMessage MetaGraphDef NameAttrList NodeDef OptimizerOptions RPCOptions RunMetadata RunOptions "
            "SessionLog Summary SummaryMetadata TensorProto"
        ),
        "aioexec.gradients.aggregation": "AggregationMethod UnconnectedGradients",
        "aioexec.gradients.backprop": "gradients",
        "aioexec.gradients.hessian": "hessians",
        "aioexec.gradients.registration": (
            "NoGradient NotDifferentiable RegisterGradient custom_gradient no_gradient"
        ),
        "aioexec.graph.convert": (
            "constant convert_to_tensor convert_to_tensor_or_indexed_slices "
            "register_tensor_conversion_function"
        ),
        "aioexec.graph.defaults": "get_default_session",
        "aioexec.graph.device_spec": "DeviceSpec",
        "aioexec.graph.graph": "Graph get_default_graph reset_default_graph",
        "aioexec.graph.indexed_slices": "IndexedSlices IndexedSlicesValue",
        "aioexec.graph.io.graphdef_import": "import_graph_def",
        "aioexec.graph.keys": "GraphKeys",
        "aioexec.graph.node": "Operation Tensor",
        "aioexec.graph.scopes": (
            "add_to_collection add_to_collections colocate_with container control_dependencies device "
            "get_collection get_collection_ref init_scope name_scope op_scope"
        ),
        "aioexec.graph.sparse_tensor": (
            "SparseTensor SparseTensorValue convert_to_tensor_or_sparse_tensor sparse_placeholder"
        ),
        "aioexec.graph_util": "graph_util=",
        "aioexec.image": "image=",
        "aioexec.linalg": "linalg=",
        "aioexec.lookup": "lookup=",
        "aioexec.losses": "losses=",
        "aioexec.math": "math=",
        "aioexec.metrics": "metrics=",
        "aioexec.nn": "nn=",
        "aioexec.ops.array.arrays": (
            "broadcast_to expand_dims matrix_transpose reshape squeeze tile transpose"
        ),
        "aioexec.ops.array.bitcast": "bitcast",
        "aioexec.ops.array.filling": (
            "fill lin_space linspace one_hot ones ones_like range=range_ zeros zeros_like"
        ),
        "aioexec.ops.array.gathering": "boolean_mask gather gather_nd scatter_nd",
        "aioexec.ops.array.identity": (
            "ensure_shape identity identity_n placeholder placeholder_with_default prevent_gradient "
            "stop_gradient"
        ),
        "aioexec.ops.array.inplace": "parallel_stack",
        "aioexec.ops.array.joining": "concat meshgrid split stack unstack",
        "aioexec.ops.array.ordering": "reverse_sequence roll",
        "aioexec.ops.array.padding": "pad",
        "aioexec.ops.array.partitioning": "dynamic_partition dynamic_stitch",
        "aioexec.ops.array.reverse": "reverse reverse_v2",
        "aioexec.ops.array.searching": "searchsorted unravel_index",
        "aioexec.ops.array.set_difference": "setdiff1d",
        "aioexec.ops.array.shapes_of": (
            "broadcast_dynamic_shape broadcast_static_shape invert_permutation rank shape shape_n size"
        ),
        "aioexec.ops.array.slicing": "slice=slice_ strided_slice",
        "aioexec.ops.array.space_and_batch": (
            "batch_to_space batch_to_space_nd depth_to_space space_to_batch space_to_batch_nd space_to_depth"
        ),
        "aioexec.ops.array.unique": "unique unique_with_counts",
        "aioexec.ops.containers.accumulator_classes": (
            "ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator"
        ),
        "aioexec.ops.containers.queue_class": (
            "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue"
        ),
        "aioexec.ops.containers.tensor_array_class": "TensorArray",
        "aioexec.ops.control_flow.case": "case switch_case",
        "aioexec.ops.control_flow.checks": (
            "assert_equal assert_greater assert_greater_equal assert_integer assert_less assert_less_equal "
            "assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal "
            "assert_positive assert_proper_iterable assert_rank assert_rank_at_least assert_rank_in "
            "assert_same_float_dtype assert_scalar assert_type is_non_decreasing is_strictly_increasing"
        ),
        "aioexec.ops.control_flow.cond": "cond",
        "aioexec.ops.control_flow.dependencies": "group no_op tuple=tuple_ with_dependencies",
        "aioexec.ops.control_flow.numerics": "add_check_numerics_ops check_numerics verify_tensor_all_finite",
        "aioexec.ops.control_flow.printing": "Assert Print",
        "aioexec.ops.control_flow.smart_cond": "smart_cond",
        "aioexec.ops.control_flow.while_loop": "while_loop",
        "aioexec.ops.functions.map_and_scan": "foldl foldr map_fn scan",
        "aioexec.ops.functions.python": "py_func",
        "aioexec.ops.io.decoding": "decode_csv decode_raw",
        "aioexec.ops.io.example_functions": (
            "FixedLenFeature FixedLenSequenceFeature VarLenFeature parse_example parse_single_example"
        ),
        "aioexec.ops.io.files": "matching_files read_file write_file",
        "aioexec.ops.io.reader_classes": (
            "FixedLengthRecordReader IdentityReader ReaderBase TFRecordReader TextLineReader WholeFileReader"
        ),
        "aioexec.ops.io.tensor_protos": "parse_tensor serialize_tensor",
        "aioexec.ops.linalg.decompositions": "cholesky qr self_adjoint_eig self_adjoint_eigvals svd",
        "aioexec.ops.linalg.einsum": "einsum",
        "aioexec.ops.linalg.linear_equations": (
            "cholesky_solve matrix_determinant matrix_inverse matrix_solve matrix_solve_ls "
            "matrix_triangular_solve"
        ),
        "aioexec.ops.linalg.matrix_diagonals": (
            "diag diag_part eye matrix_band_part matrix_diag matrix_diag_part matrix_set_diag trace"
        ),
        "aioexec.ops.linalg.matrix_functions": "matrix_square_root",
        "aioexec.ops.linalg.products": "cross matmul",
        "aioexec.ops.linalg.tensordot": "tensordot",
        "aioexec.ops.lookup.lookup_tables": "initialize_all_tables tables_initializer",
        "aioexec.ops.math.arithmetic": (
            "accumulate_n add add_n div divide floor_div floordiv floormod mod multiply pow realdiv "
            "scalar_mul squared_difference subtract truediv truncatediv truncatemod"
        ),
        "aioexec.ops.math.binary_functions": "atan2 div_no_nan",
        "aioexec.ops.math.cast": (
            "cast saturate_cast to_bfloat16 to_complex128 to_complex64 to_double to_float to_int32 to_int64"
        ),
        "aioexec.ops.math.comparison": (
            "equal greater greater_equal is_finite is_inf is_nan less less_equal logical_and logical_not "
            "logical_or logical_xor not_equal where where_v2"
        ),
        "aioexec.ops.math.complex_numbers": "angle complex conj imag real",
        "aioexec.ops.math.extremes": "clip_by_value maximum minimum",
        "aioexec.ops.math.fourier": "fft fft2d fft3d ifft ifft2d ifft3d",
        "aioexec.ops.math.histograms": "bincount histogram_fixed_width",
        "aioexec.ops.math.math_functions": (
            "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor log log1p "
            "log_sigmoid negative reciprocal rint round rsqrt sigmoid sign sin sinh sqrt square tan tanh"
        ),
        "aioexec.ops.math.special_functions": "betainc digamma igamma igammac lbeta lgamma polygamma zeta",
        "aioexec.ops.nn.fake_quantization": (
            "fake_quant_with_min_max_args fake_quant_with_min_max_vars "
            "fake_quant_with_min_max_vars_per_channel"
        ),
        "aioexec.ops.random.distributions": "random_gamma random_poisson",
        "aioexec.ops.random.random_ops": (
            "get_seed multinomial random_normal random_shuffle random_uniform set_random_seed "
            "truncated_normal"
        ),
        "aioexec.ops.reduction.arg_reduction": "argmax argmin",
        "aioexec.ops.reduction.cumulative": "cumprod cumsum",
        "aioexec.ops.reduction.norms": (
            "clip_by_average_norm clip_by_global_norm clip_by_norm global_norm norm"
        ),
        "aioexec.ops.reduction.reductions": (
            "reduce_all reduce_any reduce_max reduce_mean reduce_min reduce_prod reduce_sum"
        ),
        "aioexec.ops.reduction.segments": (
            "segment_max segment_mean segment_min segment_prod segment_sum unsorted_segment_max "
            "unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n "
            "unsorted_segment_sum"
        ),
        "aioexec.ops.reduction.statistics": "count_nonzero reduce_logsumexp reduce_std reduce_variance",
        "aioexec.ops.sparse.functions": (
            "sparse_add sparse_concat sparse_fill_empty_rows sparse_maximum sparse_minimum sparse_reduce_max "
            "sparse_reduce_sum sparse_reorder sparse_reshape sparse_retain sparse_slice sparse_softmax "
            "sparse_split sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense sparse_transpose"
        ),
        "aioexec.ops.sparse.segments": "sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum",
        "aioexec.ops.state.assignments": "assign assign_add assign_sub is_variable_initialized",
        "aioexec.ops.state.counting": "count_up_to",
        "aioexec.ops.state.initialization": (
            "all_variables assert_variables_initialized global_variables global_variables_initializer "
            "initialize_all_variables initialize_local_variables initialize_variables local_variables "
            "local_variables_initializer model_variables moving_average_variables "
            "report_uninitialized_variables trainable_variables variables_initializer"
        ),
        "aioexec.ops.state.initializers": (
            "constant_initializer glorot_normal_initializer glorot_uniform_initializer identity_initializer "
            "ones_initializer random_normal_initializer random_uniform_initializer "
            "truncated_normal_initializer uniform_unit_scaling_initializer variance_scaling_initializer "
            "zeros_initializer"
        ),
        "aioexec.ops.state.partitioned_variables": (
            "PartitionedVariable fixed_size_partitioner min_max_variable_partitioner "
            "variable_axis_size_partitioner"
        ),
        "aioexec.ops.state.scatter_nd_updates": (
            "scatter_nd_add scatter_nd_sub scatter_nd_update tensor_scatter_add tensor_scatter_max "
            "tensor_scatter_min tensor_scatter_sub tensor_scatter_update"
        ),
        "aioexec.ops.state.scatter_updates": (
            "scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_sub scatter_update"
        ),
        "aioexec.ops.state.session_handles": "delete_session_tensor get_session_handle get_session_tensor",
        "aioexec.ops.state.template": "make_template",
        "aioexec.ops.state.variable": (
            "Variable disable_resource_variables enable_resource_variables resource_variables_enabled"
        ),
        "aioexec.ops.state.variable_kinds": "VariableAggregation VariableSynchronization",
        "aioexec.ops.state.variable_scope": (
            "VariableScope create_partitioned_variables get_local_variable get_variable get_variable_scope "
            "no_regularizer variable_scope"
        ),
        "aioexec.ops.state.variable_store": "AUTO_REUSE",
        "aioexec.ops.strings.edit_distance": "edit_distance",
        "aioexec.ops.strings.formats": "print",
        "aioexec.ops.strings.functions": (
            "decode_base64 encode_base64 reduce_join string_join string_split substr"
        ),
        "aioexec.ops.strings.numbers": (
            "as_string string_to_hash_bucket string_to_hash_bucket_fast string_to_hash_bucket_strong "
            "string_to_number"
        ),
        "aioexec.ops.strings.regular_expressions": "regex_replace",
        "aioexec.ops.training.confusion_matrix": "confusion_matrix",
        "aioexec.random": "random=",
        "aioexec.sessions.conversions": "register_session_run_conversion_functions",
        "aioexec.sessions.interactive": "InteractiveSession",
        "aioexec.sessions.session": "Session",
        "aioexec.shapes": "Dimension TensorShape",
        "aioexec.signal": "signal=",
        "aioexec.strings": "strings=",
        "aioexec.summary": "summary=",
        "aioexec.train": "train=",
    },
    "aioexec.bitwise": {
        "aioexec.ops.math.bitwise": "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift",
    },
    "aioexec.image": {
        "aioexec.ops.image.boxes": "draw_bounding_boxes non_max_suppression",
        "aioexec.ops.image.codecs": (
            "decode_bmp decode_gif decode_image decode_jpeg decode_png encode_jpeg encode_png"
        ),
        "aioexec.ops.image.functions": (
            "ResizeMethod adjust_brightness adjust_contrast adjust_hue adjust_saturation convert_image_dtype "
            "crop_and_resize flip_left_right flip_up_down grayscale_to_rgb hsv_to_rgb "
            "per_image_standardization resize_area resize_bicubic resize_bilinear resize_images "
            "resize_nearest_neighbor rgb_to_grayscale rgb_to_hsv"
        ),
        "aioexec.ops.pooling.patches": "extract_image_patches",
    },
    "aioexec.linalg": {
        "aioexec.ops.array.arrays": "matrix_transpose transpose=matrix_transpose",
        "aioexec.ops.linalg.decompositions": (
            "cholesky eigh=self_adjoint_eig eigvalsh=self_adjoint_eigvals lu qr svd"
        ),
        "aioexec.ops.linalg.einsum": "einsum",
        "aioexec.ops.linalg.linear_equations": (
            "cholesky_solve det=matrix_determinant inv=matrix_inverse logdet lstsq=matrix_solve_ls slogdet "
            "solve=matrix_solve triangular_solve=matrix_triangular_solve"
        ),
        "aioexec.ops.linalg.matrix_diagonals": (
            "band_part=matrix_band_part diag=matrix_diag diag_part=matrix_diag_part eye "
            "set_diag=matrix_set_diag tensor_diag=diag tensor_diag_part=diag_part trace"
        ),
        "aioexec.ops.linalg.matrix_functions": (
            "expm=matrix_exponential logm=matrix_logarithm sqrtm=matrix_square_root"
        ),
        "aioexec.ops.linalg.products": "cross matmul",
        "aioexec.ops.linalg.tensordot": "tensordot",
        "aioexec.ops.nn.nn_ops": "l2_normalize",
        "aioexec.ops.reduction.norms": "norm",
    },
    "aioexec.losses": {
        "aioexec.ops.training.losses": (
            "Reduction absolute_difference add_loss compute_weighted_loss cosine_distance get_losses "
            "get_regularization_loss get_regularization_losses get_total_loss hinge_loss huber_loss log_loss "
            "mean_pairwise_squared_error mean_squared_error sigmoid_cross_entropy softmax_cross_entropy "
            "sparse_softmax_cross_entropy"
        ),
    },
    "aioexec.math": {
        "aioexec.ops.array.shapes_of": "invert_permutation",
        "aioexec.ops.control_flow.checks": "is_non_decreasing is_strictly_increasing",
        "aioexec.ops.math.arithmetic": (
            "accumulate_n add add_n divide floordiv floormod mod multiply pow scalar_mul squared_difference "
            "subtract truediv"
        ),
        "aioexec.ops.math.binary_functions": "atan2 multiply_no_nan nextafter xdivy xlog1py xlogy",
        "aioexec.ops.math.comparison": (
            "equal greater greater_equal is_finite is_inf is_nan less less_equal logical_and logical_not "
            "logical_or logical_xor not_equal"
        ),
        "aioexec.ops.math.complex_numbers": "angle conj imag real",
        "aioexec.ops.math.extremes": "maximum minimum",
        "aioexec.ops.math.histograms": "bincount",
        "aioexec.ops.math.math_functions": (
            "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor log log1p "
            "log_sigmoid negative reciprocal rint round rsqrt sigmoid sign sin sinh sqrt square tan tanh"
        ),
        "aioexec.ops.math.special_functions": (
            "bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc digamma erfinv igamma igammac lbeta lgamma "
            "ndtri polygamma zeta"
        ),
        "aioexec.ops.nn.activations": "softplus softsign",
        "aioexec.ops.nn.nn_ops": "in_top_k l2_normalize top_k",
        "aioexec.ops.nn.softmax": "log_softmax softmax",
        "aioexec.ops.reduction.arg_reduction": "argmax argmin",
        "aioexec.ops.reduction.cumulative": "cumprod cumsum cumulative_logsumexp",
        "aioexec.ops.reduction.reductions": (
            "reduce_all reduce_any reduce_euclidean_norm reduce_max reduce_mean reduce_min reduce_prod "
            "reduce_sum"
        ),
        "aioexec.ops.reduction.segments": (
            "segment_max segment_mean segment_min segment_prod segment_sum unsorted_segment_max "
            "unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n "
            "unsorted_segment_sum"
        ),
        "aioexec.ops.reduction.statistics": (
            "count_nonzero reduce_logsumexp reduce_std reduce_variance zero_fraction"
        ),
        "aioexec.ops.training.confusion_matrix": "confusion_matrix",
    },
    "aioexec.metrics": {
        "aioexec.ops.training.binary_metrics": (
            "auc false_negatives false_negatives_at_thresholds false_positives false_positives_at_thresholds "
            "precision precision_at_thresholds recall recall_at_thresholds sensitivity_at_specificity "
            "specificity_at_sensitivity true_negatives true_negatives_at_thresholds true_positives "
            "true_positives_at_thresholds"
        ),
        "aioexec.ops.training.metrics": (
            "accuracy mean mean_absolute_error mean_cosine_distance mean_iou mean_per_class_accuracy "
            "mean_relative_error mean_squared_error mean_tensor percentage_below root_mean_squared_error"
        ),
    },
    "aioexec.nn": {
        "aioexec.ops.convolution.conv": (
            "atrous_conv2d conv2d conv2d_backprop_filter conv2d_backprop_input conv2d_transpose"
        ),
        "aioexec.ops.convolution.conv3d": "conv3d conv3d_backprop_filter_v2 conv3d_transpose",
        "aioexec.ops.convolution.depthwise": (
            "depthwise_conv2d depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input "
            "depthwise_conv2d_native separable_conv2d"
        ),
        "aioexec.ops.math.math_functions": "sigmoid tanh",
        "aioexec.ops.nn.activations": "elu leaky_relu relu relu6 selu softplus softsign",
        "aioexec.ops.nn.cross_entropy": (
            "sigmoid_cross_entropy_with_logits softmax_cross_entropy_with_logits "
            "softmax_cross_entropy_with_logits_v2 sparse_softmax_cross_entropy_with_logits "
            "weighted_cross_entropy_with_logits"
        ),
        "aioexec.ops.nn.embedding": "embedding_lookup embedding_lookup_sparse",
        "aioexec.ops.nn.nn_ops": "bias_add in_top_k l2_loss l2_normalize relu_layer top_k xw_plus_b",
        "aioexec.ops.nn.sampled_losses": "nce_loss sampled_softmax_loss",
        "aioexec.ops.nn.softmax": "log_softmax softmax",
        "aioexec.ops.normalization.functions": (
            "batch_norm_with_global_normalization batch_normalization fused_batch_norm normalize_moments "
            "sufficient_statistics weighted_moments"
        ),
        "aioexec.ops.normalization.local_response": "local_response_normalization lrn",
        "aioexec.ops.pooling.patches": "dilation2d",
        "aioexec.ops.pooling.pool2d": "avg_pool max_pool",
        "aioexec.ops.pooling.pool3d": "avg_pool3d max_pool3d",
        "aioexec.ops.pooling.selection": "max_pool_with_argmax",
        "aioexec.ops.random.candidate_samplers": (
            "all_candidate_sampler compute_accidental_hits fixed_unigram_candidate_sampler "
            "learned_unigram_candidate_sampler log_uniform_candidate_sampler uniform_candidate_sampler"
        ),
        "aioexec.ops.random.random_ops": "dropout",
        "aioexec.ops.reduction.statistics": "moments zero_fraction",
    },
    "aioexec.random": {
        "aioexec.ops.random.distributions": "gamma=random_gamma poisson=random_poisson",
        "aioexec.ops.random.random_ops": (
            "categorical multinomial normal=random_normal set_random_seed shuffle=random_shuffle "
            "truncated_normal uniform=random_uniform"
        ),
        "aioexec.ops.random.stateless_functions": (
            "stateless_categorical stateless_multinomial stateless_normal=stateless_random_normal "
            "stateless_truncated_normal stateless_uniform=stateless_random_uniform"
        ),
    },
    "aioexec.signal": {
        "aioexec.ops.math.fourier": (
            "fft fft2d fft3d ifft ifft2d ifft3d irfft irfft2d irfft3d rfft rfft2d rfft3d"
        ),
    },
    "aioexec.strings": {
        "aioexec.ops.strings.formats": "format=string_format",
        "aioexec.ops.strings.functions": (
            "join=string_join length=string_length lower=string_lower reduce_join split=string_split_v2 "
            "strip=string_strip substr unsorted_segment_join upper=string_upper"
        ),
        "aioexec.ops.strings.numbers": (
            "as_string to_hash_bucket=string_to_hash_bucket to_hash_bucket_fast=string_to_hash_bucket_fast "
            "to_hash_bucket_strong=string_to_hash_bucket_strong to_number=string_to_number"
        ),
        "aioexec.ops.strings.regular_expressions": "regex_full_match regex_replace",
    },
    "aioexec.train": {
        "aioexec.distributed.cluster.cluster": "ClusterSpec",
        "aioexec.distributed.server.server": "Server",
        "aioexec.formats.event_files": "summary_iterator",
        "aioexec.formats.protos": "ClusterDef JobDef SaverDef ServerDef",
        "aioexec.train.checkpoints.checkpoint_reader": (
            "NewCheckpointReader list_variables load_checkpoint load_variable"
        ),
        "aioexec.train.checkpoints.checkpoint_state": (
            "checkpoint_exists generate_checkpoint_state_proto get_checkpoint_mtimes get_checkpoint_state "
            "latest_checkpoint remove_checkpoint update_checkpoint_state"
        ),
        "aioexec.train.checkpoints.graph_files": "write_graph",
        "aioexec.train.checkpoints.initialization": "init_from_checkpoint",
        "aioexec.train.checkpoints.meta_graph_import": "import_meta_graph",
        "aioexec.train.checkpoints.meta_graphs": "export_meta_graph",
        "aioexec.train.checkpoints.saver": "Saver",
        "aioexec.train.checkpoints.waiting": "checkpoints_iterator",
        "aioexec.train.checkpoints.warm_starting": "VocabInfo warm_start",
        "aioexec.train.coordination.coordinator": "Coordinator",
        "aioexec.train.coordination.looper": "LooperThread",
        "aioexec.train.device_setter": "GreedyLoadBalancingStrategy byte_size_load_fn replica_device_setter",
        "aioexec.train.errors": "EndOfLoopError TrainingStateError",
        "aioexec.train.global_steps": (
            "assert_global_step create_global_step get_global_step get_or_create_global_step global_step"
        ),
        "aioexec.train.hooks.feed_hooks": "FeedFnHook FinalOpsHook",
        "aioexec.train.hooks.logging_hooks": "LoggingTensorHook StepCounterHook",
        "aioexec.train.hooks.profiler_hook": "ProfilerHook",
        "aioexec.train.hooks.progress_hook": "ProgressHook",
        "aioexec.train.hooks.saving_hooks": "CheckpointSaverHook CheckpointSaverListener",
        "aioexec.train.hooks.session_run_hook": (
            "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues"
        ),
        "aioexec.train.hooks.stopping_hooks": (
            "GlobalStepWaiterHook NanLossDuringTrainingError NanTensorHook StopAtStepHook"
        ),
        "aioexec.train.hooks.summary_hooks": "SummaryAtEndHook SummarySaverHook",
        "aioexec.train.hooks.timers": "SecondOrStepTimer",
        "aioexec.train.input.batching": (
            "batch batch_join maybe_batch maybe_batch_join maybe_shuffle_batch maybe_shuffle_batch_join "
            "shuffle_batch shuffle_batch_join"
        ),
        "aioexec.train.input.input_producers": (
            "input_producer limit_epochs match_filenames_once range_input_producer slice_input_producer "
            "string_input_producer"
        ),
        "aioexec.train.input.queue_runner": "QueueRunner add_queue_runner start_queue_runners",
        "aioexec.train.optimizers.gradient_descent": (
            "AdamOptimizer GradientDescentOptimizer MomentumOptimizer"
        ),
        "aioexec.train.optimizers.learning_rates": (
            "cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay linear_cosine_decay "
            "natural_exp_decay noisy_linear_cosine_decay piecewise_constant piecewise_constant_decay "
            "polynomial_decay"
        ),
        "aioexec.train.optimizers.moving_averages": "ExponentialMovingAverage",
        "aioexec.train.optimizers.optimizer": "Optimizer",
        "aioexec.train.optimizers.sync_replicas": "SyncReplicasOptimizer",
        "aioexec.train.optimizers.update_optimizers": (
            "AdadeltaOptimizer AdagradDAOptimizer AdagradOptimizer FtrlOptimizer ProximalAdagradOptimizer "
            "ProximalGradientDescentOptimizer RMSPropOptimizer"
        ),
        "aioexec.train.sessions.basic_loops": "basic_train_loop",
        "aioexec.train.sessions.evaluation": (
            "StopAfterNEvalsHook evaluate_once evaluate_repeatedly get_or_create_eval_step"
        ),
        "aioexec.train.sessions.monitored_session": "MonitoredSession SingularMonitoredSession",
        "aioexec.train.sessions.monitored_training": "MonitoredTrainingSession",
        "aioexec.train.sessions.scaffold": "Scaffold",
        "aioexec.train.sessions.session_creators": "ChiefSessionCreator SessionCreator WorkerSessionCreator",
        "aioexec.train.sessions.session_manager": "SessionManager",
        "aioexec.train.sessions.supervisor": "Supervisor",
    },
}
