#!/bin/bash
# Show the exit status of each part of a pipeline, with and without pipefail.
false | true
echo "plain: $?"
true | false | true
echo "each: ${PIPESTATUS[*]}"
set -o pipefail
false | true
echo "pipefail: $?"
(exit 3) | (exit 5) | cat
codes=("${PIPESTATUS[@]}")
echo "codes: ${codes[0]} ${codes[1]} ${codes[2]}"
seq 1 1000 | head -n 1
if printf 'a\nb\n' | grep -q z; then echo yes; else echo "no ($?)"; fi
set +o pipefail
bash -c 'exit 42'; echo "child: $?"
(exit 300); echo "wrapped: $?"
nosuchcommand_xyz 2> /dev/null; echo "not found: $?"
touch plain; ./plain 2> /dev/null; echo "not executable: $?"
! true; echo "negated: $?"
