#!/bin/bash
# Check files, strings and numbers with test and [[ ]].
mkdir -p d; echo x > f; : > e; chmod +x f; ln -s f link
check() { if eval "$1"; then echo "true   $1"; else echo "false  $1"; fi; }
check '[ -f f ]'
check '[ -d f ]'
check '[ -d d ]'
check '[ -s e ]'
check '[ -x f ]'
check '[ -L link ]'
check '[ -e nothing ]'
check '[ ! -e nothing ]'
check '[ 10 -gt 9 ]'
check '[[ 10 > 9 ]]'
check '[ "abc" = "abc" ]'
check '[[ abc == a* ]]'
check '[ -z "" ]'
check '[ -n "" ]'
check '[ 1 -eq 1 ] && [ 2 -lt 1 ]'
check '[ 1 -eq 2 -o 3 -ge 3 ]'
check '[[ -f f && ! -d f ]]'
check '(( 3 * 3 == 9 ))'
check 'test 007 -eq 7'
check '[[ "$UNSET_VARIABLE" == "" ]]'
