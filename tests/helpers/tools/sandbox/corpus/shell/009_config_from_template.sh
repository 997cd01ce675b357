#!/bin/bash
# Write a config file from a here-document with variables, and show what is set in it.
name="my app"
port=8080
cat > app.conf <<EOF
# generated for $name
name = "$name"
port = $port
next_port = $((port + 1))
home = \$HOME
user = $(echo admin | tr a-z A-Z)
EOF
cat app.conf
echo "---"
cat <<'EOF'
nothing is expanded: $name $(date) \n
EOF
if true; then
	cat <<-EOF
		tabs are stripped
			nested: ${name^^}
	EOF
fi
grep -v '^#' app.conf | while IFS='=' read -r key value; do
  key=$(echo "$key" | xargs)
  echo "[$key] ->${value}"
done
