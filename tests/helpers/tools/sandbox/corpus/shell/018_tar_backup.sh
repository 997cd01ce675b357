#!/bin/bash
# Pack a folder into a tar.gz archive, list it, change a file, and restore it from the archive.
mkdir -p site/css
echo "<h1>Hi</h1>" > site/index.html
echo "body { margin: 0 }" > site/css/main.css
tar -czf backup.tar.gz site
tar -tzf backup.tar.gz | sort
echo "broken" > site/index.html
rm -r site/css
tar -xzf backup.tar.gz
cat site/index.html site/css/main.css
mkdir restore
tar -xzf backup.tar.gz -C restore --strip-components=1
find restore -type f | sort
tar -cf plain.tar -C site css && tar -tf plain.tar | sort
tar -xOf plain.tar css/main.css | tr a-z A-Z
