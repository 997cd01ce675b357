# Group these words into anagrams, and find words that can be made from given letters.
from collections import Counter, defaultdict

words = "listen silent enlist google elgoog cat act tac dog god inlets below elbow state taste night thing".split()
groups = defaultdict(list)
for w in words:
    groups["".join(sorted(w))].append(w)

for key, members in sorted(groups.items(), key=lambda kv: (-len(kv[1]), kv[0])):
    if len(members) > 1:
        print(f"{key}: {', '.join(members)}")

letters = Counter("tgodnihcat")
print([w for w in words if not Counter(w) - letters])
print(Counter("mississippi") - Counter("miss"), Counter(a=3, b=1) & Counter(a=1, b=2), Counter(a=3, b=1) | Counter(b=2, c=5))
c = Counter("abracadabra")
c.subtract("aaab")
print(c.most_common(), c.total(), sorted(c.elements()), +c == c, c["zzz"])
c.update({"z": 3})
del c["a"]
print(c)
