# Reverse each word, and say whether it is a palindrome.
for word in ["été", "kayak", "naïve", "шалаш", "日本"]:
    backwards = word[::-1]
    print(word, backwards, len(word), backwards == word)
