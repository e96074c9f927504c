"""Mathematics under the names of `tf.math`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.array.shapes_of import invert_permutation as invert_permutation
    from aioexec.ops.control_flow.checks import (
        is_non_decreasing as is_non_decreasing,
        is_strictly_increasing as is_strictly_increasing,
    )
    from aioexec.ops.math import binary_functions as _binary
    from aioexec.ops.math.arithmetic import (
        accumulate_n as accumulate_n,
        add as add,
        add_n as add_n,
        divide as divide,
        floordiv as floordiv,
        floormod as floormod,
        mod as mod,
        multiply as multiply,
        pow as pow,
        scalar_mul as scalar_mul,
        squared_difference as squared_difference,
        subtract as subtract,
        truediv as truediv,
    )
    from aioexec.ops.math.binary_functions import (
        atan2 as atan2,
        multiply_no_nan as multiply_no_nan,
        nextafter as nextafter,
        xdivy as xdivy,
        xlog1py as xlog1py,
        xlogy as xlogy,
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
    )
    from aioexec.ops.math.complex_numbers import angle as angle, conj as conj, imag as imag, real as real
    from aioexec.ops.math.derived_functions import (
        erfcinv as erfcinv,
        polyval as polyval,
        reciprocal_no_nan as reciprocal_no_nan,
    )
    from aioexec.ops.math.extremes import maximum as maximum, minimum as minimum
    from aioexec.ops.math.histograms import bincount as bincount
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
        bessel_i0 as bessel_i0,
        bessel_i0e as bessel_i0e,
        bessel_i1 as bessel_i1,
        bessel_i1e as bessel_i1e,
        betainc as betainc,
        digamma as digamma,
        erfinv as erfinv,
        igamma as igamma,
        igammac as igammac,
        lbeta as lbeta,
        lgamma as lgamma,
        ndtri as ndtri,
        polygamma as polygamma,
        zeta as zeta,
    )
    from aioexec.ops.nn.activations import softplus as softplus, softsign as softsign
    from aioexec.ops.nn.nn_ops import in_top_k as in_top_k, l2_normalize as l2_normalize, top_k as top_k
    from aioexec.ops.nn.softmax import log_softmax as log_softmax, softmax as softmax
    from aioexec.ops.reduction.arg_reduction import argmax as argmax, argmin as argmin
    from aioexec.ops.reduction.cumulative import (
        cumprod as cumprod,
        cumsum as cumsum,
        cumulative_logsumexp as cumulative_logsumexp,
    )
    from aioexec.ops.reduction.reductions import (
        reduce_all as reduce_all,
        reduce_any as reduce_any,
        reduce_euclidean_norm as reduce_euclidean_norm,
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
        zero_fraction as zero_fraction,
    )
    from aioexec.ops.training.confusion_matrix import confusion_matrix as confusion_matrix

    divide_no_nan = _binary.div_no_nan
else:
    __getattr__, __dir__ = public_names(__name__)
