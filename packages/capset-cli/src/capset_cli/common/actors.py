"""The actor of commands: the settings' principal, and the user of the operating system."""

from __future__ import annotations

from contextlib import AbstractContextManager

from capset.definitions.principals import Principal
from capset.kernel.governance.acts import Actor, acting, os_source


def acting_here(principal: Principal, interface: str = "cli") -> AbstractContextManager[None]:
    """Attribute acts within the ``with`` block to a principal at this machine's command line."""
    return acting(actor_here(principal, interface))


def actor_here(principal: Principal, interface: str = "cli") -> Actor:
    """Return a principal as the actor of a command."""
    return Actor(principal.id, principal.kind, principal.org, os_source(interface), principal.on_behalf_of)
