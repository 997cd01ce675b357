#!/bin/bash
# Turn these lines into "name (country)", without the comments, and the dashes into hyphens.
sed -n -E '/^#/d; s/^([^;]+);([^;]+);.*$/\1 (\2)/p' <<'END'
# name;country;city
José;España;Málaga
Søren;Danmark;Århus
Zoë;Österreich;Graz
END
echo "a—b–c" | sed 's/[—–]/-/g'
