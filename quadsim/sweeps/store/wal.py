"""Checks of the write-ahead log (WAL) of a store that was not closed.

SQLite reads a WAL up to the first frame whose checksum is wrong and silently ignores the rest. That is right after a
power cut, but loses committed rows if the WAL was damaged. So a writer notes in its lock file what it has committed,
which survives a kill. A WAL without such a note is checked here, frame by frame.

Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = 0x377F0682  # the last bit: whether checksums are of big-endian words
HEADER, FRAME = 32, 24  # bytes of the WAL header and of a frame header
MAX_OLDER_LOGS = 1 << 16  # salt 1 grows by 1 with each restart of the WAL; frames of older ones may follow


def wal_path(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(path.name + "-wal")


def fault(path: Path) -> str | None:
    """What is wrong with the WAL of a store; None if every frame can be read, or there is no WAL."""
    try:
        data = wal_path(path).read_bytes()
    except OSError:
        return None
    if not data:
        return None
    if len(data) < HEADER:
        return "its header is cut short"
    magic, _, page = struct.unpack(">3I", data[:12])
    order, salts = ">" if magic & 1 else "<", data[16:24]
    sums = _summed(data[:24], order, 0, 0)
    valid_page = 512 <= page <= 65536 and not page & (page - 1)
    if magic & ~1 != MAGIC or not valid_page or struct.pack(">2I", *sums) != data[24:HEADER]:
        return "its header is damaged"
    size = FRAME + page
    frames = [data[at : at + size] for at in range(HEADER, len(data) - size + 1, size)]
    for number, frame in enumerate(frames, start=1):
        fault = f"frame {number} of {len(frames)} is damaged"
        if frame[8:16] != salts:
            current = any(later[8:16] == salts for later in frames[number:])
            age = int.from_bytes(salts[:4], "big") - int.from_bytes(frame[8:12], "big")
            return fault if current or not 0 < age & 0xFFFFFFFF < MAX_OLDER_LOGS else None
        sums = _summed(frame[FRAME:], order, *_summed(frame[:8], order, *sums))
        if struct.pack(">2I", *sums) != frame[16:FRAME]:
            return fault
    return None


def _summed(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    """SQLite's checksum of some bytes, continued from ``first`` and ``second``."""
    numbers = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, two in zip(numbers, numbers, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
