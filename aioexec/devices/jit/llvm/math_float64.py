"""Elementary functions of float64, in the expression language. Made as those of float32 are; see `math_float32`.

Here 1.5 * 2^52 rounds to an integer, and an exponent stands 52 bits up.
"""

from __future__ import annotations

SOURCE = """
def exp_reduced(r: float64):
    # e^r - 1 for |r| <= ln 2 / 2, 2^-63
    p = horner(r, 0.5, 0.16666666666666685, 0.041666666666666526, 0.008333333333315995, 0.0013888888888968006,
               0.00019841269898513518, 2.4801587155248963e-05, 2.7557233039832656e-06, 2.755741770284334e-07,
               2.511259393317407e-08, 2.0871063566459838e-09)
    return fma(r * r, p, r)

def exp_sum(x: float64, c: float64, n: int64):
    y = maximum(minimum(x, 712.0), -750.0)
    t = fma(y, 1.4426950408889634, 6755399441055744.0)
    k = t - 6755399441055744.0
    r = fma(k, -2.3190468138462996e-17, fma(k, -0.6931471805599453, y)) + c
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
    p = horner(z, 0.6666666666666734, 0.3999999999941737, 0.2857142874178557, 0.22222198634503265, 0.18183561187375888,
               0.1531412928620269, 0.14795179467391048)
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
    return where(x > 0, where(x < inf, z, x), where(x == 0, -inf, nan * x))

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

def circular(x: float64, n: int64):
    # sin: 2^-62, cos: 2^-64
    t = fma(x, 0.6366197723675814, 6755399441055744.0)
    k = t - 6755399441055744.0
    r = fma(k, 1.4973849048591698e-33, fma(k, -6.123233995736766e-17, fma(k, -1.5707963267948966, x)))
    z = r * r
    s = fma(r * z, horner(z, -0.16666666666666666, 0.008333333333333099, -0.00019841269841054633,
                          2.7557319127959025e-06, -2.50520856396006e-08, 1.6056208966065044e-10,
                          -7.483020008026973e-13), r)
    c = fma(z, fma(z, horner(z, 0.041666666666666595, -0.0013888888888873335, 2.4801587288993714e-05,
                             -2.7557314213442443e-07, 2.0875704759538726e-09, -1.135870929908471e-11), -0.5), 1.0)
    q = bitcast(t, "int64") + n
    y = bitcast(where((q & 1) == 0, s, c), "int64")
    return bitcast(y ^ ((q & 2) << 62), "float64")

def sin(x: float64):
    a = abs(x)
    y = libm("sin", a, circular(a, 0), ~(a < 1000000.0))
    return bitcast(bitcast(y, "int64") ^ (bitcast(x, "int64") & 0x8000000000000000), "float64")

def cos(x: float64):
    a = abs(x)
    return libm("cos", a, circular(a, 1), ~(a < 1000000.0))

def tan(x: float64):
    a = abs(x)
    t = fma(a, 0.6366197723675814, 6755399441055744.0)
    k = t - 6755399441055744.0
    r = fma(k, 1.4973849048591698e-33, fma(k, -6.123233995736766e-17, fma(k, -1.5707963267948966, a)))
    z = r * r
    s = fma(r * z, horner(z, -0.16666666666666666, 0.008333333333333099, -0.00019841269841054633,
                          2.7557319127959025e-06, -2.50520856396006e-08, 1.6056208966065044e-10,
                          -7.483020008026973e-13), r)
    c = fma(z, fma(z, horner(z, 0.041666666666666595, -0.0013888888888873335, 2.4801587288993714e-05,
                             -2.7557314213442443e-07, 2.0875704759538726e-09, -1.135870929908471e-11), -0.5), 1.0)
    even = (bitcast(t, "int64") & 1) == 0
    y = libm("tan", a, where(even, s, -c) / where(even, c, s), ~(a < 1000000.0))
    return bitcast(bitcast(y, "int64") ^ (bitcast(x, "int64") & 0x8000000000000000), "float64")

def asin_reduced(s: float64, z: float64):
    # 2^-59
    p = horner(z, 0.1666666666666676, 0.07499999999971219, 0.044642857174042185, 0.030381942740134213,
               0.02237221398360234, 0.017351631175967497, 0.013980581523607373, 0.011400920659496508,
               0.01076879216793792, 0.003750217722994498, 0.021600033315830273, -0.020846354011875803,
               0.03253290327006991)
    return fma(s * z, p, s)

def half_pi_less(y: float64):
    return 1.5707963267948966 - (y - 6.123233995736766e-17)

def atan_reduced(t: float64):
    # 2^-59
    z = t * t
    p = horner(z, -0.333333333333332, 0.19999999999953388, -0.1428571428015626, 0.11111110780912672,
               -0.09090897676211049, 0.07692058687594107, -0.06663086274935932, 0.05847759031864436,
               -0.05038719378391747, 0.038049830212747465, -0.017891303297735334)
    return fma(t * z, p, t)

def atan(x: float64):
    a = abs(x)
    large = a > 2.414213562373095
    middle = a > 0.41421356237309503
    t = where(large, -1.0, where(middle, a - 1.0, a)) / where(large, a, where(middle, a + 1.0, 1.0))
    base = where(large, 1.5707963267948966, where(middle, like(t, 0.7853981633974483), 0.0))
    low = where(large, 6.123233995736766e-17, where(middle, like(t, 3.061616997868383e-17), 0.0))
    return copysign(base + (atan_reduced(t) + low), x)

def erf_near(x: float64):
    # x + x P(x*x) for |x| < 1, 2^-56
    z = x * x
    return fma(x, horner(z, 0.1283791670955126, -0.37612638903183876, 0.11283791670958743, -0.02686617064561954,
                         0.005223977629095658, -0.0008548327189606624, 0.00012055337777810952,
                         -1.4925738504204218e-05, 1.646308709483387e-06, -1.637063829093387e-07,
                         1.4786548418167036e-08, -1.1830590465705277e-09, 6.684830822627492e-11), x)

def erf(x: float64):
    return where(abs(x) < 1.0, erf_near(x), copysign(1.0 - erfc(abs(x)), x))

def erfc(x: float64):
    # (1 + 2a) e^(a*a) erfc(a) is a polynomial of (a - b) / (a + b), 2^-58, with a b near 4 that makes c0 a float64
    a = minimum(abs(x), 28.0)
    q = (a - 4.17578125) / (a + 4.17578125)
    p = horner(q, 1.2300009962916396, -0.13880507346529403, 0.02246714708266929, 0.05884311284113833,
               -0.09506621009135359, 0.09334226256235077, -0.07037406958072576, 0.04280276718437715,
               -0.020974341354393588, 0.007935520955433928, -0.0020170730748604007, 0.00013128065110257813,
               0.00015117422301753476, -6.669912550433408e-05, 3.776867891571321e-06, 6.831259650068973e-06,
               -2.137282409831388e-06, -4.280558913104908e-07, 3.6809168336850616e-07, 8.264886430309592e-09,
               -5.398936808106269e-08, -6.208356942005555e-10, 6.40432388697997e-09, 1.1367001269040625e-09)
    return erfc_joined(x, a, p / fma(2.0, a, 1.0))

def pow_positive(x: float64, y: float64):
    # e^(y log x), with the logarithm and the product as sums of two float64 (high + low). log(1 + f) = 2 atanh(s) =
    # s (2 + z (2/3 + z P(z))), z = s*s, 2^-66.
    tiny = x < 2.2250738585072014e-308
    m = where(tiny, x * 18014398509481984.0, x)
    e = (bitcast(m, "int64") - 0x3FE6A09E667F3BCD) >> 52
    f = bitcast(bitcast(m, "int64") - (e << 52), "float64") - 1.0
    k = fma(cast(tiny, "float64"), -54.0, cast(e, "float64"))
    d = 2.0 + f
    i = 1.0 / d
    s = f * i
    s_low = fma(-s, f - (d - 2.0), fma(-s, d, f)) * i
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    u = z * horner(z, 0.40000000000002256, 0.2857142857009998, 0.22222222519807436, 0.18181784379666546,
                   0.1538675667864995, 0.1325683410115081, 0.13196169868319108)
    v = 0.6666666666666666 + u
    v_low = (u - (v - 0.6666666666666666)) + 3.700743415417188e-17
    p = z * v
    p_low = fma(z, v, -p) + fma(z, v_low, z_low * v)
    w = 2.0 + p
    w_low = (p - (w - 2.0)) + p_low
    g = s * w
    g_low = fma(s, w, -g) + fma(s, w_low, s_low * w)
    h = k * 0.693147180559663
    l = h + g
    l_low = fma(k, 2.8235290563031577e-13, ((h - l) + g) + g_low)
    high = y * log_special(x, l)
    low = fma(y, l, -high) + y * l_low
    return exp_sum(high, where(abs(high) < 800.0, low, 0.0), 0)

def truncmod_real(x: float64, y: float64):
    q = x / y
    r = libm("fmod", x, y, remainder(x, y, trunc(q)), ~(abs(q) < 2251799813685248.0))
    return copysign(where(abs(x) < abs(y), x, r), x)
"""
