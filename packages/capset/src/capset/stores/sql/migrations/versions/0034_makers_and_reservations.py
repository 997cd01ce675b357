"""The makers of keys, of people and of who asks for approvals; people of several orgs; reservations of usage.

And the arguments of requests for approvals as approvers may be shown them, with the files that these name.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_COLUMNS = ("id", "team", "user", "org", "principal", "principal_kind", "permissions", "created_at", "created_by")


def upgrade() -> None:
    """Add columns that may be null and a table, and make people again. A process of the version before works on.

    It knows no makers and no user who is a person of several organisations, shows masks alone, and its steps reserve
    nothing.
    """
    op.create_table(
        "usage_reservations",
        *(sa.Column(name, TEXT, primary_key=True) for name in ("key", "step")),
        sa.Column("writer", TEXT, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("steps", "calls", "tokens")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("cost", "seconds")),
    )
    _fill_retired_keys()
    op.add_column("api_keys", sa.Column("makers", TEXT))
    for name in ("makers", "unmasked", "files"):
        op.add_column("approvals", sa.Column(name, TEXT))
    if op.get_context().dialect.name != "sqlite":
        op.add_column("people", sa.Column("makers", TEXT))
        op.drop_constraint("uq_people_user", "people", type_="unique")
        op.create_unique_constraint("uq_people_user", "people", ["team", "user", "org"])
        return
    # SQLite changes no constraint, and writes quotes around the name of a table that is renamed.
    op.execute("CREATE TABLE people_before AS SELECT * FROM people")
    op.drop_table("people")
    op.create_table(
        "people",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in _COLUMNS[1:]),
        sa.Column("attributes", TEXT),
        sa.Column("makers", TEXT),
        sa.UniqueConstraint("team", "user", "org", name="uq_people_user"),
    )
    names = ", ".join(f'"{name}"' for name in (*_COLUMNS, "attributes"))
    op.execute(f"INSERT INTO people ({names}) SELECT {names} FROM people_before")  # noqa: S608 - the names are above
    op.drop_table("people_before")


def _fill_retired_keys() -> None:
    """Note the keys of the log that have handed over before there was a list of them: they sign no more."""
    statements = op.get_bind().execute(
        sa.text("SELECT arguments FROM records WHERE phase = 'act' AND act = 'checkpoint_key.succeed' ORDER BY seq")
    )
    ids = [before for (text,) in statements if isinstance(before := json.loads(text).get("before"), str)]
    if ids:
        insert = sa.text("INSERT INTO settings (name, value) VALUES ('retired_checkpoint_keys', :value)")
        op.get_bind().execute(insert, {"value": json.dumps(ids)})
