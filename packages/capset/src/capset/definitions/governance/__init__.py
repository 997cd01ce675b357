"""The governance of calls: policies, approvals, limits and allowances, and the settings that hold them together."""
