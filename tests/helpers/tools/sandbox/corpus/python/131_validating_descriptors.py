# Write reusable descriptors that check attributes, with __set_name__, __getattr__ and __init_subclass__.
class Checked:
    def __init__(self, kind, low=None, high=None):
        self.kind, self.low, self.high = kind, low, high

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__.get(self.name)

    def __set__(self, instance, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} must be {self.kind.__name__}, not {type(value).__name__}")
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise ValueError(f"{self.name}={value} is not in {self.low}..{self.high}")
        instance.__dict__[self.name] = value


class Model:
    registry = {}

    def __init_subclass__(cls, table=None, **kwargs):
        super().__init_subclass__(**kwargs)
        Model.registry[table or cls.__name__.lower()] = cls
        cls.columns = [k for k, v in vars(cls).items() if isinstance(v, Checked)]

    def __init__(self, **values):
        for k, v in values.items():
            setattr(self, k, v)

    def __getattr__(self, name):
        if name.startswith("has_"):
            return getattr(self, name[4:]) is not None
        raise AttributeError(f"no attribute {name}")


class Person(Model, table="people"):
    name = Checked(str)
    age = Checked(int, 0, 150)


p = Person(name="Ann", age=30)
print(p.name, p.age, p.has_age, vars(p), Person.columns, Model.registry)
print(Person(name="x").has_age, type(Person.age).__name__, getattr(p, "zip", "default"))
for k, v in [("age", "old"), ("age", 200), ("name", None)]:
    try:
        setattr(p, k, v)
    except (TypeError, ValueError) as e:
        print(type(e).__name__, e)
