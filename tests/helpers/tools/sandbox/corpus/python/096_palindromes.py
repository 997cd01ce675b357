# Find palindromic sentences, the longest palindromic substring, and numbers that are palindromes in base 2 and 10.
def is_palindrome(text):
    letters = [c.lower() for c in text if c.isalnum()]
    return letters == letters[::-1]


def longest(text):
    best = ""
    for middle in range(len(text)):
        for left, right in ((middle, middle), (middle, middle + 1)):
            while left >= 0 and right < len(text) and text[left] == text[right]:
                left, right = left - 1, right + 1
            if right - left - 1 > len(best):
                best = text[left + 1:right]
    return best


for s in ["A man, a plan, a canal: Panama!", "Was it a car or a cat I saw?", "Not a palindrome", "", "Ésope reste ici et se repose"]:
    print(f"{is_palindrome(s)!s:<6}{s}")
print(longest("forgeeksskeegfor"), longest("abacdfgdcaba"), longest("xyz"))
print([n for n in range(1, 1000) if str(n) == str(n)[::-1] and f"{n:b}" == f"{n:b}"[::-1]])
n, steps = 89, 0
while str(n) != str(n)[::-1]:
    n, steps = n + int(str(n)[::-1]), steps + 1
print(n, steps)
print(max((a * b for a in range(100, 1000) for b in range(990, 1000) if str(a * b) == str(a * b)[::-1])))
