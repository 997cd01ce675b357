# Print the code point of each character, and the character after it.
for character in "aé€😀":
    print(f"{character} U+{ord(character):04X} {chr(ord(character) + 1)}")
print("\u00e9" == "é", "\N{EURO SIGN}", len("e\u0301"))
