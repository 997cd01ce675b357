# Show how floats are printed, compared and rounded, and where they surprise.
import math
import sys

values = [0.1, 0.1 + 0.2, 1 / 3, 100.0, 1e16, 1e15, 123456789.123456789, 1e-5, 0.0001, -0.0, 2.5e-310, float("inf"), float("nan")]
for v in values:
    print(f"{v!r:<24} {v:.3f} {v:g} {v:.10e}")
print(sys.float_info.max, sys.float_info.epsilon, math.nextafter(1.0, 2.0), math.ulp(1.0))
print((0.1).hex(), float.fromhex("0x1.8p+1"), (0.75).as_integer_ratio(), (3.0).is_integer())
print(0.1 + 0.1 + 0.1 - 0.3, math.fsum([0.1] * 10), 1.1 + 2.2, 3 * 0.1, 0.1 * 3 == 0.3, math.isclose(0.1 * 3, 0.3))
print(int(-3.9), round(-3.5), 7 // 2.0, -7.5 % 2, divmod(7.5, 2), 2**0.5, 10**-3, 5 / 1)
print(float("1_000.5"), float("  -1e3 "), str(1e22), str(1e21), 1e308 * 10, math.sqrt(2) ** 2)
print("%.0f %.0f %.0f" % (0.5, 1.5, 2.5), "%g" % 1e6, "%g" % 1234567.0, format(1e6, "g"), format(0.00012345, ".2g"))
try:
    math.exp(1000)
except OverflowError as e:
    print("OverflowError:", e)
try:
    math.sqrt(-1)
except ValueError as e:
    print("ValueError", isinstance(e, ArithmeticError))
nan = float("nan")
print(nan == nan, nan in [nan], sorted([3, 1.5, True, -2]), max(1, 1.0), hash(1.0) == hash(1))
