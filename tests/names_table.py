"""The names of the session runtime that TensorFlow 1.x programs use, and their places in this package.

Read by `test_names` (they exist) and by `interop/test_names_interop` (with TensorFlow's arguments).
"""

from __future__ import annotations


def words(text: str) -> list[str]:
    return text.split()


PUBLIC = words("""
Session InteractiveSession get_default_session
get_session_handle get_session_tensor delete_session_tensor
while_loop cond case switch_case no_op group tuple Assert identity TensorArray map_fn scan foldl foldr
FIFOQueue RandomShuffleQueue PaddingFIFOQueue PriorityQueue QueueBase
ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator
tables_initializer initialize_all_tables py_func import_graph_def
SparseTensor SparseTensorValue convert_to_tensor_or_sparse_tensor sparse_placeholder
Graph Operation Tensor GraphKeys IndexedSlices DeviceSpec
get_default_graph reset_default_graph convert_to_tensor convert_to_tensor_or_indexed_slices register_tensor_conversion_function
control_dependencies device name_scope op_scope colocate_with container init_scope
add_to_collection add_to_collections get_collection get_collection_ref
gradients hessians custom_gradient RegisterGradient NotDifferentiable NoGradient no_gradient
placeholder placeholder_with_default constant random_crop sequence_mask required_space_to_batch_paddings
clip_by_value clip_by_norm clip_by_global_norm clip_by_average_norm global_norm confusion_matrix make_template
ConfigProto GPUOptions GraphOptions OptimizerOptions RunMetadata RunOptions GraphDef NodeDef AttrValue MetaGraphDef
OpError QUANTIZED_DTYPES get_logger
extract_image_patches arg_max arg_min histogram_fixed_width_bins make_tensor_proto make_ndarray get_static_value is_tensor
SparseFeature parse_single_sequence_example sort argsort repeat batch_gather numpy_function py_function string_strip
is_numeric_tensor dimension_value dimension_at_index variable_op_scope
tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update
sparse_mask sparse_merge sparse_reduce_max_sparse sparse_reduce_sum_sparse sparse_reset_shape sparse_to_indicator
serialize_sparse serialize_many_sparse deserialize_many_sparse
disable_v2_behavior enable_v2_behavior disable_v2_tensorshape enable_v2_tensorshape disable_eager_execution
enable_eager_execution disable_tensor_equality enable_tensor_equality disable_control_flow_v2 enable_control_flow_v2
control_flow_v2_enabled executing_eagerly executing_eagerly_outside_functions
VERSION GIT_VERSION COMPILER_VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER
""")
"""`tf.name` of TensorFlow, `aioexec.name` here."""

TRAIN = words("""
SessionRunHook SessionRunArgs SessionRunContext SessionRunValues SecondOrStepTimer CheckpointSaverListener CheckpointSaverHook
LoggingTensorHook StepCounterHook StopAtStepHook NanTensorHook GlobalStepWaiterHook SummarySaverHook ProfilerHook FeedFnHook
FinalOpsHook write_graph
MonitoredSession SingularMonitoredSession MonitoredTrainingSession Scaffold SessionManager
SessionCreator ChiefSessionCreator WorkerSessionCreator
Coordinator LooperThread QueueRunner add_queue_runner start_queue_runners Supervisor basic_train_loop
input_producer limit_epochs match_filenames_once range_input_producer slice_input_producer string_input_producer
ClusterSpec ClusterDef JobDef ServerDef Server
Saver SaverDef checkpoint_exists generate_checkpoint_state_proto get_checkpoint_mtimes get_checkpoint_state latest_checkpoint
remove_checkpoint update_checkpoint_state
export_meta_graph import_meta_graph NewCheckpointReader load_checkpoint load_variable list_variables checkpoints_iterator
init_from_checkpoint warm_start VocabInfo
batch batch_join maybe_batch maybe_batch_join shuffle_batch shuffle_batch_join maybe_shuffle_batch maybe_shuffle_batch_join
Optimizer GradientDescentOptimizer MomentumOptimizer AdamOptimizer AdagradOptimizer AdagradDAOptimizer AdadeltaOptimizer
RMSPropOptimizer FtrlOptimizer ProximalAdagradOptimizer ProximalGradientDescentOptimizer SyncReplicasOptimizer
replica_device_setter ExponentialMovingAverage
exponential_decay natural_exp_decay inverse_time_decay polynomial_decay piecewise_constant piecewise_constant_decay
cosine_decay cosine_decay_restarts linear_cosine_decay noisy_linear_cosine_decay
global_step get_global_step create_global_step get_or_create_global_step assert_global_step
BytesList Example Feature FeatureList FeatureLists Features FloatList Int64List SequenceExample
""")
"""`tf.train.name` of TensorFlow, `aioexec.train.name` here."""

