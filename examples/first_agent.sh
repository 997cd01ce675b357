#!/usr/bin/env bash
# The agent of the tutorial: it is refused, asks for an approval, gets it from somebody else, and goes on. Offline.
set -euo pipefail

cat > bills.py <<'PY'
def read_bill(params):
    return {"number": params["number"], "to": "the plumber", "amount": 120.0}


def pay_bill(params):
    return {"paid": params["amount"]}
PY

cat > capset.yaml <<'YAML'
name: clerk
actions:
  - name: read_bill
    description: Read a bill.
    handler: ./bills.py:read_bill
    effect: read
    permissions: []
    parameters:
      number: {type: integer, required: true}
  - name: pay_bill
    description: Pay a bill.
    handler: ./bills.py:pay_bill
    effect: external
    approval: ask
    permissions: [bills:pay]
    limits: 10/1d
    parameters:
      number: {type: integer, required: true}
      amount: {type: number, required: true}
governance:
  require_auth: true
YAML

cat > script.yaml <<'YAML'
steps:
  - text: I look at the bill.
    calls: [{tool: read_bill, arguments: {number: 7}}]
  - calls: [{tool: pay_bill, arguments: {number: 7, amount: 120}}]
  - when: {succeeded: true}
    text: The plumber is paid.
  - text: The plumber is not paid.
YAML

capset check capset.yaml 2>&1
clerk=(--model script:script.yaml --principal ada)
echo "without the permission:"
capset run capset.yaml "Pay bill 7." "${clerk[@]}" 2>&1

echo "with it:"
code=0
capset run capset.yaml "Pay bill 7." "${clerk[@]}" --grant bills:pay --no-wait 2>&1 || code=$?
[ "$code" = 3 ]
request=$(capset approvals list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["items"][0]["id"])')
session=$(capset sessions list --principal ada --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["items"][0]["id"])')
capset approvals approve "$request" --principal boss --note "as agreed" > /dev/null
capset run --session "$session" "${clerk[@]}" --grant bills:pay 2>&1

echo "what is on record:"
capset audit query --json | python3 -c '
import json, sys
for one in reversed(json.load(sys.stdin)["items"]):
    print(one["tool"], one["outcome"])
'

echo "played again:"
capset run capset.yaml "Pay bill 7." "${clerk[@]}" --record talk.jsonl > recorded.txt 2>&1
capset run capset.yaml "Pay bill 7." --model cassette:talk.jsonl --principal ada > played.txt 2>&1
diff recorded.txt played.txt && cat played.txt
sed -i.bak 's/description: Read a bill./description: Read one bill./' capset.yaml
capset run capset.yaml "Pay bill 7." --model cassette:talk.jsonl --principal ada > changed.txt 2>&1 && exit 1
grep "the tools changed (read_bill changed)" changed.txt
