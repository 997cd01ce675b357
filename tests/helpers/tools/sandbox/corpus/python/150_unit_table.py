# Print a table of miles, kilometres, feet and metres, and convert given values like "5 mi" and "12ft".
import re

FACTORS = {"km": 1000.0, "m": 1.0, "cm": 0.01, "mi": 1609.344, "yd": 0.9144, "ft": 0.3048, "in": 0.0254}

print(f"{'mi':>5} | {'km':>9} | {'ft':>9}")
print("-" * 5 + "-+-" + "-" * 9 + "-+-" + "-" * 9)
for miles in [1, 2, 5, 10, 26.2]:
    metres = miles * FACTORS["mi"]
    print(f"{miles:>5} | {metres / 1000:>9.3f} | {metres / FACTORS['ft']:>9,.0f}")


def convert(text, target):
    match = re.fullmatch(r"\s*(-?[\d.]+)\s*([a-z]+)\s*", text, re.IGNORECASE)
    if not match or match.group(2).lower() not in FACTORS:
        return f"cannot read {text!r}"
    value = float(match.group(1)) * FACTORS[match.group(2).lower()] / FACTORS[target]
    return f"{text.strip()} = {value:.4g} {target}"


for text, target in [("5 mi", "km"), ("12ft", "m"), (" 100 CM", "in"), ("3 parsec", "m"), ("0.5 yd", "cm"), ("1000000 m", "km")]:
    print(convert(text, target))
print(f"BMI {70 / 1.75 ** 2:.1f}, 5'11\" = {5 * 12 + 11} in = {(5 * 12 + 11) * 2.54:.2f} cm, 98.6°F = {(98.6 - 32) * 5 / 9:.1f}°C")
