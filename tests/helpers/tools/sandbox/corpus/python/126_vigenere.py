# Encrypt with Vigenère, XOR and rail fence ciphers, and decrypt again.
from itertools import cycle


def vigenere(text, key, sign=1):
    keys, out = cycle(key.upper()), []
    for ch in text:
        if ch.isalpha():
            base = 65 if ch.isupper() else 97
            ch = chr((ord(ch) - base + sign * (ord(next(keys)) - 65)) % 26 + base)
        out.append(ch)
    return "".join(out)


def rails(n, length):
    pattern = [*range(n), *range(n - 2, 0, -1)]
    return sorted(range(length), key=lambda i: (pattern[i % len(pattern)], i))


def fence(text, n):
    return "".join(text[i] for i in rails(n, len(text)))


def unfence(text, n):
    out = [""] * len(text)
    for ch, i in zip(text, rails(n, len(text))):
        out[i] = ch
    return "".join(out)


message = "Attack at Dawn, bring 3 Ladders!"
secret = vigenere(message, "Lemon")
print(secret, "|", vigenere(secret, "Lemon", -1))
print(fence(message, 3), "|", unfence(fence(message, 3), 3))
key = b"k3y"
xored = bytes(a ^ b for a, b in zip(message.encode(), cycle(key)))
print(xored.hex(), bytes(a ^ b for a, b in zip(xored, cycle(key))).decode())
atbash = str.maketrans({chr(97 + i): chr(122 - i) for i in range(26)})
print(message.lower().translate(atbash))
morse = dict(zip("SOE", ["...", "---", "."]))
print(" ".join(morse.get(c, "?") for c in "SOS E!"))
