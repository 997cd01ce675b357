#!/bin/bash
# Look up the name of each country by its code.
printf 'AT|Österreich\nES|España\nJP|日本\n' > names
printf 'JP|3\nAT|1\nXX|2\n' > visits
awk -F'|' '
NR == FNR { name[$1] = $2; next }
{ label = ($1 in name) ? name[$1] : "unknown"; print label ": " $2 }
' names visits
