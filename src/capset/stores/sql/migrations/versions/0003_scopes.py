"""What lives in scopes: values, texts and the index of their words; and how an agent uses a capability."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SEARCH: Final = {
    "sqlite": (
        # Words come normalised, with spaces between, and beyond ASCII this tokenizer changes nothing.
        "CREATE VIRTUAL TABLE document_words USING fts5(words, tokenize = 'ascii', detail = none, columnsize = 0)",
        "CREATE TRIGGER document_words_go AFTER DELETE ON documents"
        " BEGIN DELETE FROM document_words WHERE rowid = old.number; END",
    ),
}
"""The index of words, by the engine."""


def upgrade() -> None:
    """Add tables and a column; a process of the version before goes on working beside them.

    What it deletes of a session goes by foreign keys and a trigger. An agent that it replaces has plain capabilities.
    """
    op.add_column("agent_capabilities", sa.Column("entry", sa.Text))
    op.create_table(
        "states",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("org", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("session", sa.Text),
        sa.Column("value", sa.Text),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_states_session", ondelete="CASCADE"),
    )
    op.create_index("ix_states_session", "states", ["session"])
    op.create_table(
        "documents",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.UniqueConstraint("scope", "owner", "org", "name", "id", name="uq_documents"),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_documents_session", ondelete="CASCADE"),
    )
    op.create_index("ix_documents_session", "documents", ["session"])
    for statement in SEARCH[op.get_bind().dialect.name]:
        op.execute(statement)
