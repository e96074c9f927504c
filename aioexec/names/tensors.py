"""Operations on tensors."""

from aioexec.formats import tensor_codec as _codec
from aioexec.formats.tensor_codec import make_tensor_proto as make_tensor_proto
from aioexec.ops.array.arrays import (
    broadcast_to as broadcast_to,
    expand_dims as expand_dims,
    matrix_transpose as matrix_transpose,
    reshape as reshape,
    squeeze as squeeze,
    tile as tile,
    transpose as transpose,
)
from aioexec.ops.array.bitcast import bitcast as bitcast
from aioexec.ops.array.filling import (
    fill as fill,
    lin_space as lin_space,
    linspace as linspace,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from aioexec.ops.array.gathering import (
    boolean_mask as boolean_mask,
    gather as gather,
    gather_nd as gather_nd,
    scatter_nd as scatter_nd,
)
from aioexec.ops.array.identity import (
    ensure_shape as ensure_shape,
    identity as identity,
    identity_n as identity_n,
    placeholder as placeholder,
    placeholder_with_default as placeholder_with_default,
    prevent_gradient as prevent_gradient,
    stop_gradient as stop_gradient,
)
from aioexec.ops.array.inplace import parallel_stack as parallel_stack
from aioexec.ops.array.joining import (
    concat as concat,
    meshgrid as meshgrid,
    split as split,
    stack as stack,
    unstack as unstack,
)
from aioexec.ops.array.masks import sequence_mask as sequence_mask
from aioexec.ops.array.ordering import reverse_sequence as reverse_sequence, roll as roll
from aioexec.ops.array.padding import pad as pad
from aioexec.ops.array.partitioning import (
    dynamic_partition as dynamic_partition,
    dynamic_stitch as dynamic_stitch,
)
from aioexec.ops.array.repeating import batch_gather as batch_gather, repeat as repeat
from aioexec.ops.array.reverse import reverse as reverse, reverse_v2 as reverse_v2
from aioexec.ops.array.searching import searchsorted as searchsorted, unravel_index as unravel_index
from aioexec.ops.array.set_difference import setdiff1d as setdiff1d
from aioexec.ops.array.shapes_of import (
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape,
    invert_permutation as invert_permutation,
    rank as rank,
    shape as shape,
    shape_n as shape_n,
    size as size,
)
from aioexec.ops.array.slicing import strided_slice as strided_slice
from aioexec.ops.array.space_and_batch import (
    batch_to_space as batch_to_space,
    batch_to_space_nd as batch_to_space_nd,
    depth_to_space as depth_to_space,
    space_to_batch as space_to_batch,
    space_to_batch_nd as space_to_batch_nd,
    space_to_depth as space_to_depth,
)
from aioexec.ops.array.unique import unique as unique, unique_with_counts as unique_with_counts
from aioexec.ops.common.tensor_values import get_static_value as get_static_value, is_tensor as is_tensor
from aioexec.ops.control_flow.checks import is_numeric_tensor as is_numeric_tensor
from aioexec.ops.control_flow.numerics import (
    add_check_numerics_ops as add_check_numerics_ops,
    check_numerics as check_numerics,
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from aioexec.ops.convolution.functions import (
    required_space_to_batch_paddings as required_space_to_batch_paddings,
)
from aioexec.ops.image.random_crops import random_crop as random_crop
from aioexec.ops.io.decoding import decode_csv as decode_csv, decode_raw as decode_raw
from aioexec.ops.io.example_functions import (
    FixedLenFeature as FixedLenFeature,
    FixedLenSequenceFeature as FixedLenSequenceFeature,
    SparseFeature as SparseFeature,
    VarLenFeature as VarLenFeature,
    parse_example as parse_example,
    parse_single_example as parse_single_example,
)
from aioexec.ops.io.sequence_example_functions import (
    parse_single_sequence_example as parse_single_sequence_example,
)
from aioexec.ops.io.tensor_protos import parse_tensor as parse_tensor, serialize_tensor as serialize_tensor
from aioexec.ops.linalg.decompositions import (
    cholesky as cholesky,
    qr as qr,
    self_adjoint_eig as self_adjoint_eig,
    self_adjoint_eigvals as self_adjoint_eigvals,
    svd as svd,
)
from aioexec.ops.linalg.einsum import einsum as einsum
from aioexec.ops.linalg.linear_equations import (
    cholesky_solve as cholesky_solve,
    matrix_determinant as matrix_determinant,
    matrix_inverse as matrix_inverse,
    matrix_solve as matrix_solve,
    matrix_solve_ls as matrix_solve_ls,
    matrix_triangular_solve as matrix_triangular_solve,
)
from aioexec.ops.linalg.matrix_diagonals import (
    diag as diag,
    diag_part as diag_part,
    eye as eye,
    matrix_band_part as matrix_band_part,
    matrix_diag as matrix_diag,
    matrix_diag_part as matrix_diag_part,
    matrix_set_diag as matrix_set_diag,
    trace as trace,
)
from aioexec.ops.linalg.matrix_functions import matrix_square_root as matrix_square_root
from aioexec.ops.linalg.products import cross as cross, matmul as matmul
from aioexec.ops.linalg.tensordot import tensordot as tensordot
from aioexec.ops.math.arithmetic import (
    accumulate_n as accumulate_n,
    add as add,
    add_n as add_n,
    div as div,
    divide as divide,
    floor_div as floor_div,
    floordiv as floordiv,
    floormod as floormod,
    mod as mod,
    multiply as multiply,
    pow as pow,
    realdiv as realdiv,
    scalar_mul as scalar_mul,
    squared_difference as squared_difference,
    subtract as subtract,
    truediv as truediv,
    truncatediv as truncatediv,
    truncatemod as truncatemod,
)
from aioexec.ops.math.binary_functions import atan2 as atan2, div_no_nan as div_no_nan
from aioexec.ops.math.cast import (
    cast as cast,
    saturate_cast as saturate_cast,
    to_bfloat16 as to_bfloat16,
    to_complex64 as to_complex64,
    to_complex128 as to_complex128,
    to_double as to_double,
    to_float as to_float,
    to_int32 as to_int32,
    to_int64 as to_int64,
)
from aioexec.ops.math.comparison import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    is_finite as is_finite,
    is_inf as is_inf,
    is_nan as is_nan,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
    where as where,
    where_v2 as where_v2,
)
from aioexec.ops.math.complex_numbers import (
    angle as angle,
    complex as complex,
    conj as conj,
    imag as imag,
    real as real,
)
from aioexec.ops.math.extremes import clip_by_value as clip_by_value, maximum as maximum, minimum as minimum
from aioexec.ops.math.fourier import (
    fft as fft,
    fft2d as fft2d,
    fft3d as fft3d,
    ifft as ifft,
    ifft2d as ifft2d,
    ifft3d as ifft3d,
)
from aioexec.ops.math.histograms import (
    bincount as bincount,
    histogram_fixed_width as histogram_fixed_width,
    histogram_fixed_width_bins as histogram_fixed_width_bins,
)
from aioexec.ops.math.math_functions import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atanh as atanh,
    ceil as ceil,
    cos as cos,
    cosh as cosh,
    erf as erf,
    erfc as erfc,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    log as log,
    log1p as log1p,
    log_sigmoid as log_sigmoid,
    negative as negative,
    reciprocal as reciprocal,
    rint as rint,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    tan as tan,
    tanh as tanh,
)
from aioexec.ops.math.special_functions import (
    betainc as betainc,
    digamma as digamma,
    igamma as igamma,
    igammac as igammac,
    lbeta as lbeta,
    lgamma as lgamma,
    polygamma as polygamma,
    zeta as zeta,
)
from aioexec.ops.nn.fake_quantization import (
    fake_quant_with_min_max_args as fake_quant_with_min_max_args,
    fake_quant_with_min_max_vars as fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel,
)
from aioexec.ops.nn.sorting import argsort as argsort, sort as sort
from aioexec.ops.pooling.patches import extract_image_patches as extract_image_patches
from aioexec.ops.random.distributions import random_gamma as random_gamma, random_poisson as random_poisson
from aioexec.ops.random.random_ops import (
    get_seed as get_seed,
    multinomial as multinomial,
    random_normal as random_normal,
    random_shuffle as random_shuffle,
    random_uniform as random_uniform,
    set_random_seed as set_random_seed,
    truncated_normal as truncated_normal,
)
from aioexec.ops.reduction.arg_reduction import (
    arg_max as arg_max,
    arg_min as arg_min,
    argmax as argmax,
    argmin as argmin,
)
from aioexec.ops.reduction.cumulative import cumprod as cumprod, cumsum as cumsum
from aioexec.ops.reduction.norms import (
    clip_by_average_norm as clip_by_average_norm,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    global_norm as global_norm,
    norm as norm,
)
from aioexec.ops.reduction.reductions import (
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
)
from aioexec.ops.reduction.segments import (
    segment_max as segment_max,
    segment_mean as segment_mean,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
    unsorted_segment_max as unsorted_segment_max,
    unsorted_segment_mean as unsorted_segment_mean,
    unsorted_segment_min as unsorted_segment_min,
    unsorted_segment_prod as unsorted_segment_prod,
    unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
    unsorted_segment_sum as unsorted_segment_sum,
)
from aioexec.ops.reduction.statistics import (
    count_nonzero as count_nonzero,
    reduce_logsumexp as reduce_logsumexp,
    reduce_std as reduce_std,
    reduce_variance as reduce_variance,
)
from aioexec.ops.sparse.conversions import (
    deserialize_many_sparse as deserialize_many_sparse,
    serialize_many_sparse as serialize_many_sparse,
    serialize_sparse as serialize_sparse,
    sparse_mask as sparse_mask,
    sparse_merge as sparse_merge,
    sparse_reduce_max_sparse as sparse_reduce_max_sparse,
    sparse_reduce_sum_sparse as sparse_reduce_sum_sparse,
    sparse_reset_shape as sparse_reset_shape,
    sparse_to_indicator as sparse_to_indicator,
)
from aioexec.ops.sparse.functions import (
    sparse_add as sparse_add,
    sparse_concat as sparse_concat,
    sparse_fill_empty_rows as sparse_fill_empty_rows,
    sparse_maximum as sparse_maximum,
    sparse_minimum as sparse_minimum,
    sparse_reduce_max as sparse_reduce_max,
    sparse_reduce_sum as sparse_reduce_sum,
    sparse_reorder as sparse_reorder,
    sparse_reshape as sparse_reshape,
    sparse_retain as sparse_retain,
    sparse_slice as sparse_slice,
    sparse_softmax as sparse_softmax,
    sparse_split as sparse_split,
    sparse_tensor_dense_matmul as sparse_tensor_dense_matmul,
    sparse_tensor_to_dense as sparse_tensor_to_dense,
    sparse_to_dense as sparse_to_dense,
    sparse_transpose as sparse_transpose,
)
from aioexec.ops.sparse.segments import (
    sparse_segment_mean as sparse_segment_mean,
    sparse_segment_sqrt_n as sparse_segment_sqrt_n,
    sparse_segment_sum as sparse_segment_sum,
)
from aioexec.ops.state.counting import count_up_to as count_up_to
from aioexec.ops.strings.edit_distance import edit_distance as edit_distance
from aioexec.ops.strings.formats import print as print
from aioexec.ops.strings.functions import (
    decode_base64 as decode_base64,
    encode_base64 as encode_base64,
    reduce_join as reduce_join,
    string_join as string_join,
    string_split as string_split,
    string_strip as string_strip,
    substr as substr,
)
from aioexec.ops.strings.numbers import (
    as_string as as_string,
    string_to_hash_bucket as string_to_hash_bucket,
    string_to_hash_bucket_fast as string_to_hash_bucket_fast,
    string_to_hash_bucket_strong as string_to_hash_bucket_strong,
    string_to_number as string_to_number,
)
from aioexec.ops.strings.regular_expressions import regex_replace as regex_replace
from aioexec.ops.training.confusion_matrix import confusion_matrix as confusion_matrix

make_ndarray = _codec.MakeNdarray
