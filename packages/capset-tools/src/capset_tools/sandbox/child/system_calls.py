"""The system call filter for jailed code (seccomp; Linux's ``seccomp_filter.rst``).

It forbids new processes and programs (except to bash, whose tasks the kernel limits, see ``users``), memory that no
limit counts, sockets that could leave the machine or accept connections, calls that could block or watch others who use
the same files outside, and all that changes namespaces, keys, clocks or other processes. Ordinary calls, including
those for threads, are allowed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from typing import Final

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in ``struct seccomp_data``: the call's number, the architecture, the low halves of two arguments."""
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_CLONE_THREAD: Final = 0x00010000
_CLONE_NEW: Final = 0x7E020000
"""The flags of ``clone`` that make namespaces."""
_AF_UNIX, _SOCK_STREAM, _SOCKET_TYPES = 1, 1, 0xF
_INIT: Final = 1
"""The pid of a jail's first process, which does not run the code."""
_X32: Final = 0x40000000
"""Numbers from here on belong to x86-64's x32 interface."""
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 4, 22, 38, 2

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_SOCKETS: Final = {"x86_64": {"socket": 41, "socketpair": 53}, "aarch64": {"socket": 198, "socketpair": 199}}
_BY_ARGUMENT: Final[Mapping[str, tuple[tuple[int, int, tuple[int, ...]], ...]]] = {
    "x86_64": (
        (72, _SECOND, (1024, 1026, 1031)),  # fcntl: F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ
        (157, _FIRST, (62, 78)),  # prctl: PR_SCHED_CORE, PR_FUTEX_HASH
        *((number, _FIRST, (_INIT,)) for number in (142, 144, 203, 302, 314)),  # sched_set…, prlimit64
    ),
    "aarch64": (
        (25, _SECOND, (1024, 1026, 1031)),
        (167, _FIRST, (62, 78)),
        *((number, _FIRST, (_INIT,)) for number in (118, 119, 122, 261, 274)),
    ),
}
"""Calls that are refused for some values of an argument: the number, the argument, the values.

The owner of a file may lease it, which makes others wait who open it outside. The slots of a futex table and of a pipe
are kernel memory.
"""
_CLONE3: Final = 435
"""A filter cannot see its flags. If it is missing, the C library does without it."""
_EVERYWHERE: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "process_madvise": 440,
    "mount_setattr": 442,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "quotactl_fd": 443,
    "statmount": 457,
    "listmount": 458,
    "setxattrat": 463,
    "open_tree_attr": 467,
    "file_setattr": 469,
    "listns": 470,
}
_FORBIDDEN: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {
        **_EVERYWHERE,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "execveat": 322,
        "ptrace": 101,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "memfd_create": 319,
        "shmget": 29,
        "msgget": 68,
        "semget": 64,
        "mq_open": 240,
        "setxattr": 188,
        "lsetxattr": 189,
        "fsetxattr": 190,
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "chroot": 161,
        "setns": 308,
        "unshare": 272,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "fanotify_init": 300,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "quotactl": 179,
        "acct": 163,
        "kexec_load": 246,
        "kexec_file_load": 320,
        "init_module": 175,
        "finit_module": 313,
        "delete_module": 176,
        "reboot": 169,
        "swapon": 167,
        "swapoff": 168,
        "sethostname": 170,
        "setdomainname": 171,
        "settimeofday": 164,
        "clock_settime": 227,
        "adjtimex": 159,
        "clock_adjtime": 305,
        "iopl": 172,
        "ioperm": 173,
        "modify_ldt": 154,
        "personality": 135,
        "syslog": 103,
        "vhangup": 153,
        "listen": 50,
        "vmsplice": 278,
        "inotify_init": 253,
        "inotify_init1": 294,
        "sync": 162,
        "io_setup": 206,
        "syncfs": 306,
    },
    "aarch64": {
        **_EVERYWHERE,
        "execve": 221,
        "execveat": 281,
        "ptrace": 117,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "memfd_create": 279,
        "shmget": 194,
        "msgget": 186,
        "semget": 190,
        "mq_open": 180,
        "setxattr": 5,
        "lsetxattr": 6,
        "fsetxattr": 7,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "chroot": 51,
        "setns": 268,
        "unshare": 97,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "fanotify_init": 262,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "quotactl": 60,
        "acct": 89,
        "kexec_load": 104,
        "kexec_file_load": 294,
        "init_module": 105,
        "finit_module": 273,
        "delete_module": 106,
        "reboot": 142,
        "swapon": 224,
        "swapoff": 225,
        "sethostname": 161,
        "setdomainname": 162,
        "settimeofday": 170,
        "clock_settime": 112,
        "adjtimex": 171,
        "clock_adjtime": 266,
        "personality": 92,
        "syslog": 116,
        "vhangup": 58,
        "listen": 201,
        "vmsplice": 75,
        "inotify_init1": 26,
        "sync": 81,
        "io_setup": 0,
        "syncfs": 267,
    },
}


