"""``session_file_system``: reading, searching and writing of a session's own files (spec 5, P22–P25)."""

from __future__ import annotations

from capset import Capability
from capset_tools.session_file_system.read import list_directory, read_file, stat_file
from capset_tools.session_file_system.search import grep_files
from capset_tools.session_file_system.write import delete_file, edit_file, move_file, write_file

INSTRUCTIONS = """\
This session has files of its own, which no other session sees and which stay for as long as it does.

- Paths are absolute, case-sensitive and begin at `/`; `..` is refused. Missing directories are made when you \
write.
- Look before you act: `list_directory` shows what there is, `stat_file` tells whether something exists and how \
large it is, `grep_files` finds the place in many files at once.
- Read the part that you need: `grep_files` gives line numbers, and `read_file` takes `offset` and `limit`. A large \
file comes in parts: go on at `next_offset`.
- Read a file before you change it. `edit_file` replaces a piece of it, which you copy exactly; `write_file` replaces \
all of it, and with the `version` that you read it overwrites nobody else's work.
- What is not text is read and written as base64.
- `move_file` renames and moves, directories too.
- `delete_file` cannot be undone. Delete what you made and no longer need, or what you were told to delete.
- Keep long results in a file and name its path, instead of repeating them."""

session_file_system = Capability(
    "session_file_system",
    title="Session File System",
    description="Gives an agent the session's own files to list, read, search, write, edit, move and delete.",
    icon="folder",
    category="File Operations",
    instructions=INSTRUCTIONS,
    tools=[read_file, write_file, edit_file, move_file, list_directory, grep_files, delete_file, stat_file],
)

__all__ = ["session_file_system"]
