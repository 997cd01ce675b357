# Encrypt a message with a Caesar shift, then break it by letter frequency.
import string

FREQ = "etaoinshrdlcumwfgypbvkjxqz"


def shift(text, key):
    low, up = string.ascii_lowercase, string.ascii_uppercase
    table = str.maketrans(low + up, low[key:] + low[:key] + up[key:] + up[:key])
    return text.translate(table)


def score(text):
    return sum(26 - FREQ.index(c) for c in text.lower() if c in FREQ)


message = "Meet me at the old bridge when the clock strikes twelve. Bring the letters!"
secret = shift(message, 11)
print(secret)

ranked = sorted(range(26), key=lambda k: score(shift(secret, k)), reverse=True)
print("best key:", ranked[0], "=> original shift", (26 - ranked[0]) % 26)
print(shift(secret, ranked[0]))
print(shift(shift(message, 13), 13) == message)
print(string.digits, string.hexdigits, repr(string.whitespace), string.capwords("the  quick brown-fox"))
