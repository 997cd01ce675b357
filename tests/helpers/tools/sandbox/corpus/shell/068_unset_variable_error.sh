#!/bin/bash
# With set -u a forgotten variable stops the script; show that defaults still work.
set -u
name=world
echo "hello $name"
echo "optional: ${title:-none}"
args=()
echo "arguments: ${#args[@]} ${args[@]+"${args[@]}"}"
trap 'echo "leaving with $?"' EXIT
(echo "sub: $undefined") 2>/dev/null || echo "the subshell failed"
echo "dear ${surname:?has to be set}"
echo "never reached"
