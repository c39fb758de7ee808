"""How much memory this computer has free."""

from __future__ import annotations

import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")


def free_host_bytes() -> int | None:
    """Return the free bytes; None if unknown."""
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:  # no such file on this system: use the total as an upper bound
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def does_not_fit(needed: int) -> str | None:
    """Return what is wrong if this many bytes do not fit into the memory that is free; None if they do."""
    free = free_host_bytes()
    if free is None or needed <= free:
        return None
    return f"needs {readable(needed)} at least, but {readable(free)} of memory are free"


def readable(count: int) -> str:
    """Format bytes as kB, MB or GB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.1f} kB"
