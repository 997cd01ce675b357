# Give statistics of this text: sentences, words, mean word length, syllables, and a readability score.
import re
from statistics import mean

TEXT = """Programming is the art of telling another human being what one wants the computer to do. It is hard!
Is it worth it? Of course it is. "Simple things should be simple," said Alan Kay; complex things should be possible."""

sentences = [s for s in re.split(r"(?<=[.!?])\s+", TEXT) if s]
words = re.findall(r"[A-Za-z']+", TEXT)


def syllables(word):
    count = len(re.findall(r"[aeiouy]+", word.lower()))
    return max(1, count - (word.lower().endswith("e") and not word.lower().endswith("le")))


total = sum(map(syllables, words))
score = 206.835 - 1.015 * len(words) / len(sentences) - 84.6 * total / len(words)
print(f"{len(TEXT)} characters, {len(words)} words, {len(sentences)} sentences, {total} syllables")
print(f"mean word {mean(map(len, words)):.3f}, mean sentence {len(words) / len(sentences):.2f}, Flesch {score:.2f}")
lengths = {}
for w in words:
    lengths.setdefault(len(w), []).append(w.lower())
for n in sorted(lengths):
    print(f"{n:>2} {len(lengths[n]):>2} {'■' * len(lengths[n])} {sorted(set(lengths[n]))[0]}")
