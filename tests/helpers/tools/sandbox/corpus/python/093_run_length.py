# Compress strings by run lengths and by LZ77-like pairs, and check that they come back.
import re
from itertools import groupby


def rle(text):
    return "".join(f"{n if n > 1 else ''}{ch}" for ch, n in ((c, len(list(g))) for c, g in groupby(text)))


def unrle(text):
    return re.sub(r"(\d+)(\D)", lambda m: m[2] * int(m[1]), text)


def lz(text, window=20):
    out, i = [], 0
    while i < len(text):
        best = (0, 0)
        for start in range(max(0, i - window), i):
            n = 0
            while i + n < len(text) - 1 and text[start + n] == text[i + n]:
                n += 1
            if n > best[1]:
                best = (i - start, n)
        out.append((*best, text[i + best[1]]))
        i += best[1] + 1
    return out


def unlz(parts):
    text = ""
    for back, n, ch in parts:
        for _ in range(n):
            text += text[-back]
        text += ch
    return text


for text in ("WWWWWWWWWWWWBWWWWWWWWWWWWBBB", "abc", "aabcccccaaa", ""):
    print(f"{text!r} -> {rle(text)!r} {unrle(rle(text)) == text}")
parts = lz("abracadabra abracadabra!")
print(parts, len(parts), unlz(parts))
