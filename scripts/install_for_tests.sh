#!/usr/bin/env bash
# Install the system's programs that some tests need, or those that are named, where that is possible.
# Where it is not, those tests are skipped, and say so.
set -euo pipefail

# A program that could not be installed is a file of this folder. Without one, a skipped test fails in CI.
notes="$(dirname "${BASH_SOURCE[0]}")/../.reports/not-installed"

programs=("$@")
[ "$#" -gt 0 ] || programs=(curl jq gcc redis-server pgbouncer)
missing() {
    for program in "${programs[@]}"; do
        command -v "$program" >/dev/null && rm -f "$notes/$program" || echo "$program"
    done
}

mapfile -t lacking < <(missing)
if [ "${#lacking[@]}" -gt 0 ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing ${lacking[*]}, which some tests need"
    for _ in 1 2; do
        { apt-get update -qq && apt-get install -qq -y "${lacking[@]}"; } >/dev/null 2>&1 && break
    done
    mapfile -t lacking < <(missing)
fi
[ "${#lacking[@]}" -gt 0 ] || exit 0
echo "environment: not installed: ${lacking[*]}; the tests that need it are skipped"
mkdir -p "$notes"
for program in "${lacking[@]}"; do touch "$notes/$program"; done
