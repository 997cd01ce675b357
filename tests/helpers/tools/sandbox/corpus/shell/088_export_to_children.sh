#!/bin/bash
# Pass variables and functions to child processes, and change the environment for one command.
export GREETING="hello there"
secret=hidden
bash -c 'echo "child: $GREETING, secret: [${secret:-}]"'
GREETING=bye sh -c 'echo "$GREETING"'
echo "$GREETING"
env -i PATH="$PATH" X=1 bash -c 'echo "X=$X GREETING=[${GREETING:-}]"'
shout() { echo "${1^^}!"; }
export -f shout
bash -c 'shout "from a child"'
printf 'a b\nc\n' | xargs -I{} bash -c 'shout "{}"'
cat > child.sh <<'EOF'
#!/bin/bash
echo "args: $#, first: $1, all: $*"
exit $(($# * 10))
EOF
bash child.sh one "two three"; echo "returned $?"
chmod +x child.sh && ./child.sh; echo "returned $?"
( . ./child.sh x ); echo "sourced, it gave $?"
source <(echo 'sourced=yes'); echo "sourced: $sourced"
unset GREETING; printenv GREETING || echo "gone"
