"""Elementary functions of float32, in the expression language.

Every polynomial is a minimax approximation made for this file: Remez exchange in 200-bit arithmetic, weighted so that the
*relative* error of the finished function is level, then coefficients rounded to float32 one by one, lowest first, the others
refitted after each. The comment gives the error of the exact polynomial as a power of two (an ulp is 2^-23 or less).

Two devices recur. Adding and subtracting 1.5 * 2^23 rounds to an integer, whose low bits then stand at the bottom of the sum's
bit pattern: shifted left by 23 they are an exponent. A constant is subtracted in parts, each by fma, so that nothing cancels.
"""

from __future__ import annotations

SOURCE = '''
def exp_reduced(r: float32):
    # e^r - 1 for |r| <= ln 2 / 2, 2^-34
    p = horner(r, 0.5, 0.16666647791862488, 0.041666481643915176, 0.008337878622114658, 0.0013933919835835695,
               0.0001734732650220394)
    return fma(r * r, p, r)

def exp_scaled(x: float32, n: int32):
    # 2^n e^x = 2^(k + n) e^r, in two factors, so that neither overflows before the product does
    y = maximum(minimum(x, 90.0), -105.0)
    t = fma(y, 1.4426950216293335, 12582912.0)
    k = t - 12582912.0
    r = fma(k, 1.9046542121259336e-09, fma(k, -0.6931471824645996, y))
    e = (bitcast(t, "int32") + n) << 23
    h = ((bitcast(t, "int32") + n) << 22) & 0xFF800000
    p = 1.0 + exp_reduced(r)
    return p * bitcast(h + 0x3F800000, "float32") * bitcast(e - h + 0x3F800000, "float32")

def expm1_quarter(x: float32):
    # (e^x - 1) / 4 = s (e^r - 1) + (s - 1/4) with s = 2^(k - 2)
    y = maximum(minimum(x, 89.5), -18.0)
    t = fma(y, 1.4426950216293335, 12582912.0)
    k = t - 12582912.0
    r = fma(k, 1.9046542121259336e-09, fma(k, -0.6931471824645996, y))
    s = bitcast((bitcast(t, "int32") << 23) + 0x3E800000, "float32")
    return fma(s, exp_reduced(r), s - 0.25)

def log_reduced(f: float32, c: float32):
    # log(1 + f) - f + c for 1 + f in [sqrt 1/2, sqrt 2], 2^-27
    q = horner(f, 0.3333333134651184, -0.250008225440979, 0.20001259446144104, -0.16623230278491974, 0.14200708270072937,
               -0.13159431517124176, 0.1280767172574997, -0.07742888480424881)
    return fma(f * f, fma(f, q, -0.5), c)

def log(x: float32):
    tiny = x < 1.1754943508222875e-38
    y = where(tiny, x * 8388608.0, x)
    e = (bitcast(y, "int32") - 0x3F3504F3) >> 23
    f = bitcast(bitcast(y, "int32") - (e << 23), "float32") - 1.0
    k = fma(cast(tiny, "float32"), -23.0, cast(e, "float32"))
    z = fma(k, 0.693145751953125, f + log_reduced(f, k * 1.428606765330187e-06))
    return log_special(x, z)

def log_special(x: float32, z: float32):
    # z for a positive finite x, and what the logarithm is elsewhere
    return where(x > 0, where(x < INF, z, x), where(x == 0, -INF, NAN * x))

def log1p(x: float32):
    # log(u) with u = 1 + x rounded, and what the rounding lost: d
    u = 1.0 + x
    d = where(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e = (bitcast(u, "int32") - 0x3F3504F3) >> 23
    f = bitcast(bitcast(u, "int32") - (e << 23), "float32") - 1.0
    g = fma(d, bitcast(maximum(0x3F800000 - (e << 23), 0), "float32"), f)
    k = cast(e, "float32")
    z = fma(k, 0.693145751953125, g + log_reduced(f, k * 1.428606765330187e-06))
    return where(abs(x) < 1e-30, x, log_special(u, z))
'''
