# Compute exact big numbers: 2**200, 100!, modular powers, and digits of e by integer arithmetic.
import math

print(2**200)
print(math.factorial(100))
print(pow(3, 10**6, 10**9 + 7), pow(17, -1, 3120), (1 << 64) - 1, -7 // 2, -7 % 3, divmod(-17, 5))
print((10**30 + 7) // (10**10 + 1), (10**30 + 7) % (10**10 + 1), (2**127 - 1).bit_length(), bin(10).count("1"))

digits = 60
one = 10 ** (digits + 5)
term = total = one
n = 1
while term:
    term //= n
    total += term
    n += 1
print(str(total)[0] + "." + str(total)[1:digits + 1])
print(math.isqrt(10**40 + 1), int("ff", 16), int("-0b101", 0), hex(2**70), f"{2**90:,}")


def is_prime(n):
    if n < 2 or n % 2 == 0:
        return n == 2
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if a >= n:
            continue
        x = pow(a, d, n)
        if x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(s - 1)):
            return False
    return True


print([p for p in (2**61 - 1, 2**67 - 1, 2**89 - 1, 10**18 + 9) if is_prime(p)])
print(float(2**53) + 1 == 2**53 + 1, 2**1023 * 1.5, int(1e23), 10**23 == 1e23)
