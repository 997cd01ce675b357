# Explain with examples which objects are true and false in Python, __bool__ and __len__ included.
class Basket:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items


class Switch:
    def __init__(self, on):
        self.on = on

    def __bool__(self):
        return self.on

    def __len__(self):
        return 99


class Plain:
    pass


things = [0, 0.0, "", " ", [], [0], {}, None, Basket(), Basket("egg"), Switch(False), Switch(True), Plain(), range(0), -1]
for thing in things:
    label = type(thing).__name__ if hasattr(thing, "__dict__") else repr(thing)
    print(f"{label:<12} {'true' if thing else 'false'}")

basket = Basket("egg", "ham")
if not basket:
    print("never")
while basket:
    print("took", basket.items.pop())
print(Basket() or "default", len(Switch(True)), "x" in Basket("x"), any([Basket(), Switch(False)]), all([]))
print(None or 0 or "last", 1 and "and" and 2, not Switch(False), [b for b in (Basket(), Basket(1)) if b][0].items)