LOSSES = words("""
Reduction absolute_difference add_loss compute_weighted_loss cosine_distance get_losses get_regularization_loss
get_regularization_losses get_total_loss hinge_loss huber_loss log_loss mean_pairwise_squared_error mean_squared_error
sigmoid_cross_entropy softmax_cross_entropy sparse_softmax_cross_entropy
""")
"""`tf.losses.name` of TensorFlow, `aioexec.losses.name` here."""

INITIALIZERS = words("""
constant global_variables glorot_normal glorot_uniform he_normal he_uniform identity lecun_normal lecun_uniform local_variables
ones orthogonal random_normal random_uniform tables_initializer truncated_normal uniform_unit_scaling variables
variance_scaling zeros
""")
"""`tf.initializers.name` of TensorFlow, `aioexec.initializers.name` here."""

KERAS = words("""
initializers.Constant initializers.Identity initializers.Initializer initializers.Ones initializers.Orthogonal
initializers.RandomNormal initializers.RandomUniform initializers.TruncatedNormal initializers.VarianceScaling
initializers.Zeros initializers.constant initializers.glorot_normal initializers.glorot_uniform initializers.he_normal
initializers.he_uniform initializers.identity initializers.lecun_normal initializers.lecun_uniform initializers.normal
initializers.ones initializers.orthogonal initializers.random_normal initializers.random_uniform initializers.truncated_normal
initializers.uniform initializers.zeros activations.elu activations.exponential activations.get activations.hard_sigmoid
activations.linear activations.relu activations.selu activations.sigmoid activations.softmax activations.softplus
activations.softsign activations.tanh backend.epsilon backend.floatx backend.image_data_format backend.in_test_phase
backend.in_train_phase backend.int_shape backend.is_sparse backend.learning_phase backend.ndim backend.set_learning_phase
 utils.normalize utils.to_categorical regularizers.L1 regularizers.L1L2 regularizers.L2
regularizers.Regularizer regularizers.l1 regularizers.l1_l2 regularizers.l2
""")
"""`tf.keras.name` of TensorFlow, `aioexec.keras.name` here."""

KERAS_LAYERS = words("""
layers.Layer layers.Wrapper layers.BatchNormalization layers.Conv1D layers.Conv2D layers.Conv2DTranspose layers.Conv3D
layers.Dense layers.Dropout layers.Flatten layers.SeparableConv2D layers.Activation layers.Add layers.Concatenate
layers.Embedding layers.Lambda layers.LeakyReLU layers.Multiply layers.Permute layers.ReLU layers.Reshape layers.ZeroPadding2D
layers.AveragePooling1D layers.AveragePooling2D layers.AvgPool1D layers.AvgPool2D layers.GlobalAveragePooling1D
layers.GlobalAveragePooling2D layers.GlobalMaxPooling1D layers.GlobalMaxPooling2D layers.MaxPool1D layers.MaxPool2D
layers.MaxPooling1D layers.MaxPooling2D layers.InputSpec datasets.cifar10.load_data datasets.mnist.load_data
""")
"""`tf.keras.name` of TensorFlow, `aioexec.keras.name` here, without the methods that serve models."""

LAYERS = words("""
Layer InputSpec Dense Dropout Flatten Conv1D Conv2D Conv3D SeparableConv1D SeparableConv2D Conv2DTranspose Conv3DTranspose
MaxPooling1D MaxPooling2D MaxPooling3D AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization
dense dropout flatten conv1d conv2d conv3d separable_conv1d separable_conv2d conv2d_transpose conv3d_transpose
max_pooling1d max_pooling2d max_pooling3d average_pooling1d average_pooling2d average_pooling3d batch_normalization
""")
"""`tf.layers.name` of TensorFlow, `aioexec.layers.name` here."""

ESTIMATOR = words("""
CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook LoggingTensorHook
NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook
SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook classifier_parse_example_spec regressor_parse_example_spec
BaselineClassifier BaselineRegressor DNNClassifier DNNLinearCombinedClassifier DNNLinearCombinedRegressor DNNRegressor
LinearClassifier LinearRegressor
BestExporter Estimator EstimatorSpec EvalSpec Exporter FinalExporter LatestExporter ModeKeys RunConfig TrainSpec
VocabInfo WarmStartSettings train_and_evaluate
export.ClassificationOutput export.ExportOutput export.PredictOutput export.RegressionOutput export.ServingInputReceiver
export.TensorServingInputReceiver export.build_parsing_serving_input_receiver_fn
export.build_raw_serving_input_receiver_fn
inputs.numpy_input_fn inputs.pandas_input_fn
""")
"""`tf.estimator.name` of TensorFlow 1.x, `aioexec.estimator.name` here; TensorFlow 2.x has none of them any more."""

