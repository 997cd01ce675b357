# Spell out numbers in English, and read such words back.
ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = [(10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")]


def spell(n: int) -> str:
    if n < 0:
        return "minus " + spell(-n)
    if n < 20:
        return ONES[n]
    if n < 100:
        ten, one = divmod(n, 10)
        return TENS[ten] + (f"-{ONES[one]}" if one else "")
    for value, word in SCALES:
        if n >= value:
            count, rest = divmod(n, value)
            joint = " and " if rest and rest < 100 else " " if rest else ""
            return f"{spell(count)} {word}{joint}{spell(rest) if rest else ''}"
    raise AssertionError("not reached")


def read(text: str) -> int:
    total = current = 0
    sign = 1
    for word in text.replace("-", " ").split():
        if word == "minus":
            sign = -1
        elif word == "hundred":
            current *= 100
        elif word in dict((w, v) for v, w in SCALES):
            total, current = total + current * {w: v for v, w in SCALES}[word], 0
        elif word != "and":
            current += ONES.index(word) if word in ONES else TENS.index(word) * 10
    return sign * (total + current)


def ordinal(n):
    return f"{n}{'th' if 10 <= n % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


if __name__ == "__main__":
    for number in (0, 13, 21, 100, 342, 1001, 12_345, 1_000_000, 2_147_483_647, -45):
        text = spell(number)
        print(f"{number:>13,} {text}  {'ok' if read(text) == number else 'WRONG'}")
    print(", ".join(map(ordinal, [1, 2, 3, 4, 11, 12, 13, 21, 102, 113])))
    print(sum(len(spell(n).replace(" ", "").replace("-", "")) for n in range(1, 1001)))
