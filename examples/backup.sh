#!/usr/bin/env bash
# A backup of a database that is in use, checked before anybody relies on it.
set -euo pipefail

capset call test_math.add --args '{"a": 2, "b": 3}' > made.txt
capset db backup kept.db
capset db check --verify --db kept.db        # the tables, the indexes, and the hash of every record

# It becomes a database again, without the approvals that were given before: they may have been used since.
capset db restore kept.db --db restored.db
capset db check --verify --db restored.db

# One that somebody changed is not sound: the exit code is 3.
cp kept.db changed.db
python -c 'import sqlite3; c = sqlite3.connect("changed.db"); c.execute("DROP INDEX ix_records_time"); c.commit()'
if capset db check --db changed.db; then exit 1; else test $? -eq 3; fi

# A later version brings it up to date, and says first what it will do.
capset db upgrade --dry-run --db kept.db
capset db upgrade --db kept.db
