# Compute gcd by Euclid with its coefficients, totients, and a small RSA example.
from math import gcd


def egcd(a, b):
    if b == 0:
        return a, 1, 0
    g, x, y = egcd(b, a % b)
    return g, y, x - (a // b) * y


def totient(n):
    return sum(1 for k in range(1, n + 1) if gcd(k, n) == 1)


def crt(residues, moduli):
    product = 1
    for m in moduli:
        product *= m
    total = 0
    for r, m in zip(residues, moduli):
        p = product // m
        total += r * p * egcd(p, m)[1]
    return total % product


for a, b in [(240, 46), (1071, 462), (17, 3120)]:
    g, x, y = egcd(a, b)
    print(f"gcd({a},{b}) = {g} = {x}*{a} + {y}*{b}", a * x + b * y == g)
print([totient(n) for n in range(1, 21)])
print(crt([2, 3, 2], [3, 5, 7]))

p, q, e = 61, 53, 17
n, phi = p * q, (p - 1) * (q - 1)
d = egcd(e, phi)[1] % phi
secret = [pow(ord(ch), e, n) for ch in "HI!"]
print(n, phi, d, secret, "".join(chr(pow(c, d, n)) for c in secret))
print([(a, b, c) for a in range(1, 30) for b in range(a, 30) for c in range(b, 43) if a * a + b * b == c * c and gcd(a, b) == 1])
