"""A till whose payments wait for an approval."""

from __future__ import annotations

TILL = '''
from capset import Agent, Capability, tool


@tool(effect="write", approval="ask")
async def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    return f"{to} has {amount}"


till = Capability("till", description="Payments to approve.", tools=[pay])
clerk = Agent("clerk", uses=[till])
'''
