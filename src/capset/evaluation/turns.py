"""The old path of ``capset.evaluation.snapshot.turns``."""

from capset.evaluation.snapshot.turns import (
    KeptTurn,
    OpContext,
    envelope_row,
    keep_turn,
    link_row,
    op_context,
    payload_rows,
    record_turn,
    registration_row,
)

__all__ = [
    "KeptTurn",
    "OpContext",
    "envelope_row",
    "keep_turn",
    "link_row",
    "op_context",
    "payload_rows",
    "record_turn",
    "registration_row",
]