DATA = words("""
Dataset FixedLengthRecordDataset Iterator Options TFRecordDataset TextLineDataset get_output_classes get_output_shapes
get_output_types make_initializable_iterator make_one_shot_iterator
experimental.AUTOTUNE experimental.Counter experimental.CsvDataset experimental.OptimizationOptions experimental.RandomDataset
experimental.StatsOptions experimental.ThreadingOptions experimental.bucket_by_sequence_length
experimental.choose_from_datasets experimental.copy_to_device experimental.dense_to_sparse_batch
experimental.enumerate_dataset experimental.get_single_element experimental.group_by_window experimental.ignore_errors
experimental.make_batched_features_dataset experimental.make_csv_dataset experimental.map_and_batch
experimental.map_and_batch_with_legacy_function
experimental.parallel_interleave experimental.parse_example_dataset experimental.prefetch_to_device
experimental.sample_from_datasets experimental.scan experimental.shuffle_and_repeat experimental.take_while
experimental.unbatch experimental.unique
""")
"""`tf.data.name` of TensorFlow, `aioexec.data.name` here."""

FEATURE_COLUMN = words("""
bucketized_column categorical_column_with_hash_bucket categorical_column_with_identity
categorical_column_with_vocabulary_file categorical_column_with_vocabulary_list crossed_column embedding_column
indicator_column input_layer linear_model make_parse_example_spec numeric_column shared_embedding_columns
weighted_categorical_column sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity
sequence_categorical_column_with_vocabulary_file sequence_categorical_column_with_vocabulary_list sequence_numeric_column
""")
"""`tf.feature_column.name` of TensorFlow, `aioexec.feature_column.name` here."""

METRICS = words("""
average_precision_at_k precision_at_k precision_at_top_k recall_at_k recall_at_top_k sparse_average_precision_at_k
sparse_precision_at_k
accuracy auc false_negatives false_negatives_at_thresholds false_positives false_positives_at_thresholds mean
mean_absolute_error mean_cosine_distance mean_iou mean_per_class_accuracy mean_relative_error mean_squared_error mean_tensor
percentage_below precision precision_at_thresholds recall recall_at_thresholds root_mean_squared_error
sensitivity_at_specificity specificity_at_sensitivity true_negatives true_negatives_at_thresholds true_positives
true_positives_at_thresholds
""")
"""`tf.metrics.name` of TensorFlow, `aioexec.metrics.name` here."""

