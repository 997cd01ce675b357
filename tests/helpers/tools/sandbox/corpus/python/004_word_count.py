# Count the words in this text, ignoring case and punctuation, and show the ten most common.
import string
from collections import Counter

text = """
It was the best of times, it was the worst of times, it was the age of wisdom,
it was the age of foolishness, it was the epoch of belief, it was the epoch of
incredulity, it was the season of Light, it was the season of Darkness...
"""

cleaned = text.lower().translate(str.maketrans("", "", string.punctuation))
words = cleaned.split()
counts = Counter(words)

print("Total words:", len(words))
print("Unique words:", len(counts))
for word, n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:10]:
    print(f"{word:<12} {n:>3} {'#' * n}")

letters = Counter(ch for ch in text.lower() if ch.isalpha())
print(letters.most_common(3))
print("Words used once:", sorted(w for w, n in counts.items() if n == 1))
