# List primes with the sieve of Eratosthenes, twin primes, and factor some numbers.
from collections import Counter
from math import isqrt


def sieve(limit):
    flags = bytearray([1]) * (limit + 1)
    flags[:2] = b"\0\0"
    for i in range(2, isqrt(limit) + 1):
        if flags[i]:
            flags[i * i::i] = bytes(len(range(i * i, limit + 1, i)))
    return [i for i, f in enumerate(flags) if f]


def factor(n):
    found, d = Counter(), 2
    while d * d <= n:
        while n % d == 0:
            found[d] += 1
            n //= d
        d += 1 if d == 2 else 2
    if n > 1:
        found[n] += 1
    return found


primes = sieve(10_000)
print(len(primes), primes[:10], primes[-3:], sum(primes))
twins = [(p, q) for p, q in zip(primes, primes[1:]) if q - p == 2]
print(len(twins), twins[-1], max(zip(primes[1:], primes), key=lambda t: t[0] - t[1]))
for n in (360, 1001, 99991, 2**16 - 1, 600851475143):
    text = " × ".join(f"{p}^{e}" if e > 1 else str(p) for p, e in sorted(factor(n).items()))
    divisors = 1
    for e in factor(n).values():
        divisors *= e + 1
    print(f"{n} = {text}  ({divisors} divisors)")
goldbach = next((a, 100 - a) for a in primes if 100 - a in set(primes))
print(goldbach, [n for n in range(1, 500) if sum(d for d in range(1, n) if n % d == 0) == n])
