#!/bin/bash
# Run a small stock program that reads its commands from a here-document.
declare -A qty price
total_value() {
  local sum=0 k
  for k in "${!qty[@]}"; do sum=$(echo "$sum + ${qty[$k]} * ${price[$k]}" | bc); done
  echo "$sum"
}
while read -r command item a b; do
  case $command in
    add) qty[$item]=$(( ${qty[$item]:-0} + a )); price[$item]=${b:-${price[$item]}}; echo "added $a $item" ;;
    sell)
      if (( ${qty[$item]:-0} < a )); then
        echo "only ${qty[$item]:-0} $item left"
      else
        (( qty[$item] -= a )) || true
        echo "sold $a $item for $(echo "$a * ${price[$item]}" | bc)"
      fi ;;
    list) for k in $(printf '%s\n' "${!qty[@]}" | sort); do printf '  %-6s %4d %8.2f\n' "$k" "${qty[$k]}" "${price[$k]}"; done ;;
    value) echo "value: $(total_value)" ;;
    '' | '#'*) ;;
    quit) echo "bye"; break ;;
    *) echo "unknown command: $command" ;;
  esac
done <<'EOF'
# a day in the shop
add nail 100 0.05
add hammer 3 12.50

sell nail 30
sell hammer 5
add nail 10
list
dance
sell hammer 3
value
quit
list
EOF
