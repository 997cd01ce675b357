#!/usr/bin/env bash
# Anybody can recompute a hash: RFC 8785 over a public payload, and SHA-256.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"

capset compose "$here/librarian.yaml" --grant session_files:read --json > composed.json

runtime="$(python3 - <<'PY'
import json, sys
composed = json.load(open("composed.json", encoding="utf-8"))
tools = [{"name": tool["name"], "hash": tool["hash"]} for tool in composed["tools"] if tool["in_play"]]
payload = {"kind": "runtime", "tools": sorted(tools, key=lambda tool: tool["name"])}
sys.stdout.write(json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
PY
)"
recomputed="$(printf %s "$runtime" | sha256sum | cut -d' ' -f1)"
reported="$(python3 -c 'import json; print(json.load(open("composed.json"))["runtime_hash"])')"
echo "recomputed $recomputed"
echo "reported   $reported"
test "$recomputed" = "$reported"
