#!/bin/bash
# Add up the sales of each city.
awk -F';' '{ total[$1] += $2 } END { for (city in total) print city, total[city] }' <<'END' | LC_ALL=C sort
Köln;10
Zürich;5
Köln;7
Ávila;3
Aachen;1
END
