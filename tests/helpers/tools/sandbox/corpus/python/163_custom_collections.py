# Write a case-insensitive dict, a sparse list and a priority set on top of collections.abc.
from collections.abc import Iterable, Mapping, MutableMapping, MutableSet, Sequence


class CaseDict(MutableMapping):
    def __init__(self, *args, **kwargs):
        self._data = {}
        self.update(*args, **kwargs)

    def __setitem__(self, key, value):
        self._data[key.lower()] = (key, value)

    def __getitem__(self, key):
        return self._data[key.lower()][1]

    def __delitem__(self, key):
        del self._data[key.lower()]

    def __iter__(self):
        return (key for key, _ in self._data.values())

    def __len__(self):
        return len(self._data)


class Sparse(Sequence):
    def __init__(self, size, values):
        self.size, self.values = size, values

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self.size))]
        if not -self.size <= i < self.size:
            raise IndexError(i)
        return self.values.get(i % self.size, 0)


headers = CaseDict({"Content-Type": "text/html"}, Accept="*/*")
headers["CONTENT-TYPE"] = "text/plain"
print(dict(headers), headers["content-type"], "ACCEPT" in headers, headers.get("x", "none"), len(headers))
print(headers.pop("accept"), headers.setdefault("Age", 3), list(headers.items()), headers == {"CONTENT-TYPE": "text/plain", "Age": 3})
row = Sparse(8, {2: 5, 6: 7})
print(list(row), row[-2], row[1:7:2], 7 in row, row.index(7), row.count(0), list(reversed(row))[:3], sum(row), max(row))
print(isinstance(headers, Mapping), isinstance(row, Sequence), isinstance(row, Iterable), issubclass(CaseDict, MutableSet))
try:
    row[8]
except IndexError as e:
    print("IndexError", e)
del headers["AGE"]
print(*headers, bool(CaseDict()), headers | {} if hasattr(headers, "__or__") else "no |")
