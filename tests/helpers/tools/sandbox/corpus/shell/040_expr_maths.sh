#!/bin/sh
# Use expr for arithmetic and strings, as in old scripts.
a=17 b=5
echo "$(expr $a + $b) $(expr $a - $b) $(expr $a \* $b) $(expr $a / $b) $(expr $a % $b)"
echo "$(expr \( 2 + 3 \) \* 4) $(expr 3 \> 2) $(expr 3 = 4)"
expr length "hello world"
expr substr "hello world" 7 5
expr index "hello" l
expr "version-12.5" : '[a-z]*-\([0-9]*\)'
expr "abc" : 'a'
expr 5 - 5
echo "status: $?"
i=0
while [ "$i" -lt 3 ]; do i=$(expr "$i" + 1); echo "i=$i"; done
