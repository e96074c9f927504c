"""Elementary functions of float32, in the expression language.

Every polynomial is a minimax approximation made for this file: Remez exchange in 256-bit arithmetic, weighted so that the
*relative* error of the finished function is level; then coefficients rounded to float32 one by one, lowest first, the others
refitted after each (least squares on Chebyshev nodes). The comment gives the error of the rounded polynomial in exact
arithmetic as a power of two; an ulp is 2^-23 or less.

Two devices recur. Adding and subtracting 1.5 * 2^23 rounds to an integer, whose low bits then stand at the bottom of the sum's
bit pattern: shifted left by 23 they are an exponent. A constant is subtracted in parts, each by fma, so that nothing cancels.
"""

from __future__ import annotations

SOURCE = """
def rsqrt(x: float32):
    # Half the exponent comes with a shift of the bits; with h = 1 - x y*y, 1 / sqrt(x) = y / sqrt(1 - h), |h| < 0.07, 2^-25
    y = bitcast(0x5F3759DF - (bitcast(x, "int32") >> 1), "float32")
    h = fma(-(x * y), y, 1.0)
    p = horner(h, 0.4999983012676239, 0.3749995827674866, 0.31394603848457336, 0.27429720759391785)
    return libm("rsqrtf", x, fma(y * h, p, y), bitcast(x, "uint32") - 0x800000 >= 0x7F000000)

def exp_reduced(r: float32):
    # e^r - 1 for |r| <= ln 2 / 2, 2^-26
    p = horner(r, 0.4999999701976776, 0.1666654497385025, 0.04166744649410248, 0.008366446942090988,
               0.0013869843678548932)
    return fma(r * r, p, r)

def exp_sum(x: float32, c: float32, n: int32):
    return exp_scaled(maximum(minimum(x, 90.0), -105.0), c, n)

def exp_scaled(y: float32, c: float32, n: int32):
    # 2^n e^(y + c) for -105 <= y <= 90 and a small c, as 2^(k + n) e^r: two powers of 2, so that neither overflows before the
    # product does
    t = fma(y, 1.4426950216293335, 12582912.0)
    k = t - 12582912.0
    r = fma(k, 1.9046542121259336e-09, fma(k, -0.6931471824645996, y)) + c
    e = (bitcast(t, "int32") + n) << 23
    h = ((bitcast(t, "int32") + n) << 22) & 0xFF800000
    p = 1.0 + exp_reduced(r)
    return p * bitcast(h + 0x3F800000, "float32") * bitcast(e - h + 0x3F800000, "float32")

def expm1_moderate(x: float32):
    # e^x - 1 for |x| <= 80, where it is no matter of the last place that k ln 2 is subtracted in one part
    t = fma(x, 1.4426950216293335, 12582912.0)
    r = fma(t - 12582912.0, -0.6931471824645996, x)
    s = bitcast((bitcast(t, "int32") << 23) + 0x3F800000, "float32")
    return fma(s, exp_reduced(r), s - 1.0)

def tanh(x: float32):
    # With x = k ln 2 / 2 + u, s = 2^k and w = tanh u, (s (1 + w) - (1 - w)) / (s (1 + w) + (1 - w)), which is w for a small x;
    # w for |u| <= ln 2 / 4, 2^-24. 1 before 10. The constant that rounds is such that s is 2^23 times the sum's bits.
    y = maximum(minimum(x, 10.0), -10.0)
    t = fma(y, 2.885390043258667, 12583039.0)
    u = fma(t - 12583039.0, -0.3465735912322998, y)
    s = bitcast(bitcast(t, "int32") << 23, "float32")
    z = u * u
    w = u * horner(z, 1.0, -0.3333126902580261, 0.13110458850860596)
    a = 1.0 + s
    b = 1.0 - s
    return fma(a, w, -b) / fma(-b, w, a)

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
    q = horner(f, 0.3333333134651184, -0.2500084340572357, 0.20001034438610077, -0.1662246584892273, 0.1420724093914032,
               -0.13174821436405182, 0.12724409997463226, -0.07546304911375046)
    return fma(f * f, fma(f, q, -0.5), c)

def log(x: float32):
    # n: the bits above sqrt 1/2, and 23 exponents more for what was denormal
    tiny = x < 1.1754943508222875e-38
    y = bitcast(where(tiny, x * 8388608.0, x), "int32")
    n = y - where(tiny, like(y, 0x4AB504F3), 0x3F3504F3)
    f = bitcast((n & 0x7FFFFF) + 0x3F3504F3, "float32") - 1.0
    k = cast(n >> 23, "float32")
    z = fma(k, 0.693145751953125, f + log_reduced(f, k * 1.428606765330187e-06))
    signed = bitcast(bitcast(z, "int32") | (bitcast(x, "int32") >> 31), "float32")  # a NaN where x is negative
    return where(x < inf, where(x == 0, -inf, signed), x)

def log_special(x: float32, z: float32):
    # z for a positive finite x, and what the logarithm is elsewhere
    return where(x > 0, where(x < inf, z, x), where(x == 0, -inf, nan * x))

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

def less_half_turns(x: float32, k: float32):
    # x - k pi for |x| <= 1e6: pi is subtracted in three parts, all positive so that -0 stays what it is
    return fma(k, -1.0780605906948477e-14, fma(k, -1.5099578831723193e-07, fma(k, -3.141592502593994, x)))

def sine_reduced(r: float32):
    # sin(r) for |r| <= 1.61, so many half turns may be subtracted, 2^-27; the last digits are such that none exceeds 1
    z = r * r
    return r * horner(z, 1.0, -0.16666659712791443, 0.008333060890436172, -0.00019809210789389908, 2.604521114335512e-06)

def sin(x: float32):
    # sin(x - k pi), or of less that, for an odd k. Up to 1.5703125 there is nothing to reduce; from there on the sum has bit 30
    return sine_reduced(otherwise("less_turns", x, (bitcast(x, "int32") + 0x370000) & 0x40000000))

def less_turns(x: float32):
    t = fma(x, 0.31830987334251404, 12582912.0)
    r = less_half_turns(x, t - 12582912.0)
    r = bitcast(bitcast(r, "int32") ^ (bitcast(t, "int32") << 31), "float32")
    return libm("less_turnsf", x, r, ~(abs(x) < 1000000.0))

def cos(x: float32):
    # (-1)^(k + 1) sin(x - (k + 1/2) pi)
    t = fma(x, 0.31830987334251404, -0.5) + 12582913.0
    y = sine_reduced(less_half_turns(x, (t - 12582913.0) + 0.5))
    z = bitcast(bitcast(y, "int32") ^ (bitcast(t, "int32") << 31), "float32")
    return libm("cosf", x, z, ~(abs(x) < 1000000.0))

def tan(x: float32):
    a = abs(x)
    t = fma(a, 0.6366197466850281, 12582912.0)
    k = t - 12582912.0
    r = fma(k, 1.7151245100058819e-15, fma(k, 4.371138828673793e-08, fma(k, -1.5707963705062866, a)))
    z = r * r
    s = fma(r * z, horner(z, -0.1666666716337204, 0.008333371952176094, -0.00019849908130709082,
                          2.8004862997477176e-06), r)
    c = fma(z, fma(z, horner(z, 0.04166664555668831, -0.0013887310633435845, 2.4432552891084924e-05), -0.5), 1.0)
    even = (bitcast(t, "int32") & 1) == 0
    y = libm("tanf", a, where(even, s, -c) / where(even, c, s), ~(a < 1000000.0))
    return bitcast(bitcast(y, "int32") ^ (bitcast(x, "int32") & 0x80000000), "float32")

def asin_reduced(s: float32, z: float32):
    # asin(s) for 0 <= s <= 1/2, z = s*s, 2^-31
    p = horner(z, 0.16666659712791443, 0.07500513643026352, 0.04451585188508034, 0.03181334212422371,
               0.01442625094205141, 0.03752510994672775)
    return fma(s * z, p, s)

def half_pi_less(y: float32):
    # pi/2 - y
    return 1.5707963705062866 - (y + 4.371138828673793e-08)

def atan_reduced(t: float32):
    # atan(t) for |t| <= tan(pi/8), 2^-30
    z = t * t
    p = horner(z, -0.33333316445350647, 0.19998525083065033, -0.14244307577610016, 0.10598445683717728,
               -0.06088074669241905)
    return fma(t * z, p, t)

def atan(x: float32):
    a = abs(x)
    large = a > 2.414213562373095
    middle = a > 0.41421356237309503
    t = where(large, -1.0, where(middle, a - 1.0, a)) / where(large, a, where(middle, a + 1.0, 1.0))
    base = where(large, 1.5707963705062866, where(middle, like(t, 0.7853981852531433), 0.0))
    return copysign(base + atan_reduced(t), x)

def erf_near(x: float32):
    # x + x P(x*x) for |x| < 0.93, 2^-30
    z = x * x
    return fma(x, horner(z, 0.12837916612625122, -0.37612631916999817, 0.11283676326274872, -0.026858530938625336,
                         0.005199139472097158, -0.0008123064180836082, 8.292424899991602e-05), x)

def erf(x: float32):
    # 1 - e^P(|x|), 2^-24 with the coefficients as they are; 1 from 3.92 on
    a = minimum(abs(x), 4.0)
    p = a * horner(a, -1.128379225730896, -0.6366152167320251, -0.10282811522483826, 0.019374506548047066,
                   -0.00029827086837030947, -0.0011719843605533242, 0.0003482737229205668, -3.563058271538466e-05)
    return copysign(expm1_moderate(p), x)

def erfc(x: float32):
    # (1 + 2a) e^(a*a) erfc(a) is a polynomial of (a - b) / (a + b), 2^-28, with a b near 3 that makes c0 a float32
    a = minimum(abs(x), 10.1)
    q = (a - 2.8671875) / (a + 2.8671875)
    p = horner(q, 1.2560521364212036, -0.13319459557533264, -0.05969814211130142, 0.1379489302635193,
               -0.11746831238269806, 0.060324180871248245, -0.016633184626698494, -0.0006231824518181384,
               0.0021616737358272076, -0.00027604508795775473, -0.00023488498118240386)
    return erfc_joined(x, a, p / fma(2.0, a, 1.0))

def pow_positive(x: float32, y: float32):
    return cast(exp(cast(y, "float64") * log(cast(x, "float64"))), "float32")

def truncmod_real(x: float32, y: float32):
    q = x / y
    r = libm("fmodf", x, y, remainder(x, y, trunc(q)), ~(abs(q) < 4194304.0))
    return copysign(where(abs(x) < abs(y), x, r), x)
"""
