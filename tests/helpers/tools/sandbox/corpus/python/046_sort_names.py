# Sort these names without regard to case, then by length, then by last name and first name.
names = ["bob Stone", "Alice adams", "alice Zed", "Éva Kiss", "carl Adams", "Bob stone", "álvaro Ruiz"]

print(sorted(names))
print(sorted(names, key=str.lower))
print(sorted(names, key=str.casefold, reverse=True))
print(sorted(names, key=lambda n: (len(n), n.lower())))
print(sorted(names, key=lambda n: tuple(p.lower() for p in reversed(n.split()))))
print(max(names, key=len), min(names, key=str.swapcase))

files = ["img12.png", "img10.png", "IMG2.png", "img1.png"]


def natural(text):
    parts, digits = [], ""
    for ch in text.lower() + "\0":
        if ch.isdigit():
            digits += ch
        else:
            if digits:
                parts.append((1, int(digits), ""))
                digits = ""
            parts.append((0, 0, ch))
    return parts


print(sorted(files), sorted(files, key=natural), sep="\n")
words = "the Quick brown fox Jumps".split()
words.sort(key=str.lower, reverse=True)
print(words, list(map(str.title, words)), list(filter(str.islower, words)))
