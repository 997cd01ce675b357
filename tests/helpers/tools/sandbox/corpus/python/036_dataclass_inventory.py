# Model a stock of products with dataclasses: ordering, defaults, a frozen key, conversion to dicts.
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from dataclasses import FrozenInstanceError


@dataclass(frozen=True, order=True)
class Sku:
    family: str
    number: int = 0

    def __str__(self):
        return f"{self.family}-{self.number:04d}"


@dataclass
class Item:
    sku: Sku
    price: float
    stock: int = 0
    tags: list[str] = field(default_factory=list)
    value: float = field(init=False, repr=False)

    def __post_init__(self):
        if self.price < 0:
            raise ValueError("price must not be negative")
        self.value = self.price * self.stock


items = [Item(Sku("B", 2), 3.5, 10), Item(Sku("A", 11), 9.99, 3, ["new"]), Item(Sku("A", 2), 0.5, 200)]
for item in sorted(items, key=lambda i: i.sku):
    print(item.sku, f"{item.value:8.2f}", item.tags)
print(items[1])
print(asdict(items[1]))
print(astuple(items[0].sku), [f.name for f in fields(Item)])
cheaper = replace(items[0], price=3.0, tags=["sale"])
print(cheaper.value, items[0] == Item(Sku("B", 2), 3.5, 10), cheaper != items[0], {Sku("A", 1): 1}[Sku("A", 1)])
try:
    items[0].sku.number = 5
except FrozenInstanceError as e:
    print("frozen:", e)
try:
    Item(Sku("C"), -1)
except ValueError as e:
    print("ValueError:", e)
