#!/bin/bash
# Draw a histogram of exam scores in classes of ten.
echo "55 61 67 72 73 75 78 80 81 84 88 90 93 99 100 42 77 79" | tr ' ' '\n' | awk '
{
  b = int($1 / 10) * 10
  if (b == 100) b = 90
  count[b]++
  if (count[b] > max) max = count[b]
}
END {
  for (b = 40; b <= 90; b += 10) {
    bar = ""
    for (i = 0; i < count[b]; i++) bar = bar "#"
    printf "%3d-%-3d %-8s %d\n", b, (b == 90 ? 100 : b + 9), bar, count[b]
  }
  print "most in a class:", max
}'
awk 'BEGIN { print length("hello"), substr("hello", 2, 3), index("hello", "l"), toupper("abc") tolower("XYZ")
  n = split("a:b:c", parts, ":"); print n, parts[3]
  s = "foo bar foo"; print gsub(/foo/, "<&>", s), s
  print match("xx123yy", /[0-9]+/), RSTART, RLENGTH, sprintf("%05.2f", 3.14159), int(-3.7), 2 ^ 8, 7 % 4, "3x" + 1
  print (1 < 2), ("10" < "9"), (10 < 9), !0, 1 / 4, 1e6, 100000 * 10, 0.1 + 0.2, 3 " " -1 }'