MODULES = {
    "linalg": words("""
adjoint band_part cholesky cholesky_solve cross det diag diag_part eigh eigvalsh einsum expm eye global_norm inv l2_normalize
logdet logm lstsq lu lu_matrix_inverse lu_reconstruct lu_solve matmul matrix_rank matrix_transpose matvec norm normalize pinv
qr set_diag slogdet solve sqrtm svd tensor_diag tensor_diag_part tensordot trace transpose triangular_solve
"""),
    "random": words("""
all_candidate_sampler categorical fixed_unigram_candidate_sampler gamma get_seed learned_unigram_candidate_sampler
log_uniform_candidate_sampler multinomial normal poisson set_random_seed shuffle stateless_categorical stateless_multinomial
stateless_normal stateless_truncated_normal stateless_uniform truncated_normal uniform uniform_candidate_sampler
"""),
    "saved_model": words("""
ASSETS_DIRECTORY ASSETS_KEY Builder CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES CLASSIFY_OUTPUT_SCORES
DEFAULT_SERVING_SIGNATURE_DEF_KEY GPU LEGACY_INIT_OP_KEY MAIN_OP_KEY PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS
REGRESS_INPUTS REGRESS_METHOD_NAME REGRESS_OUTPUTS SAVED_MODEL_FILENAME_PB SAVED_MODEL_FILENAME_PBTXT
SAVED_MODEL_SCHEMA_VERSION SERVING TPU TRAINING VARIABLES_DIRECTORY VARIABLES_FILENAME
build_signature_def build_tensor_info classification_signature_def contains_saved_model get_tensor_from_tensor_info
is_valid_signature load main_op_with_restore maybe_saved_model_directory predict_signature_def regression_signature_def
simple_save
builder.SavedModelBuilder loader.load loader.maybe_saved_model_directory main_op.main_op main_op.main_op_with_restore
constants.ASSETS_DIRECTORY constants.ASSETS_KEY constants.LEGACY_INIT_OP_KEY constants.MAIN_OP_KEY
constants.SAVED_MODEL_FILENAME_PB constants.SAVED_MODEL_FILENAME_PBTXT constants.SAVED_MODEL_SCHEMA_VERSION
constants.VARIABLES_DIRECTORY constants.VARIABLES_FILENAME
signature_constants.CLASSIFY_INPUTS signature_constants.CLASSIFY_METHOD_NAME signature_constants.CLASSIFY_OUTPUT_CLASSES
signature_constants.CLASSIFY_OUTPUT_SCORES signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
signature_constants.PREDICT_INPUTS signature_constants.PREDICT_METHOD_NAME signature_constants.PREDICT_OUTPUTS
signature_constants.REGRESS_INPUTS signature_constants.REGRESS_METHOD_NAME signature_constants.REGRESS_OUTPUTS
signature_def_utils.build_signature_def signature_def_utils.classification_signature_def
signature_def_utils.is_valid_signature signature_def_utils.predict_signature_def
signature_def_utils.regression_signature_def
tag_constants.GPU tag_constants.SERVING tag_constants.TPU tag_constants.TRAINING
utils.build_tensor_info utils.get_tensor_from_tensor_info
"""),
    "app": words("run"),
    "gfile": words("""
        Copy DeleteRecursively Exists FastGFile GFile Glob IsDirectory ListDirectory MakeDirs MkDir Open Remove Rename Stat Walk
    """),
    "io.gfile": words("""
        GFile copy exists get_registered_schemes glob isdir join listdir makedirs mkdir remove rename rmtree stat walk
    """),
    "logging": words("""
        DEBUG ERROR FATAL INFO TaskLevelStatusMessage WARN debug error fatal flush get_verbosity info log log_every_n
        log_first_n log_if set_verbosity vlog warn warning
    """),
    "compat": words("""
        as_bytes as_str as_str_any as_text bytes_or_text_types complex_types dimension_at_index dimension_value integral_types
        path_to_str real_types
    """),
    "debugging": words("""
        Assert assert_all_finite assert_equal assert_greater assert_greater_equal assert_integer assert_less
        assert_less_equal assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal
        assert_positive assert_proper_iterable assert_rank assert_rank_at_least assert_rank_in assert_same_float_dtype
        assert_scalar assert_shapes assert_type check_numerics is_finite is_inf is_nan is_non_decreasing is_numeric_tensor
        is_strictly_increasing
    """),
    "manip": words("batch_to_space_nd gather_nd reshape reverse roll scatter_nd space_to_batch_nd tile"),
    "nest": words("assert_same_structure flatten is_nested map_structure pack_sequence_as"),
    "queue": words("FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue"),
    "sparse": words("""
        SparseConditionalAccumulator SparseTensor add concat expand_dims eye fill_empty_rows from_dense mask matmul maximum
        merge minimum placeholder reduce_max reduce_max_sparse reduce_sum reduce_sum_sparse reorder reset_shape reshape
        retain segment_mean segment_sqrt_n segment_sum slice softmax sparse_dense_matmul split to_dense to_indicator
        transpose
    """),
    "sets": words("difference intersection set_difference set_intersection set_size set_union size union"),
    "spectral": words("fft fft2d fft3d ifft ifft2d ifft3d irfft irfft2d irfft3d rfft rfft2d rfft3d"),
    "train.queue_runner": words("QueueRunner add_queue_runner start_queue_runners"),
    "math": words("divide_no_nan erfcinv polyval reciprocal_no_nan"),
    "resource_loader": words("""
        get_data_files_path get_path_to_datafile get_root_dir_with_all_resources load_resource readahead_file_path
    """),
    "test": words("""
        assert_equal_graph_def compute_gradient compute_gradient_error get_temp_dir gpu_device_name is_built_with_cuda
        is_built_with_gpu_support is_built_with_rocm is_built_with_xla is_gpu_available main mock
    """),
    "python_io": words("TFRecordCompressionType TFRecordOptions TFRecordWriter tf_record_iterator"),
    "distributions": words("""
Bernoulli Beta Categorical Dirichlet DirichletMultinomial Distribution Exponential Gamma Laplace Multinomial Normal RegisterKL
ReparameterizationType StudentT Uniform kl_divergence
"""),
    "nn": words("""
all_candidate_sampler atrous_conv2d atrous_conv2d_transpose avg_pool avg_pool1d avg_pool2d avg_pool3d avg_pool_v2
batch_norm_with_global_normalization batch_normalization bias_add bidirectional_dynamic_rnn collapse_repeated
compute_accidental_hits conv1d conv1d_transpose conv2d conv2d_backprop_filter conv2d_backprop_input conv2d_transpose conv3d
conv3d_backprop_filter conv3d_backprop_filter_v2 conv3d_transpose conv_transpose convolution crelu ctc_beam_search_decoder
ctc_beam_search_decoder_v2 ctc_greedy_decoder ctc_loss ctc_loss_v2 depth_to_space depthwise_conv2d
depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input depthwise_conv2d_native
depthwise_conv2d_native_backprop_filter depthwise_conv2d_native_backprop_input dilation2d dropout dynamic_rnn elu
embedding_lookup embedding_lookup_sparse erosion2d fixed_unigram_candidate_sampler fractional_avg_pool
fractional_max_pool fused_batch_norm in_top_k l2_loss
l2_normalize leaky_relu learned_unigram_candidate_sampler local_response_normalization log_poisson_loss log_softmax
log_uniform_candidate_sampler lrn max_pool max_pool1d max_pool2d max_pool3d max_pool_v2 max_pool_with_argmax moments nce_loss
normalize_moments pool raw_rnn relu relu6 relu_layer safe_embedding_lookup_sparse sampled_softmax_loss selu separable_conv2d
sigmoid sigmoid_cross_entropy_with_logits silu softmax softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits_v2
softplus softsign space_to_batch space_to_depth sparse_softmax_cross_entropy_with_logits static_bidirectional_rnn static_rnn
static_state_saving_rnn sufficient_statistics swish tanh top_k uniform_candidate_sampler weighted_cross_entropy_with_logits
weighted_moments with_space_to_batch xw_plus_b zero_fraction
"""),
    "image": words("""
ResizeMethod adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_jpeg_quality adjust_saturation central_crop
convert_image_dtype crop_and_resize crop_to_bounding_box decode_and_crop_jpeg decode_bmp decode_gif decode_image decode_jpeg
decode_png draw_bounding_boxes encode_jpeg encode_png extract_glimpse extract_image_patches extract_jpeg_shape
extract_patches flip_left_right flip_up_down grayscale_to_rgb hsv_to_rgb image_gradients is_jpeg non_max_suppression
non_max_suppression_overlaps non_max_suppression_padded non_max_suppression_with_scores pad_to_bounding_box
per_image_standardization psnr random_brightness random_contrast random_crop random_flip_left_right random_flip_up_down
random_hue random_jpeg_quality random_saturation resize resize_area resize_bicubic resize_bilinear
resize_image_with_crop_or_pad resize_image_with_pad resize_images resize_nearest_neighbor resize_with_crop_or_pad
rgb_to_grayscale rgb_to_hsv rgb_to_yiq rgb_to_yuv rot90 sample_distorted_bounding_box sobel_edges ssim ssim_multiscale
total_variation transpose transpose_image yiq_to_rgb yuv_to_rgb
"""),
}
"""By module: `tf.module.name` of TensorFlow, `aioexec.module.name` here."""

