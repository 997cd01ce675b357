"""The commands that bash has in its jail, where the host has them: those that only read, write and compute."""

from __future__ import annotations

from typing import Final

COMMANDS: Final = """
    [ arch awk b2sum base32 base64 basename basenc bash bc bunzip2 bzcat bzip2 cal cat chmod cksum cmp column comm cp
    csplit cut date dc dd diff diff3 dir dirname du echo ed egrep env expand expr factor false fgrep find fmt fold gawk
    getopt grep gunzip gzip head hexdump hostname iconv id install join jq kill link ln logname look ls mawk md5sum
    mkdir mkfifo mktemp mv nice nl nohup nproc numfmt od paste patch pathchk pr printenv printf ptx pwd readlink
    realpath rev rm rmdir sdiff sed seq sh sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split
    sqlite3 stat stdbuf strings sum tac tail tar tee test timeout touch tr true truncate tsort tty uname unexpand uniq
    unlink unxz unzip wc which whoami xargs xxd xz xzcat yes zcat zcmp zdiff zgrep zip
"""
"""Their names, with blanks between them."""
