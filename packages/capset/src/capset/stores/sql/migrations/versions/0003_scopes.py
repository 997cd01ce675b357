"""What lives in scopes: values, texts and the index of their words; and how an agent uses a capability."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

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
    "postgresql": (
        # A word stands behind its key's token, so that all that begins with it is one range of the second index.
        'CREATE TABLE document_words (number BIGINT NOT NULL, word TEXT COLLATE "C" NOT NULL,'
        " CONSTRAINT document_words_pkey PRIMARY KEY (number, word),"
        " CONSTRAINT fk_document_words FOREIGN KEY (number) REFERENCES documents (number) ON DELETE CASCADE)",
        "CREATE INDEX ix_document_words ON document_words (word, number)",
    ),
}
"""The index of words, by the engine."""


def upgrade() -> None:
    """Add tables and a column; a process of the version before goes on working beside them.

    What it deletes of a session goes by foreign keys and a trigger. An agent that it replaces has plain capabilities.
    """
    op.add_column("agent_capabilities", sa.Column("entry", TEXT))
    op.create_table(
        "states",
        sa.Column("scope", TEXT, primary_key=True),
        sa.Column("owner", TEXT, primary_key=True),
        sa.Column("org", TEXT, primary_key=True),
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("session", TEXT),
        sa.Column("value", TEXT),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_states_session", ondelete="CASCADE"),
    )
    op.create_index("ix_states_session", "states", ["session"])
    op.create_table(
        "documents",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("org", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("session", TEXT),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.UniqueConstraint("scope", "owner", "org", "name", "id", name="uq_documents"),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_documents_session", ondelete="CASCADE"),
    )
    op.create_index("ix_documents_session", "documents", ["session"])
    for statement in SEARCH[op.get_bind().dialect.name]:
        op.execute(statement)
