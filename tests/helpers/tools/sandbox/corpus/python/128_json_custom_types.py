# Save dates, sets, decimals, dataclasses and enums as JSON and load them back.
import json
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum


class Color(str, Enum):
    RED = "red"


@dataclass
class Car:
    make: str
    built: date
    price: Decimal


class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, (date, datetime)):
            return {"$date": o.isoformat()}
        if isinstance(o, (set, frozenset)):
            return {"$set": sorted(o)}
        if isinstance(o, Decimal):
            return {"$decimal": str(o)}
        if is_dataclass(o):
            return {"$" + type(o).__name__: asdict(o)}
        return super().default(o)


def hook(d):
    match d:
        case {"$date": text}:
            return date.fromisoformat(text)
        case {"$set": items}:
            return set(items)
        case {"$decimal": text}:
            return Decimal(text)
        case {"$Car": fields}:
            return Car(**fields)
    return d


data = {"car": Car("Mini", date(2020, 2, 29), Decimal("19999.90")), "tags": {"b", "a"}, "color": Color.RED, 1: (None, True, 1.0)}
text = json.dumps(data, cls=Encoder)
print(text)
back = json.loads(text, object_hook=hook)
print(sorted(back["tags"]), back["car"], back["color"], back["1"], back["car"] == data["car"], back["tags"] == data["tags"], "1" in back)
try:
    json.dumps({"span": timedelta(1)}, cls=Encoder)
except TypeError as e:
    print(e)
print(json.dumps(float("nan")), json.dumps("é\u2028\x07</script>"), json.loads("[1e2, -0.0, 12345678901234567890]"))
print(json.loads('{"a": 1.10, "a": 2.20}', parse_float=Decimal), json.dumps({"b": 1, "a": [1, {"c": []}]}, indent=2, sort_keys=True))
