# Write a file with accents in its name and its text, and read it as text and as bytes.
from pathlib import Path

path = Path("résumé.txt")
path.write_text("naïve\ncafé\n", encoding="utf-8")
print(path.name, len(path.read_bytes()), len(path.read_text(encoding="utf-8")))
with open("résumé.txt", encoding="utf-8") as file:
    for number, line in enumerate(file, start=1):
        print(number, line.strip().upper())
print(path.read_bytes()[:4])
