"""A filter of system calls for programs in a sandbox: what they do not need and what no limit would see.

It refuses new user namespaces, mounts, keys, kernel programs and the like, which are where a way out would
begin, and shared memory that belongs to no process. The format is that of the kernel's classic BPF.
"""

from __future__ import annotations

import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Places in the kernel's ``struct seccomp_data``."""
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NEW_USER_NAMESPACE = 0x10000000
_X32 = 0x40000000
"""Where the numbers of a second set of calls begin on x86-64, the same calls again."""
_COMMON = range(424, 449)
"""Calls with the same number everywhere: io_uring, the new mount calls, pidfd_getfd and their kin."""
_KEPT = frozenset({424, 434, 435, 436, 437, 439, 440, 441, 444, 445, 446, 448})
"""Of those: pidfd_send_signal, pidfd_open, clone3 (dealt with apart), close_range, openat2, faccessat2,
process_madvise, epoll_pwait2, landlock's three, process_mrelease."""
_CLONE3 = 435

_REFUSED = {
    # unshare setns mount umount2 pivot_root chroot swapon swapoff reboot init_module delete_module
    # finit_module kexec_load kexec_file_load add_key request_key keyctl bpf perf_event_open userfaultfd
    # shmget msgget open_by_handle_at name_to_handle_at quotactl acct settimeofday clock_settime
    "x86_64": (
        "c000003e",
        56,
        """272 308 165 166 155 161 167 168 169 175 176 313 246 320 248 249 250 321 298 323
        29 68 304 303 179 163 164 227""",
    ),
    "aarch64": (
        "c00000b7",
        220,
        """97 268 40 39 41 51 224 225 142 105 106 273 104 294 217 218 219 280 241 282
        194 186 265 264 60 89 170 112""",
    ),
}
"""The kernel's name of the architecture in hexadecimal, its number of ``clone``, and the calls above."""


def program(machine: str | None = None) -> bytes | None:
    """The filter for a kind of machine, by default this one; ``None`` where its calls are not known here."""
    known = _REFUSED.get(platform.machine() if machine is None else machine)
    if known is None:
        return None
    architecture, clone, numbers = known
    refused = sorted({*map(int, numbers.split()), *(number for number in _COMMON if number not in _KEPT)})
    return b"".join(
        [
            _step(_LOAD, _ARCHITECTURE),
            _step(_EQUAL, int(architecture, 16), yes=1),
            _step(_RETURN, _KILL),
            _step(_LOAD, _NUMBER),
            # calls of the second set and clone3 are not there, as on an older kernel: programs do without
            _step(_AT_LEAST, _X32, no=1),
            _step(_RETURN, _REFUSE | _ENOSYS),
            _step(_EQUAL, _CLONE3, no=1),
            _step(_RETURN, _REFUSE | _ENOSYS),
            *(
                part
                for number in refused
                for part in (_step(_EQUAL, number, no=1), _step(_RETURN, _REFUSE | _EPERM))
            ),
            _step(_EQUAL, clone, no=3),
            _step(_LOAD, _FIRST_ARGUMENT),
            _step(_ANY_BIT, _NEW_USER_NAMESPACE, no=1),
            _step(_RETURN, _REFUSE | _EPERM),
            _step(_RETURN, _ALLOW),
        ]
    )


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; ``yes`` and ``no``: how many of the next ones a comparison leaves out."""
    return struct.pack("=HBBI", code, yes, no, value)
