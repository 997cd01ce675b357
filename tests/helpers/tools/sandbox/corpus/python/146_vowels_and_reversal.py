# Count the vowels in a sentence, reverse its words, and check which letters are missing from the alphabet.
sentence = "The quick brown fox jumps over the lazy dog, doesn't it?"
vowels = sum(1 for c in sentence.lower() if c in "aeiou")
print(f"Vowels: {vowels}")
print("Reversed words:", " ".join(word[::-1] for word in sentence.split()))
print("Reversed order:", " ".join(reversed(sentence.split())))
letters = set(filter(str.isalpha, sentence.lower()))
print("Missing:", sorted(set("abcdefghijklmnopqrstuvwxyz") - letters) or "none - it is a pangram")
print("Longest word:", max(sentence.split(), key=len), "| title:", sentence.title())
