"""The attacks: each module here has those of a kind as its ``ATTACKS``."""

from importlib import import_module
from pkgutil import iter_modules

from lab.siege.attack import Attack

ATTACKS_BY_MODULE: dict[str, tuple[Attack, ...]] = {
    module.name: import_module(f"{__name__}.{module.name}").ATTACKS for module in iter_modules(__path__)
}
ATTACKS: tuple[Attack, ...] = tuple(attack for attacks in ATTACKS_BY_MODULE.values() for attack in attacks)
