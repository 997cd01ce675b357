# Convert numbers between bases 2 to 36, with fractions, and show two's complement.
import string

DIGITS = string.digits + string.ascii_lowercase


def to_base(n, base):
    if n < 0:
        return "-" + to_base(-n, base)
    q, r = divmod(n, base)
    return (to_base(q, base) if q else "") + DIGITS[r]


def fraction(x, base, places):
    out = ""
    for _ in range(places):
        x *= base
        out += DIGITS[int(x)]
        x -= int(x)
    return out


for n in (0, 255, -1000, 2**31, 3735928559):
    print(n, to_base(n, 2), to_base(n, 8), to_base(n, 16), to_base(n, 36), int(to_base(n, 36), 36) == n)
print("0." + fraction(0.1, 2, 30), "0." + fraction(0.7, 16, 12), "0." + fraction(1 / 3, 3, 4))
for n in (5, -5, -128, 127):
    bits = format(n & 0xFF, "08b")
    print(f"{n:>4} {bits} {int(bits, 2) - (256 if bits[0] == '1' else 0)}")
print(f"{0b1010_1010 ^ 0xFF:08b} {5 & 3} {5 | 3} {5 ^ 3} {~5} {1 << 10} {-9 >> 1} {0o755:o}", int("z", 36), int("0x1F", 0))
try:
    int("12", 2)
except ValueError as e:
    print(e)
print([f"{n ^ (n >> 1):04b}" for n in range(8)], (1023).bit_count(), [i for i in range(12) if 0b101101 >> i & 1])
