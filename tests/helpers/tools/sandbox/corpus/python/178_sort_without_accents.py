# Sort the names by code point, and then without regard to accents and case.
import unicodedata

names = ["Zoë", "Émile", "Eva", "Ödön", "Olaf", "zora"]


def plain(text):
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).lower()


print(sorted(names))
print(sorted(names, key=plain))
