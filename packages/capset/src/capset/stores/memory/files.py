"""The sessions' files in memory: one tree per session, and content stored once per hash within an org."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import BinaryIO

from capset.definitions.calls.files import FileQuota, FileStat, parent_of
from capset.errors import FileError
from capset.stores import file_tree as filetree
from capset.stores.base.audit import Entry
from capset.stores.base.files import DEFAULT_QUOTA, open_content
from capset.stores.file_tree import TreeNode, Usage
from capset.stores.memory.lifecycle import Lifecycle


class MemoryFiles:
    """The files of all sessions. Content is stored once per hash within an org."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self.sessions: set[str] = set()
        """The ids of existing sessions."""
        self._trees: dict[str, MemoryTree] = {}
        self._blobs = Blobs()

    async def stat(self, session: str, path: str) -> FileStat | None:
        return filetree.stat(self._tree(session), path)

    async def read(self, session: str, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        tree = self._tree(session)
        stat, digest = filetree.read(tree.get(path), path)
        return stat, self._blobs.get(tree.orgs[path], digest)[start : None if size is None else start + size]

    async def digest(self, session: str, path: str) -> tuple[FileStat, str]:
        return filetree.read(self._tree(session).get(path), path)

    async def write(
        self,
        session: str,
        path: str,
        content: bytes | BinaryIO,
        *,
        org: str | None,
        now: str,
        version: int | None = None,
        quota: FileQuota = DEFAULT_QUOTA,
        act: Entry | None = None,
    ) -> tuple[FileStat, bool]:
        self._lifecycle.check()
        if session not in self.sessions:
            raise FileError("the session of these files was deleted", status=404)
        tree = self._tree(session)
        content = open_content(content).read()
        digest = hashlib.sha256(content).hexdigest()
        filetree.check_write(tree, path, size=len(content), version=version, quota=quota)
        self._lifecycle.record(act)
        stat, old = filetree.write(tree, path, digest=digest, size=len(content), now=now, version=version, quota=quota)
        self._blobs.store(org, digest, content)
        if old and old.digest:
            self._blobs.release(tree.orgs[path], old.digest)
        tree.orgs[path] = org
        return stat, old is None

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        return filetree.list_directory(self._tree(session), path, recursive=recursive)

    async def delete(
        self, session: str, path: str, *, recursive: bool, version: int | None = None, act: Entry | None = None
    ) -> int:
        tree = self._tree(session)
        if filetree.check_delete(tree, path, recursive=recursive, version=version):
            self._lifecycle.record(act)
        deleted = filetree.delete(tree, path, recursive=recursive, version=version)
        for node in deleted:
            if node.digest:
                self._blobs.release(tree.orgs.pop(node.stat.path), node.digest)
        return len(deleted)

    async def move(
        self,
        session: str,
        source: str,
        target: str,
        *,
        overwrite: bool,
        now: str,
        version: int | None = None,
        quota: FileQuota = DEFAULT_QUOTA,
    ) -> FileStat:
        tree = self._tree(session)
        org = tree.orgs.get(target)
        stat, old = filetree.move(tree, source, target, overwrite=overwrite, now=now, version=version, quota=quota)
        if old and old.digest:
            self._blobs.release(org, old.digest)
        return stat

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        tree = self._tree(session)
        nodes = [node for path in paths if (node := tree.get(path))]
        return [(node.stat, self._blobs.get(tree.orgs[node.stat.path], node.digest)) for node in nodes if node.digest]

    def drop(self, session: str) -> None:
        """Forget a deleted session and its files."""
        self.sessions.discard(session)
        tree = self._trees.pop(session, MemoryTree())
        for node in tree.descendants("/"):
            if node.digest:
                self._blobs.release(tree.orgs[node.stat.path], node.digest)

    def _tree(self, session: str) -> MemoryTree:
        self._lifecycle.check()
        return self._trees.setdefault(session, MemoryTree())


class MemoryTree:
    """``filetree.TreeRows`` in memory, and the org of each file."""

    def __init__(self) -> None:
        self.orgs: dict[str, str | None] = {}
        self._nodes: dict[str, TreeNode] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)
        self._highest_removed = 0
        self._files = self._size = 0

    def get(self, path: str) -> TreeNode | None:
        return self._nodes.get(path)

    def put(self, node: TreeNode) -> None:
        path = node.stat.path
        self._count(self._nodes.get(path), -1)
        self._count(node, 1)
        self._nodes[path] = node
        self._children[parent_of(path)].add(path)

    def children(self, path: str) -> Sequence[TreeNode]:
        return [self._nodes[child] for child in self._children.get(path, ())]

    def descendants(self, path: str) -> Sequence[TreeNode]:
        nodes = list(self.children(path))
        for node in nodes:  # the list grows during the loop
            nodes.extend(self.children(node.stat.path))
        return nodes

    def usage(self) -> Usage:
        return Usage(self._files, len(self._nodes) - self._files, self._size)

    def highest_removed_version(self) -> int:
        return self._highest_removed

    def record_removal(self, version: int) -> None:
        self._highest_removed = max(self._highest_removed, version)

    def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._count(self._nodes.pop(path), -1)
            self._children.pop(path, None)
            if siblings := self._children.get(parent_of(path)):
                siblings.discard(path)

    def move(self, source: str, target: str, *, version: int, now: str) -> None:
        nodes = [self._nodes[source], *self.descendants(source)]
        paths = [node.stat.path for node in nodes]
        orgs = {path: self.orgs.pop(path) for path in paths if path in self.orgs}
        self.remove(paths)
        for node in nodes:
            new = filetree.moved_node(node, source, target, version=version, now=now)
            self.put(new)
            if node.stat.path in orgs:
                self.orgs[new.stat.path] = orgs[node.stat.path]

    def _count(self, node: TreeNode | None, sign: int) -> None:
        if node and node.digest:
            self._files += sign
            self._size += sign * node.stat.size_bytes


class Blobs:
    """Content by org and digest, with the number of files that refer to it."""

    def __init__(self) -> None:
        self._content: dict[tuple[str | None, str], bytes] = {}
        self._uses: Counter[tuple[str | None, str]] = Counter()

    def get(self, org: str | None, digest: str) -> bytes:
        """Return stored content."""
        return self._content[org, digest]

    def store(self, org: str | None, digest: str, content: bytes) -> None:
        """Store content for one more file."""
        self._content.setdefault((org, digest), content)
        self._uses[org, digest] += 1

    def release(self, org: str | None, digest: str) -> None:
        """Release content for one file, and remove it if no other file uses it."""
        self._uses[org, digest] -= 1
        if not self._uses[org, digest]:
            del self._uses[org, digest], self._content[org, digest]
