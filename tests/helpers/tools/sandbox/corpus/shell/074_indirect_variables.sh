#!/bin/bash
# Work with variable names in variables: indirection, namerefs, listing by prefix.
cfg_host=localhost cfg_port=8080 cfg_user=ann
for name in cfg_host cfg_port; do echo "$name=${!name}"; done
for name in "${!cfg_@}"; do printf '%s ' "$name"; done; echo
declare -n ref=cfg_port
ref=9090
echo "port is $cfg_port"
add_item() { local -n list=$1; list+=("$2"); }
basket=(egg)
add_item basket "brown bread"; add_item basket milk
printf '%s, ' "${basket[@]}"; echo "(${#basket[@]})"
var=dynamic; declare "$var=assigned"; echo "$dynamic"
printf -v "made_$var" '%03d' 7; echo "$made_dynamic"
key=two; declare -A m=([one]=1 [two]=2); echo "${m[$key]}"
eval "result=\$cfg_$(echo user)"; echo "$result"
declare -i number=5; number+=3; number="number * 2"; echo "$number"
declare -u loud="quiet please"; declare -l soft="LOUD"; echo "$loud $soft"
declare -p basket number
echo "${basket[@]@Q}"
