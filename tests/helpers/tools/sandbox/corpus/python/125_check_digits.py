# Validate credit card numbers, ISBNs, IBANs and EANs by their check digits.
def luhn(number):
    digits = [int(d) for d in number if d.isdigit()]
    doubled = [d if i % 2 == 0 else sum(divmod(d * 2, 10)) for i, d in enumerate(reversed(digits))]
    return len(digits) > 1 and sum(doubled) % 10 == 0


def isbn(text):
    s = text.replace("-", "")
    if len(s) == 10:
        return sum((10 if c == "X" else int(c)) * w for c, w in zip(s, range(10, 0, -1))) % 11 == 0
    return len(s) == 13 and sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(s)) % 10 == 0


def iban(text):
    s = text.replace(" ", "")
    return int("".join(str(int(c, 36)) for c in s[4:] + s[:4])) % 97 == 1


def ean_digit(first12):
    return -sum(int(c) * (1, 3)[i % 2] for i, c in enumerate(first12)) % 10


checks = [
    (luhn, ["4539 1488 0343 6467", "8273 1232 7352 0569", "79927398713", "0"]),
    (isbn, ["0-306-40615-2", "0-8044-2957-X", "978-3-16-148410-0", "978-3-16-148410-1", "123"]),
    (iban, ["DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "GB82 WEST 1234 5698 7654 33"]),
]
for check, numbers in checks:
    for number in numbers:
        print(f"{check.__name__:<5} {number:<28} {'valid' if check(number) else 'INVALID'}")
print(ean_digit("400638133393"), [n for n in range(10) if luhn(f"7992739871{n}")])
