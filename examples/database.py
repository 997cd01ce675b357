"""Ask a database through a capability: the engine lets it only read, whatever the model writes."""

import asyncio
import sqlite3
from contextlib import closing

from capset import Agent, Kernel, Principal
from capset_tools.database import DatabaseConfig, DatabaseConnection, database

with closing(sqlite3.connect("shop.db")) as shop:
    shop.executescript(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL);"
        "INSERT INTO orders (customer, total) VALUES ('ada', 12.5), ('bob', 3), ('ada', 20)"
    )

# A URL with a password is a secret: DatabaseConnection(secret="DATABASE_URL").
sales = DatabaseConnection(url="sqlite:///shop.db", description="Every order since the shop opened.")
analyst = Agent(
    "analyst",
    system_prompt="You answer questions about sales.",
    uses=[database.with_config(DatabaseConfig(connections={"sales": sales}, max_rows=100, seconds=5))],
)


async def main() -> None:
    ada = Principal("ada", permissions={"database:read"})
    async with Kernel(store="memory://") as kernel, kernel.open(analyst, principal=ada) as session:
        query = session.snapshot.tools["db_query"].tool
        table = await session.call(
            query,
            query="SELECT customer, sum(total) AS spent FROM orders WHERE total > ? GROUP BY customer",
            params=[5],
        )
        print(table["columns"], table["rows"])
        for attempt in ("DELETE FROM orders", "SELECT 1; DROP TABLE orders", "ATTACH 'other.db' AS other"):
            result = await session.try_call(query, query=attempt)
            print(f"{attempt!r}:", result.error.message if result.error else result.data)
        print(await session.system_text())


asyncio.run(main())
