"""The filter of the system calls that jailed code may make (seccomp; Linux's ``seccomp_filter.rst``).

It forbids new processes and programs (but for those of bash), memory that no limit counts, sockets that could leave the
machine, and all that changes namespaces, keys, clocks or other processes. Ordinary calls, threads among them, are as
always.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from typing import Final

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST = 0, 4, 16
"""Offsets in ``struct seccomp_data``: the number of the call, the architecture, the low half of the first argument."""
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_CLONE_THREAD: Final = 0x00010000
_AF_UNIX: Final = 1
_X32: Final = 0x40000000
"""Numbers from here on are those of another interface of x86-64."""
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CONDITIONAL: Final = {"x86_64": {"clone": 56, "socket": 41}, "aarch64": {"clone": 220, "socket": 198}}
_CLONE3: Final = 435
"""Its flags cannot be seen by a filter; the C library does without it where it is missing."""
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
    },
}


_PROCESSES: Final = frozenset({"fork", "vfork", "execve", "execveat"})


def filter_for(machine: str, *, may_start_processes: bool = False) -> bytes | None:
    """Return the filter for a machine, by the name that ``os.uname`` has for it; ``None`` if there is none."""
    if machine not in _ARCHITECTURES:
        return None
    allowed = _PROCESSES if may_start_processes else frozenset[str]()
    numbers = sorted(number for name, number in _FORBIDDEN[machine].items() if name not in allowed)
    conditional = _CONDITIONAL[machine]
    # Jumps are relative, and forwards: the returns and the two checks of arguments stand behind the comparisons.
    allow = 8 + len(numbers)
    refuse, missing, of_clone, of_socket = allow + 1, allow + 2, allow + 3, allow + 6
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, missing - 5, 0, _X32),
        (_EQUAL, of_clone - 6, 0, conditional["clone"]),
        (_EQUAL, of_socket - 7, 0, conditional["socket"]),
        (_EQUAL, missing - 8, 0, _CLONE3),
        *((_EQUAL, refuse - 9 - place, 0, number) for place, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),
        (_LOAD, 0, 0, _FIRST),
        (_HAS_BITS, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _REFUSE | _EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    if may_start_processes:
        program[of_clone + 1] = (_RETURN, 0, 0, _ALLOW)
        return b"".join(struct.pack("<HBBI", *one) for one in program)
    # A thread is allowed by the last instruction, which the check of sockets stands before.
    program[of_clone + 1] = (_HAS_BITS, len(program) - 1 - (of_clone + 2), 0, _CLONE_THREAD)
    return b"".join(struct.pack("<HBBI", *one) for one in program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def restrict(*, may_start_processes: bool) -> None:
    """Hold this process, for good, to the filter of its machine. Raises ``OSError`` if it cannot be."""
    program = filter_for(os.uname().machine, may_start_processes=may_start_processes)
    if program is None:
        raise OSError("there is no filter of system calls for this machine")
    kept = ctypes.create_string_buffer(program, len(program))
    given = _Program(len(program) // 8, ctypes.cast(kept, ctypes.c_void_p))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, None, 0, 0) or prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(given), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")
