"""The attacks, one module a kind."""

from siege.attack import Attack
from siege.attacks import bodies, clients

ATTACKS: tuple[Attack, ...] = (*bodies.ATTACKS, *clients.ATTACKS)
