"""The attacks, one module a kind."""

from siege.attack import Attack
from siege.attacks import bodies

ATTACKS: tuple[Attack, ...] = (*bodies.ATTACKS,)
