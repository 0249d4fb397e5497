"""Seccomp: system calls that a worker has no use for answer EPERM from now on (seccomp(2), by libseccomp).

A list of what is refused, not of what is allowed: what a driver or a library of numerics calls differs from version to
version, and Landlock has the files.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from functools import cache

LIBRARY = "libseccomp.so.2"
REFUSED = (
    # other processes
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    # the system and its names
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "move_mount", "open_tree", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "swapon", "swapoff", "reboot", "sethostname", "setdomainname", "acct"),
    *("quotactl", "quotactl_fd", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "syslog", "vhangup", "ioperm", "iopl"),
    # parts of the kernel that have had many faults
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("add_key", "request_key", "keyctl", "open_by_handle_at", "name_to_handle_at", "modify_ldt", "vmsplice"),
)
STARTING = ("fork", "vfork", "execve", "execveat")
SOCKETS = ("socket", "socketpair", "connect", "bind", "listen")

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_MASKED_EQUAL = 7
_CLONE_THREAD = 0x10000
_UNKNOWN = -1


class _Argument(ctypes.Structure):
    """When a rule holds: by the argument of that number."""

    _fields_ = [("number", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


@cache
def _library() -> ctypes.CDLL | None:
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    found.seccomp_init.restype = ctypes.c_void_p
    found.seccomp_init.argtypes = [ctypes.c_uint32]
    found.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    of_rule = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Argument))
    found.seccomp_rule_add_array.argtypes = of_rule
    found.seccomp_load.argtypes = [ctypes.c_void_p]
    found.seccomp_release.argtypes = [ctypes.c_void_p]
    return found


def available() -> bool:
    """Whether this host has the library that writes filters."""
    return sys.platform == "linux" and _library() is not None


def refuse(*, processes: bool) -> bool:
    """Refuses them to this thread and what it starts, and all sockets; whether that was done. New `processes` may be
    left, where a program is to be run. Raises OSError where the kernel refuses the filter."""
    library = _library() if sys.platform == "linux" else None
    if library is None:
        return False
    rules = library.seccomp_init(_ALLOW)
    if not rules:
        raise OSError(errno.ENOMEM, "no filter of system calls can be made")
    try:
        _add(library, rules, errno.EPERM, *REFUSED)
        if not processes:
            _add(library, rules, errno.EPERM, *STARTING)
            _add(library, rules, errno.EPERM, "clone", when=_Argument(0, _MASKED_EQUAL, _CLONE_THREAD, 0))
        # Its flags are in memory, where no filter can look; a C library that it is unknown to takes `clone`.
        _add(library, rules, errno.ENOSYS, "clone3")
        _add(library, rules, errno.EPERM, *SOCKETS)
        _checked(library.seccomp_load(rules))
    finally:
        library.seccomp_release(rules)
    return True


def _add(library: ctypes.CDLL, rules: int, error: int, *names: str, when: _Argument | None = None) -> None:
    """Calls that answer so, those that the library knows."""
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number != _UNKNOWN:
            arguments = (0, None) if when is None else (1, ctypes.pointer(when))
            _checked(library.seccomp_rule_add_array(rules, _ERRNO | error, number, *arguments))


def _checked(result: int) -> None:
    if result < 0:
        raise OSError(-result, "a filter of system calls is refused")
