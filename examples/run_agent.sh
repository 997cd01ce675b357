#!/usr/bin/env bash
# An agent that runs, offline: it does a task, is refused, waits for an approval, and goes on in another process.
set -euo pipefail

cat > keeper.yaml <<'YAML'
name: keeper
system_prompt: You keep the session's notes.
capabilities: [session_file_system]
YAML

cat > script.yaml <<'YAML'
steps:
  - text: I write it down.
    calls: [{tool: write_file, arguments: {path: /notes.txt, content: buy milk}}]
  - when: {succeeded: true}
    text: It is in /notes.txt.
  - when: {succeeded: false}
    text: I may not write here.
  - calls: [{tool: read_file, arguments: {path: /notes.txt}}]
  - when: {contains: milk}
    text: You wanted milk.
  - text: I do not know.
YAML

echo "without a permission:"
capset run keeper.yaml "note: buy milk" --model script:script.yaml 2>&1

echo "with it, and then in the same session:"
files=(--grant session_files:read --grant session_files:write)
capset run keeper.yaml "note: buy milk" --model script:script.yaml "${files[@]}" 2>&1
session=$(capset sessions list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["items"][0]["id"])')
capset run --session "$session" "what did I want?" --model script:script.yaml "${files[@]}" 2>&1

echo "what is on record:"
capset audit query --json | python3 -c '
import json, sys
for one in reversed(json.load(sys.stdin)["items"]):
    print(one["tool"], one["outcome"])
'
