#!/bin/bash
# Read a CSV line by line and make a greeting for each person; leave out the header and blank lines.
cat > people.csv <<'EOF'
name,age,city
Ann,31,Berlin
Bob,17,New York

Cid,,Oslo
  Dee ,45,
EOF
total=0 n=0
while IFS=, read -r name age city || [ -n "$name" ]; do
  [[ $name == name || -z $name ]] && continue
  name="${name#"${name%%[![:space:]]*}"}"
  name="${name%"${name##*[![:space:]]}"}"
  if [[ -z $age ]]; then
    echo "$name: age unknown, lives in $city"
    continue
  fi
  (( age >= 18 )) && kind=adult || kind=minor
  echo "$name: $kind ($age), lives in ${city:-nowhere}"
  total=$((total + age)) n=$((n + 1))
done < people.csv
echo "mean age of $n: $(echo "scale=2; $total / $n" | bc)"
