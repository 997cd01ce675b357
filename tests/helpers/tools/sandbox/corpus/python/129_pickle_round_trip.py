# Save a game's state with pickle and load it back; leave out what cannot be saved.
import pickle
import threading


class Player:
    def __init__(self, name, items):
        self.name, self.items, self.friends = name, items, []
        self.lock = threading.Lock()

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["lock"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = threading.Lock()

    def __repr__(self):
        return f"Player({self.name}, {self.items}, friends={[f.name for f in self.friends]})"


a, b = Player("ann", ["sword"]), Player("bob", [])
a.friends.append(b)
b.friends.append(a)
with open("save.pkl", "wb") as f:
    pickle.dump({"level": 7, "players": [a, b]}, f)
with open("save.pkl", "rb") as f:
    state = pickle.load(f)

x, y = state["players"]
print(state)
print(x is not a, x.friends[0] is y, y.friends[0] is x, x.lock.acquire(blocking=False))
for value in [1, "é", (1, [2.5, None]), {"k": {1, 2}}, b"bytes", range(3), 2**100, complex(1, 2)]:
    assert pickle.loads(pickle.dumps(value)) == value
print("all equal")
try:
    pickle.dumps(lambda: 1)
except (pickle.PicklingError, AttributeError) as e:
    print("cannot pickle a lambda")
try:
    pickle.loads(b"garbage")
except pickle.UnpicklingError as e:
    print("UnpicklingError")
