# Convert numbers to Roman numerals and back, refusing wrong ones.
NUMERALS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
            (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def to_roman(n):
    if not 0 < n < 4000:
        raise ValueError(f"{n} is out of range")
    out = ""
    for value, letters in NUMERALS:
        while n >= value:
            out += letters
            n -= value
    return out


def from_roman(text):
    values = dict((s, v) for v, s in NUMERALS)
    total = 0
    for a, b in zip(text, text[1:] + " "):
        v = values[a]
        total += -v if b != " " and values[b] > v else v
    if to_roman(total) != text:
        raise ValueError(f"{text} is not well formed")
    return total


for n in (1, 4, 9, 14, 40, 90, 400, 1994, 2024, 3999):
    print(f"{n:>5} {to_roman(n)}")
print(all(from_roman(to_roman(n)) == n for n in range(1, 4000)))
print(max(range(1, 4000), key=lambda n: len(to_roman(n))), max(map(len, map(to_roman, range(1, 4000)))))
for bad in ("IIII", "IC", "VX", "ABC"):
    try:
        print(from_roman(bad))
    except (ValueError, KeyError) as e:
        print(f"{bad}: {type(e).__name__} {e}")
