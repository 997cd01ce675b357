"""``capset import`` and ``capset export``: files of others, read and written."""

from __future__ import annotations
