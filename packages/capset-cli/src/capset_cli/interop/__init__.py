"""``capset import`` and ``capset export``: conversion from and to the file formats of other programs."""

from __future__ import annotations
