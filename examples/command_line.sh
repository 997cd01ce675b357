#!/usr/bin/env bash
# The same road from the command line: compose, call, be refused, look at the record, verify it.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
export CAPSET_DB=demo.db

capset compose "$here/librarian.yaml" --grant session_files:read

first="$(capset call session_file_system.write_file --agent "$here/librarian.yaml" --grant session_files:write \
    --args '{"path": "/greeting.txt", "content": "hello"}' --json)"
session="$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["session"])' "$first")"
capset call read_file --session "$session" --grant session_files:read --args '{"path": "/greeting.txt"}'

refusal=0
capset call test_math.add --args '{"a": 2, "b": "x"}' || refusal=$?
test "$refusal" = 3

capset audit query
capset audit verify
