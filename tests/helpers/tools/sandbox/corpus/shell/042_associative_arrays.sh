#!/bin/bash
# Keep a stock in an associative array: add, take, look up, delete, and list sorted.
declare -A stock=([apple]=5 [pear]=0 ["green grape"]=120)
stock[plum]=7
((stock[apple] += 3))
stock[pear]=$((stock[pear] + 1))
for item in "${!stock[@]}"; do echo "$item: ${stock[$item]}"; done | sort
echo "kinds: ${#stock[@]}"
unset 'stock[plum]'
for item in plum apple fig; do
  if [[ -v stock[$item] ]]; then echo "have $item"; else echo "no $item"; fi
done
declare -A count
for word in to be or not to be that is; do count[$word]=$(( ${count[$word]:-0} + 1 )); done
for w in "${!count[@]}"; do printf '%s %d\n' "$w" "${count[$w]}"; done | sort -k2,2nr -k1,1 | head -3
declare -A color=( [red]='#f00' [green]='#0f0' )
echo "${color[red]} ${color[blue]:-unknown} ${color[*]:+some}"
total=0; for v in "${stock[@]}"; do ((total += v)); done; echo "total: $total"
