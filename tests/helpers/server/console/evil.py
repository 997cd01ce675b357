"""Texts that would be markup."""

from __future__ import annotations

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe'
