#!/usr/bin/env bash
# Files of others: tool JSON becomes a configuration, whose tools are written for providers, registries and clients.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
cd "$folder"

cat >tools.json <<END
[{"name": "math.add", "description": "Add two numbers.",
  "input_schema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                   "required": ["a", "b"], "additionalProperties": false}}]
END
capset import tools.json --effect read --output calc.yaml
capset check calc.yaml
# the handler is yours to write
sed -i.bak 's/raise _unwritten("math_add")/return params["a"] + params["b"]/' calc_handlers.py
capset call math_add --agent calc.yaml --args '{"a": 2, "b": 3}'

capset export anthropic --agent calc.yaml --output again.json
python3 -c 'import json; a, b = (json.load(open(f)) for f in ("tools.json", "again.json")); assert a[0]["input_schema"] == b[0]["input_schema"]'
capset export json-schema --agent calc.yaml | head -4
capset export mcp-server --agent calc.yaml --name io.github.you/calc --release 1.0.0 \
    --at https://tools.example.com/mcp --description "Adds numbers."
capset export a2a --agent calc.yaml --release 1.0.0 --at https://agents.example.com/a2a --description "Adds numbers."
capset export mcpb --agent calc.yaml --release 1.0.0 --author "You" --description "Adds numbers." --output calc.mcpb
python3 -m zipfile --list calc.mcpb
