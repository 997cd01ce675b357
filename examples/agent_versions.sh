#!/usr/bin/env bash
# A stored agent from its first version to its third, compared and brought back; every step looked at first.
set -euo pipefail
export CAPSET_DB=agents.db
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

cat > scribe.yaml <<'YAML'
name: scribe
system_prompt: Keep tidy notes.
capabilities: [session_file_system]
model: openai:gpt-9
static_context: {tier: pro}
YAML

capset agents preview scribe.yaml
agent="$(capset agents create scribe.yaml --principal ada)"
capset agents change "$agent" '{"capabilities": ["session_file_system", "test_math"], "static_context": {"tier": "free"}}'
capset agents versions "$agent"

different=0
capset agents diff "$agent" 1 2 --exit-code || different=$?
test "$different" = 3

# What needs an administrator is told before anybody is asked; here, the database is one's own.
capset agents preview "$agent" '{"capabilities": ["email"]}' --json | field needs_admin

# Everything that is wrong is told at once.
wrong=0
capset agents preview "$agent" '{"capabilities": ["test_maths", "noop", "noop"]}' || wrong=$?
test "$wrong" = 2

first="$(capset agents show "$agent" --version 1 --json | field static_hash)"
back="$(capset agents rollback "$agent" 1 --if-version 2 --json | field static_hash)"
test "$first" = "$back"
capset agents show "$agent"
