"""Linux's Landlock: a process gives up files for itself and its children, without any privilege."""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, the same on all architectures."""
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3

_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights on files a version knows. All are taken; execution and writing are two."""
_NEWEST = max(_RIGHTS)

_O_PATH = 0o10000000
_SCOPED = 0b11
"""Neither signals to, nor abstract sockets of, processes that gave up less."""
SCOPES_SINCE = 6
"""The version that knows `_SCOPED`."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """Return the kernel's version of Landlock; below 1 where it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return found


def restrict(readable: Iterable[Path]) -> bool:
    """Leave this process only reading, only beneath `readable`; False where the kernel cannot.

    Files that are open stay open. Raises OSError for what should not happen.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return False
    rights = (1 << _RIGHTS[min(version, _NEWEST)]) - 1
    # Older kernels take a longer struct, too, as long as what they do not know is zero.
    wanted = _Ruleset(rights, 0, _SCOPED if version >= SCOPES_SINCE else 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    ruleset = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(wanted), size, 0))
    for path in readable:
        allowed = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
        try:
            parent = os.open(path, _O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rule = _PathBeneath(allowed, parent)
        _checked(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(parent)
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return True


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
