"""The attacks, one module a kind."""

from siege.attack import Attack
from siege.attacks import bodies, callers, clients, servers

ATTACKS: tuple[Attack, ...] = (*bodies.ATTACKS, *clients.ATTACKS, *callers.ATTACKS, *servers.ATTACKS)
