# Build a trie for autocompletion, with counts, and delete words from it.
class Trie:
    def __init__(self):
        self.root = {}

    def add(self, word, weight=1):
        node = self.root
        for ch in word:
            node = node.setdefault(ch, {})
        node["$"] = node.get("$", 0) + weight

    def _walk(self, node, prefix):
        for ch, child in node.items():
            if ch == "$":
                yield prefix, child
            else:
                yield from self._walk(child, prefix + ch)

    def complete(self, prefix, limit=3):
        node = self.root
        for ch in prefix:
            if ch not in node:
                return []
            node = node[ch]
        found = sorted(self._walk(node, prefix), key=lambda wc: (-wc[1], wc[0]))
        return [w for w, _ in found[:limit]]

    def remove(self, word, node=None, at=0):
        node = self.root if node is None else node
        if at == len(word):
            return node.pop("$", None) is not None
        if word[at] not in node or not self.remove(word, node[word[at]], at + 1):
            return False
        if not node[word[at]]:
            del node[word[at]]
        return True


trie = Trie()
for word in "car card care cart care cat dog care do car door car".split():
    trie.add(word)
print(trie.complete("car"), trie.complete("do", 10), trie.complete("x"), trie.complete("")[0])
print(trie.remove("card"), trie.remove("card"), trie.remove("ca"), trie.complete("car"))
print(sorted(trie._walk(trie.root, "")), sum(1 for _ in trie._walk(trie.root, "")))
