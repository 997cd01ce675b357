#!/usr/bin/env bash
# The REST API with nothing but curl: a server, a key, an agent, a session, calls, a stream, a file, the records.
set -euo pipefail
command -v curl >/dev/null || { echo "this needs curl" >&2; exit 1; }
folder="$(mktemp -d)"
cd "$folder"
export CAPSET_DB=curl.db

capset serve --port 0 2>server.log &
server=$!
trap 'kill "$server"; wait "$server"; rm -r "$folder"' EXIT
until grep -qo 'http://[^ ]*' server.log; do
    kill -0 "$server"
    sleep 0.1
done
url="$(grep -om1 'http://[^ ]*' server.log)/v1"
key="$(capset key create example --principal ada --scope capset:admin --grant session_files:read --grant session_files:write)"

# The key is read from a file: what stands on a command line is seen by others.
(umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$key" >curl.conf)
ask() { curl --silent --show-error --noproxy '*' --config curl.conf "$@"; }
post() { ask --header 'Content-Type: application/json' --data "$2" "$url/$1" "${@:3}"; }
member() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\\1/"; } # of text, in an answer that is on one line

agent="$(post agents '{"name": "librarian", "capabilities": ["session_file_system", "test_math"]}' | member id)"
session="$(post sessions "{\"agent_id\": \"$agent\"}" | member id)"

post "sessions/$session/calls" '{"tool": "add", "arguments": {"a": 2, "b": 3}}'
echo
post "sessions/$session/calls" '{"tool": "add", "arguments": {"a": 6, "b": 7}}' --no-buffer --header 'Accept: text/event-stream'

status="$(post "sessions/$session/calls" '{"tool": "add", "arguments": {"a": 2}}' --output refused.json --write-out '%{http_code}')"
test "$status" = 422
cat refused.json
echo

printf 'hello' | ask --request PUT --header 'If-None-Match: *' --data-binary @- "$url/sessions/$session/files/a%20b.txt"
echo
test "$(ask "$url/sessions/$session/files/a%20b.txt")" = hello

status="$(ask --request PATCH --header 'Content-Type: application/merge-patch+json' --header 'If-Match: "7"' \
    --data '{"description": "Too late."}' --output outdated.json --write-out '%{http_code}' "$url/agents/$agent")"
test "$status" = 412

ask "$url/audit?session=$session&outcome=succeeded"
echo
