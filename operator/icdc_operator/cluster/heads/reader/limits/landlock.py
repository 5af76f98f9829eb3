"""Give up files by Linux's Landlock, for this process and its children, without any privilege.

Part 1 of `reader`: confine. By system calls, because no library of Python's has them. See
Documentation/userspace-api/landlock.rst of the kernel. It must not know which files are needed.
"""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls; since Linux 5.1 new ones are the same on all architectures."""
# LANDLOCK_CREATE_RULESET_VERSION, LANDLOCK_RULE_PATH_BENEATH and PR_SET_NO_NEW_PRIVS.
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3

_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""File rights that each version of Landlock knows. All are handled, so all are taken."""
_NEWEST = max(_RIGHTS)

_O_PATH = 0o10000000
_SCOPED = 0b11
"""No signals to, and no abstract sockets of, processes outside of this domain."""
SCOPES_SINCE = 6
"""First version that knows `_SCOPED` (Linux 6.12)."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    # The kernel's struct has no padding. Newer Pythons want the layout named beside `_pack_`.
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def read_version() -> int:
    """Return the kernel's version of Landlock; below 1 where it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    supported: int = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return supported


def restrict(readable: Iterable[Path]) -> bool:
    """Allow this process to read beneath `readable` and nothing else. False without Landlock.

    Files that are open stay open. Raises OSError if a call fails that should not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return False
    rights = (1 << _RIGHTS[min(version, _NEWEST)]) - 1
    # Older kernels accept a longer struct if the fields that they do not know are zero.
    wanted = _Ruleset(rights, 0, _SCOPED if version >= SCOPES_SINCE else 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    ruleset = _check_result(libc.syscall(_CREATE_RULESET, ctypes.byref(wanted), size, 0))
    for path in readable:
        allowed = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
        try:
            parent = os.open(path, _O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # a path that is missing or closed already needs no rule
        rule = _PathBeneath(allowed, parent)
        _check_result(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(parent)
    # Without it the kernel refuses RESTRICT_SELF to a process without CAP_SYS_ADMIN.
    _check_result(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check_result(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return True


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
