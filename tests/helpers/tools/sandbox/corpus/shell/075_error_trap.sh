#!/bin/bash
# Report the line and the command of an error with an ERR trap, then exit with its status.
set -Eeuo pipefail
trap 'echo "error on line $LINENO: $BASH_COMMAND (status $?)"' ERR
trap 'echo "exit with $?"' EXIT

step() { echo "step $1"; return "${2:-0}"; }

step 1
step 2 || true
if step 3 1; then echo "not here"; else echo "step 3 failed, handled"; fi
result=$(step 4)
echo "got: $result"
step 5 7
echo "never reached"
