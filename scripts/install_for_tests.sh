#!/usr/bin/env bash
# Install the system's programs that some tests need, or those that are named, where that is possible. Where it is not,
# those tests are skipped, and say so; with CI set, a skipped test fails.
set -euo pipefail

missing=()
for program in ${@:-curl jq gcc redis-server}; do
    command -v "$program" >/dev/null || missing+=("$program")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing ${missing[*]}, which some tests need"
    { apt-get update -qq && apt-get install -qq -y "${missing[@]}"; } >/dev/null 2>&1 ||
        echo "could not install ${missing[*]}: the tests that need it are skipped"
else
    echo "not installed: ${missing[*]}; the tests that need it are skipped"
fi
