#!/bin/bash
# Write functions that return a status, print a result, and set a variable.
is_even() { (( $1 % 2 == 0 )); }

square() {
  local n=$1
  echo $((n * n))
}

divide() {
  if [ "$2" -eq 0 ]; then
    echo "cannot divide $1 by zero" >&2
    return 2
  fi
  result=$(($1 / $2))
}

for n in 3 4; do
  if is_even "$n"; then echo "$n is even"; else echo "$n is odd"; fi
done
echo "square of 12 is $(square 12)"
divide 17 5 && echo "17/5 = $result"
divide 1 0
echo "status: $?"
max() { local m=$1; shift; for x; do (( x > m )) && m=$x; done; echo "$m"; }
echo "max: $(max 3 99 -4 12), arguments: $(count() { echo $#; }; count a "b c" "")"
