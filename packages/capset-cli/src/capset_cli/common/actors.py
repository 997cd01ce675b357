"""The actor of commands: the settings' principal, and the user of the operating system."""

from __future__ import annotations

from capset.definitions.principals import Principal
from capset.kernel.governance.acts import Actor, os_source


def local_actor(principal: Principal, interface: str = "cli") -> Actor:
    """Return a principal as the actor of a command."""
    return Actor(principal.id, principal.kind, principal.org, os_source(interface), principal.on_behalf_of)
