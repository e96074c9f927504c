"""Elementary functions of float64, in the expression language. Made as those of float32 are; see `math_float32`.

Here 1.5 * 2^52 rounds to an integer, and an exponent stands 52 bits up.
"""

from __future__ import annotations

SOURCE = '''
def exp_reduced(r: float64):
    # e^r - 1 for |r| <= ln 2 / 2, 2^-64
    p = horner(r, 0.5, 0.16666666666666688, 0.041666666666666824, 0.008333333333313899, 0.0013888888888777956,
               0.00019841269903369914, 2.4801587563348617e-05, 2.7557226951648597e-06, 2.755702058066478e-07,
               2.5122521455832828e-08, 2.080837194901805e-09)
    return fma(r * r, p, r)

def exp_scaled(x: float64, n: int64):
    y = maximum(minimum(x, 712.0), -750.0)
    t = fma(y, 1.4426950408889634, 6755399441055744.0)
    k = t - 6755399441055744.0
    r = fma(k, -2.3190468138462996e-17, fma(k, -0.6931471805599453, y))
    e = (bitcast(t, "int64") + n) << 52
    h = ((bitcast(t, "int64") + n) << 51) & 0xFFF0000000000000
    p = 1.0 + exp_reduced(r)
    return p * bitcast(h + 0x3FF0000000000000, "float64") * bitcast(e - h + 0x3FF0000000000000, "float64")

def expm1_quarter(x: float64):
    y = maximum(minimum(x, 710.6), -40.0)
    t = fma(y, 1.4426950408889634, 6755399441055744.0)
    k = t - 6755399441055744.0
    r = fma(k, -2.3190468138462996e-17, fma(k, -0.6931471805599453, y))
    s = bitcast((bitcast(t, "int64") << 52) + 0x3FD0000000000000, "float64")
    return fma(s, exp_reduced(r), s - 0.25)

def log_reduced(f: float64, c: float64):
    # f*f/2 - (log(1 + f) - f) - c for 1 + f in [sqrt 1/2, sqrt 2], through log(1 + f) = 2 atanh(s), 2^-59
    s = f / (2.0 + f)
    z = s * s
    p = horner(z, 0.6666666666666734, 0.39999999999416935, 0.2857142874193391, 0.2222219861606168, 0.18183562253422936,
               0.15314100169697015, 0.14795483416716143)
    h = 0.5 * f * f
    return h - fma(s, fma(z, p, h), c)

def log(x: float64):
    tiny = x < 2.2250738585072014e-308
    y = where(tiny, x * 18014398509481984.0, x)
    e = (bitcast(y, "int64") - 0x3FE6A09E667F3BCD) >> 52
    f = bitcast(bitcast(y, "int64") - (e << 52), "float64") - 1.0
    k = fma(cast(tiny, "float64"), -54.0, cast(e, "float64"))
    z = fma(k, 0.693147180559663, f - log_reduced(f, k * 2.8235290563031577e-13))
    return log_special(x, z)

def log_special(x: float64, z: float64):
    return where(x > 0, where(x < INF, z, x), where(x == 0, -INF, NAN * x))

def log1p(x: float64):
    u = 1.0 + x
    d = where(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e = (bitcast(u, "int64") - 0x3FE6A09E667F3BCD) >> 52
    f = bitcast(bitcast(u, "int64") - (e << 52), "float64") - 1.0
    s = bitcast(maximum(0x3FF0000000000000 - (e << 52), 0), "float64")
    k = cast(e, "float64")
    c = fma(k, 2.8235290563031577e-13, d * s / (1.0 + f))
    z = fma(k, 0.693147180559663, f - log_reduced(f, c))
    return where(abs(x) < 1e-30, x, log_special(u, z))
'''