ERRORS = words("""
OpError CancelledError UnknownError InvalidArgumentError DeadlineExceededError NotFoundError AlreadyExistsError
PermissionDeniedError UnauthenticatedError ResourceExhaustedError FailedPreconditionError AbortedError OutOfRangeError
UnimplementedError InternalError UnavailableError DataLossError
OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED UNAUTHENTICATED
RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS
exception_type_from_error_code error_code_from_exception_type
""")
"""`tf.errors.name` of TensorFlow, `aioexec.errors.name` here."""

ELSEWHERE = {
    "client.session.Session": "client.session.Session",
    "framework.ops.get_gradient_function": "gradients.registration.get_gradient_function",
    "client.session.InteractiveSession": "client.session.InteractiveSession",
    "client.session.register_session_run_conversion_functions": "register_session_run_conversion_functions",
    "client.session._DeviceAttributes": "devices.device.DeviceAttributes",
    "client.timeline.Timeline": "client.timeline.Timeline",
    "client.device_lib.list_local_devices": "client.device_lib.list_local_devices",
    "ops.session_ops.TensorHandle": "ops.state.session_handles.TensorHandle",
    "ops.data_flow_ops.StagingArea": "ops.containers.staging_class.StagingArea",
    "ops.data_flow_ops.MapStagingArea": "ops.containers.staging_class.MapStagingArea",
    "ops.data_flow_ops.Barrier": "ops.containers.barrier.Barrier",
    "ops.lookup_ops.StaticHashTable": "ops.lookup.lookup_tables.StaticHashTable",
    "ops.lookup_ops.MutableHashTable": "ops.lookup.lookup_tables.MutableHashTable",
    "ops.lookup_ops.DenseHashTable": "ops.lookup.lookup_tables.DenseHashTable",
    "ops.lookup_ops.LookupInterface": "ops.lookup.lookup_tables.LookupInterface",
    "ops.lookup_ops.InitializableLookupTableBase": "ops.lookup.lookup_tables.InitializableLookupTableBase",
    "ops.lookup_ops.HashTable": "ops.lookup.lookup_tables.HashTable",
    "ops.lookup_ops.TableInitializerBase": "ops.lookup.table_initializers.TableInitializerBase",
    "ops.lookup_ops.KeyValueTensorInitializer": "ops.lookup.table_initializers.KeyValueTensorInitializer",
    "ops.lookup_ops.TextFileInitializer": "ops.lookup.table_initializers.TextFileInitializer",
    "ops.lookup_ops.TextFileIndex": "ops.lookup.table_initializers.TextFileIndex",
    "ops.lookup_ops.TextFileIdTableInitializer": "ops.lookup.table_initializers.TextFileIdTableInitializer",
    "ops.lookup_ops.TextFileStringTableInitializer": "ops.lookup.table_initializers.TextFileStringTableInitializer",
    "ops.lookup_ops.StaticVocabularyTable": "ops.lookup.vocabularies.StaticVocabularyTable",
    "ops.lookup_ops.IdTableWithHashBuckets": "ops.lookup.vocabularies.IdTableWithHashBuckets",
    "ops.lookup_ops.HasherSpec": "ops.lookup.vocabularies.HasherSpec",
    "ops.lookup_ops.StrongHashSpec": "ops.lookup.vocabularies.StrongHashSpec",
    "ops.lookup_ops.FastHashSpec": "ops.lookup.vocabularies.FastHashSpec",
    "ops.lookup_ops.index_table_from_file": "ops.lookup.vocabularies.index_table_from_file",
    "ops.lookup_ops.index_table_from_tensor": "ops.lookup.vocabularies.index_table_from_tensor",
    "ops.lookup_ops.index_to_string_table_from_file": "ops.lookup.vocabularies.index_to_string_table_from_file",
    "ops.lookup_ops.index_to_string_table_from_tensor": "ops.lookup.vocabularies.index_to_string_table_from_tensor",
    "ops.lookup_ops.tables_initializer": "ops.lookup.lookup_tables.tables_initializer",
    "ops.control_flow_ops.with_dependencies": "ops.control_flow.dependencies.with_dependencies",
    "ops.control_flow_ops.switch": "python.control_flow_ops.switch",
    "ops.control_flow_ops.merge": "python.control_flow_ops.merge",
    "ops.gen_control_flow_ops._exit": "ops.control_flow.primitives.exit",
    "ops.gen_control_flow_ops.next_iteration": "ops.control_flow.primitives.next_iteration",
    "ops.gen_control_flow_ops.ref_switch": "ops.control_flow.primitives.ref_switch",
    "ops.gen_control_flow_ops.ref_select": "ops.control_flow.primitives.ref_select",
    "ops.gen_control_flow_ops.ref_merge": "ops.control_flow.primitives.ref_merge",
    "ops.gen_control_flow_ops.loop_cond": "ops.control_flow.primitives.loop_cond",
    "ops.gen_control_flow_ops.enter": "ops.control_flow.primitives.enter",
    "ops.gen_control_flow_ops.ref_enter": "ops.control_flow.primitives.ref_enter",
    "ops.gen_control_flow_ops.control_trigger": "ops.control_flow.primitives.control_trigger",
    "ops.control_flow_ops._SwitchRefOrTensor": "graph.control_flow.switch_ref_or_tensor",
    "ops.control_flow_ops.ControlFlowContext": "graph.control_flow.ControlFlowContext",
    "ops.control_flow_ops.CondContext": "graph.control_flow.CondContext",
    "ops.control_flow_ops.WhileContext": "graph.control_flow.WhileContext",
    "ops.control_flow_util.IsSwitch": "graph.control_flow_kinds.IsSwitch",
    "ops.control_flow_util.IsMerge": "graph.control_flow_kinds.IsMerge",
    "ops.control_flow_util.IsLoopSwitch": "graph.control_flow_kinds.IsLoopSwitch",
    "ops.control_flow_util.IsLoopMerge": "graph.control_flow_kinds.IsLoopMerge",
    "ops.control_flow_util.IsCondSwitch": "graph.control_flow_kinds.IsCondSwitch",
    "ops.control_flow_util.IsCondMerge": "graph.control_flow_kinds.IsCondMerge",
    "ops.control_flow_util.IsLoopEnter": "graph.control_flow_kinds.IsLoopEnter",
    "ops.control_flow_util.IsLoopExit": "graph.control_flow_kinds.IsLoopExit",
    "ops.control_flow_util.IsLoopConstantEnter": "graph.control_flow_kinds.IsLoopConstantEnter",
    "framework.device.merge_device": "graph.device_spec.merge_device",
    "framework.device.check_valid": "graph.device_spec.check_valid",
    "framework.device.canonical_name": "graph.device_spec.canonical_name",
    "framework.function.Defun": "ops.functions.defun.Defun",
    "framework.function.get_extra_args": "ops.functions.defun.get_extra_args",
    "framework.function.get_extra_inputs": "ops.functions.defun.get_extra_inputs",
    "framework.function.get_extra_vars": "ops.functions.defun.get_extra_vars",
    "ops.functional_ops.For": "ops.functions.call_functions.For",
    "ops.functional_ops.Gradient": "ops.functions.call_functions.Gradient",
    "ops.functional_ops.If": "ops.functions.call_functions.If",
    "ops.functional_ops.While": "ops.functions.call_functions.While",
    "ops.gen_functional_ops.symbolic_gradient": "ops.functions.call_functions.symbolic_gradient",
    "distribute.cluster_resolver.cluster_resolver.ClusterResolver": "distributed.cluster.cluster_resolver.ClusterResolver",
    "distribute.cluster_resolver.cluster_resolver.SimpleClusterResolver": (
        "distributed.cluster.cluster_resolver.SimpleClusterResolver"
    ),
    "distribute.cluster_resolver.tfconfig_cluster_resolver.TFConfigClusterResolver": (
        "distributed.cluster.cluster_resolver.TFConfigClusterResolver"
    ),
    "training.saver.BaseSaverBuilder": "train.checkpoints.saver_builder.BaseSaverBuilder",
    "training.saver.BulkSaverBuilder": "train.checkpoints.saver_builder.BulkSaverBuilder",
    "training.saver._get_saver_or_default": "train.checkpoints.saver._get_saver_or_default",
    "training.saving.saveable_object.SaveSpec": "train.checkpoints.saveables.SaveSpec",
    "training.saving.saveable_object.SaveableObject": "train.checkpoints.saveables.SaveableObject",
    "checkpoint.checkpoint_management.update_checkpoint_state_internal": (
        "train.checkpoints.checkpoint_state.write_checkpoint_state"
    ),
    "checkpoint.checkpoint_management.meta_graph_filename": "train.checkpoints.checkpoint_state.meta_graph_filename",
    "framework.smart_cond.smart_cond": "smart_cond",
    "framework.smart_cond.smart_case": "ops.control_flow.smart_cond.smart_case",
    "framework.smart_cond.smart_constant_value": "ops.control_flow.smart_cond.smart_constant_value",
    "framework.sparse_tensor.is_sparse": "graph.sparse_tensor.is_sparse",
    "framework.graph_util.extract_sub_graph": "graph.io.sub_graphs.extract_sub_graph",
    "framework.convert_to_constants.convert_variables_to_constants": "graph_util.convert_variables_to_constants",
    "framework.graph_util.remove_training_nodes": "graph_util.remove_training_nodes",
    "framework.ops.strip_name_scope": "graph.scope_names.strip_name_scope",
    "framework.ops.prepend_name_scope": "graph.scope_names.prepend_name_scope",
    "framework.ops.register_proto_function": "graph.io.proto_functions.register_proto_function",
    "framework.ops.get_to_proto_function": "graph.io.proto_functions.get_to_proto_function",
    "framework.ops.get_from_proto_function": "graph.io.proto_functions.get_from_proto_function",
    "framework.ops.get_collection_proto_type": "graph.io.proto_functions.get_collection_proto_type",
    "framework.meta_graph.add_collection_def": "graph.io.metagraph_export.add_collection_def",
    "framework.meta_graph.copy_scoped_meta_graph": "train.checkpoints.meta_graph_import.copy_scoped_meta_graph",
    "framework.meta_graph.create_meta_graph_def": "graph.io.metagraph_export.create_meta_graph_def",
    "framework.meta_graph.export_scoped_meta_graph": "train.checkpoints.meta_graphs.export_scoped_meta_graph",
    "framework.meta_graph.import_scoped_meta_graph": "train.checkpoints.meta_graph_import.import_scoped_meta_graph",
    "framework.meta_graph.ops_used_by_graph_def": "graph.io.op_def_export.ops_used_by_graph_def",
    "framework.meta_graph.read_meta_graph_file": "train.checkpoints.meta_graph_import.read_meta_graph_file",
    "framework.meta_graph.stripped_op_list_for_graph": "graph.io.op_def_export.stripped_op_list_for_graph",
    "training.moving_averages.assign_moving_average": "train.optimizers.moving_averages.assign_moving_average",
    "training.moving_averages.weighted_moving_average": "train.optimizers.moving_averages.weighted_moving_average",
    "training.slot_creator.create_slot": "train.optimizers.slots.create_slot",
    "training.slot_creator.create_slot_with_initializer": "train.optimizers.slots.create_slot_with_initializer",
    "training.slot_creator.create_zeros_slot": "train.optimizers.slots.create_zeros_slot",
    "training.training_util._get_or_create_global_step_read": "train.global_steps._get_or_create_global_step_read",
    "training.training_util._get_global_step_read": "train.global_steps._get_global_step_read",
    "training.training_util._increment_global_step": "train.global_steps._increment_global_step",
    "ops.gradient_checker.compute_gradient": "testing.compute_gradient",
    "ops.gradient_checker.compute_gradient_error": "testing.compute_gradient_error",
    "ops.template.Template": "ops.state.template.Template",
    "ops.confusion_matrix.remove_squeezable_dimensions": "ops.training.weights.remove_squeezable_dimensions",
    "ops.weights_broadcast_ops.assert_broadcastable": "ops.training.weights.assert_broadcastable",
    "ops.weights_broadcast_ops.broadcast_weights": "ops.training.weights.broadcast_weights",
    "ops.metrics_impl.metric_variable": "ops.training.metrics.metric_variable",
    "training.checkpoint_utils.wait_for_new_checkpoint": "train.checkpoints.waiting.wait_for_new_checkpoint",
    "training.checkpoint_ops._load_and_remap_matrix": "train.checkpoints.vocabulary_matrices._load_and_remap_matrix",
    "training.checkpoint_ops._load_and_remap_matrix_initializer": (
        "train.checkpoints.vocabulary_matrices._load_and_remap_matrix_initializer"
    ),
    "training.checkpoint_ops._load_embedding_initializer": "train.checkpoints.vocabulary_matrices._load_embedding_initializer",
    "training.warm_starting_util._warm_start_var_with_vocab": "train.checkpoints.warm_starting._warm_start_var_with_vocab",
    "summary.summary.scalar": "summary.scalar",
    "summary.summary.histogram": "summary.histogram",
    "summary.summary.image": "summary.image",
    "summary.summary.audio": "summary.audio",
    "summary.summary.text": "summary.text",
    "summary.summary.tensor_summary": "summary.tensor_summary",
    "summary.summary.merge": "summary.merge",
    "summary.summary.merge_all": "summary.merge_all",
    "summary.summary.get_summary_description": "summary.get_summary_description",
    "summary.writer.writer.FileWriter": "summary.FileWriter",
    "summary.writer.writer_cache.FileWriterCache": "summary.FileWriterCache",
    "training.supervisor.SVSummaryThread": "train.sessions.supervisor_services.SVSummaryThread",
    "training.supervisor.SVStepCounterThread": "train.sessions.supervisor_services.SVStepCounterThread",
    "training.supervisor.SVTimerCheckpointThread": "train.sessions.supervisor_services.SVTimerCheckpointThread",
    "training.evaluation._StopAfterNEvalsHook": "train.StopAfterNEvalsHook",
    "training.evaluation._MultiStepStopAfterNEvalsHook": "train.hooks.multi_step_hooks._MultiStepStopAfterNEvalsHook",
    "training.basic_session_run_hooks._MultiStepStopAtStepHook": "train.hooks.multi_step_hooks._MultiStepStopAtStepHook",
    "training.evaluation._evaluate_once": "train.evaluate_once",
    "training.evaluation._get_or_create_eval_step": "train.get_or_create_eval_step",
    "summary.summary_iterator.summary_iterator": "train.summary_iterator",
    "summary.plugin_asset.PluginAsset": "summary.PluginAsset",
    "summary.plugin_asset.get_plugin_asset": "summary.get_plugin_asset",
    "summary.plugin_asset.get_all_plugin_assets": "summary.get_all_plugin_assets",
}
"""`tensorflow.python.name` of TensorFlow, below `aioexec` here: internal there, or public under another name."""

