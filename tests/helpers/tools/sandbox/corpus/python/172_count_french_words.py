# Count the words of this text, the most frequent first.
import re
from collections import Counter

text = "Le thé, le café et le thé vert. Où est le café ?"
words = re.findall(r"\w+", text.lower())
for word, times in sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])):
    print(word, times)
