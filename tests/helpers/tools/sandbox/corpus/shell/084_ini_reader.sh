#!/bin/bash
# Read an INI file into an associative array, and print a section and single values.
cat > app.ini <<'EOF'
; settings
[server]
host = example.org
port=8080

[client]
name = "My Client"   
retries = 3 # few
url = http://x.y/?a=b
EOF
declare -A ini
section=""
while IFS= read -r line; do
  line="${line%%[;#]*}"
  line="${line#"${line%%[![:space:]]*}"}"
  line="${line%"${line##*[![:space:]]}"}"
  [[ -z $line ]] && continue
  if [[ $line =~ ^\[(.+)\]$ ]]; then
    section=${BASH_REMATCH[1]}
  elif [[ $line == *=* ]]; then
    key=${line%%=*} value=${line#*=}
    key=${key%% } value=${value## }
    value=${value#\"} value=${value%\"}
    ini[$section.$key]=$value
  fi
done < app.ini
for k in "${!ini[@]}"; do echo "$k => ${ini[$k]}"; done | sort
echo "port + 1 = $((ini[server.port] + 1))"
echo "missing: ${ini[server.timeout]:-30}"
sed -n '/^\[server\]/,/^\[/{/^\[/d;/^$/d;p;}' app.ini
awk -F ' *= *' '/^\[/ { s = $0 } s == "[client]" && $1 == "retries" { split($2, a, " "); print a[1] }' app.ini