MESSAGES = words("""
ConfigProto RunOptions RunMetadata GraphOptions OptimizerOptions RPCOptions GPUOptions CallableOptions ThreadPoolOptionProto
SessionMetadata TensorConnection
""")
"""Of TensorFlow's config.proto; here below `formats.protos`."""

NOT_OFFERED = {
    "ops._NodeDef, ops._create_c_op": "make nodes by hand; `Graph.create_op` does",
    "ops.get_stats_for_node_def, ops.OpStats": "statistics of a profiler that reads graphs, not runs",
    "ops._default_session_stack, ops._default_graph_stack": "kept in context variables: `aioexec.graph.defaults`",
    "ops.register_dense_tensor_like_type, ops.is_dense_tensor_like": "for classes of TensorFlow's own that are no tensors",
    "control_flow_ops.XLAControlFlowContext": "marks what XLA compiles; programs are compiled by aioexec.devices.jit",
    "control_flow_ops._Identity, control_flow_ops._Enter": "`identity`, `ops.control_flow.enter` and `ref_enter` say which",
    "errors_impl._make_specific_exception": "`errors.exception_type_from_error_code` gives the class to call",
    "errors_impl.raise_exception_on_not_ok_status": "reads the status of a C call",
    "summary_ops_v2.*, summary.initialize, summary.all_v2_summary_ops": "write from within eager execution",
}
"""Names that programs import and that are not here, with the reason."""