_Instruction = tuple[int, int, int, int]

_OF_PROCESSES: Final = ("fork", "vfork", "execve", "execveat")


def filter_for(machine: str, *, may_start_processes: bool = False) -> bytes | None:
    """Return the filter for a machine, named as by ``os.uname``, or ``None`` if there is none."""
    if machine not in _ARCHITECTURES:
        return None
    allowed = _OF_PROCESSES if may_start_processes else ()
    numbers = sorted(number for name, number in _FORBIDDEN[machine].items() if name not in allowed)
    thread = () if may_start_processes else _unless_has(_CLONE_THREAD)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_unless(_AT_LEAST, _X32, _ENOSYS),
        *_unless(_EQUAL, _CLONE3, _ENOSYS),
        *_for_call(_CLONE[machine], [(_LOAD, 0, 0, _FIRST), *_unless(_HAS_BITS, _CLONE_NEW, _EPERM), *thread]),
    ]
    for number in _SOCKETS[machine].values():
        program += _for_call(number, _UNIX_STREAM)
    for number, argument, values in _BY_ARGUMENT[machine]:
        refused = [part for value in values for part in _unless(_EQUAL, value, _EPERM)]
        program += _for_call(number, [(_LOAD, 0, 0, argument), *refused])
    # Jumps are relative, forwards, and at most 255 long: both return instructions follow the comparisons.
    program += [(_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE | _EPERM)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _for_call(number: int, checks: list[_Instruction]) -> list[_Instruction]:
    """Return the checks for calls with this number. A call that passes all of them is allowed."""
    return [(_EQUAL, 0, len(checks) + 1, number), *checks, (_RETURN, 0, 0, _ALLOW)]


def _unless(test: int, value: int, error: int) -> list[_Instruction]:
    """Refuse a call with ``error`` if the test holds for the loaded value."""
    return [(test, 0, 1, value), (_RETURN, 0, 0, _REFUSE | error)]


def _unless_has(bits: int) -> list[_Instruction]:
    """Refuse a call if the loaded value has none of these bits."""
    return [(_HAS_BITS, 1, 0, bits), (_RETURN, 0, 0, _REFUSE | _EPERM)]


_UNIX_STREAM: Final[list[_Instruction]] = [
    (_LOAD, 0, 0, _FIRST),
    (_EQUAL, 1, 0, _AF_UNIX),
    (_RETURN, 0, 0, _REFUSE | _EAFNOSUPPORT),
    (_LOAD, 0, 0, _SECOND),
    (_MASK, 0, 0, _SOCKET_TYPES),
    (_EQUAL, 1, 0, _SOCK_STREAM),
    (_RETURN, 0, 0, _REFUSE | _EPERM),
]
"""Allows Unix stream sockets only: datagrams outlive their sender until they are read, and no limit counts them."""


def hide_process() -> None:
    """Keep other processes of the same user from this one's memory and open files in ``/proc``."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot hide the process")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def restrict(*, may_start_processes: bool) -> None:
    """Apply the filter of this machine to this process for good. Raises ``OSError`` if that fails."""
    program = filter_for(os.uname().machine, may_start_processes=may_start_processes)
    if program is None:
        raise OSError("there is no system call filter for this machine")
    buffer = ctypes.create_string_buffer(program, len(program))
    filters = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, None, 0, 0) or prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filters), 0, 0):
        raise OSError(ctypes.get_errno(), "the system refused the system call filter")
