# Write a Temperature class with properties in Celsius, Fahrenheit and Kelvin that refuses values below absolute zero.
class Temperature:
    __slots__ = ("_celsius",)

    def __init__(self, celsius=0.0):
        self.celsius = celsius

    @property
    def celsius(self):
        return self._celsius

    @celsius.setter
    def celsius(self, value):
        if value < -273.15:
            raise ValueError(f"{value} °C is below absolute zero")
        self._celsius = value

    @property
    def fahrenheit(self):
        return self.celsius * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self.celsius = (value - 32) * 5 / 9

    kelvin = property(lambda self: self._celsius + 273.15)


t = Temperature(25)
print(t.celsius, t.fahrenheit, t.kelvin)
t.fahrenheit = 0
print(f"{t.celsius:.6f} {t.kelvin:.2f}")
for bad in (lambda: setattr(t, "celsius", -300), lambda: Temperature(-274), lambda: setattr(t, "kelvin", 0), lambda: setattr(t, "other", 1)):
    try:
        bad()
    except (ValueError, AttributeError) as e:
        print(type(e).__name__, "" if isinstance(e, AttributeError) else e)
print(Temperature.fahrenheit.fset is not None, Temperature.kelvin.fset)
