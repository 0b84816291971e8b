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
    magic, _, page, _, *salts = struct.unpack(">6I", data[:24])
    if magic & ~1 != MAGIC or page < 512 or page > 65536 or page & (page - 1):
        return "its header is damaged"
    order = ">" if magic & 1 else "<"
    sums = _summed(data[:24], order, 0, 0)
    if struct.pack(">2I", *sums) != data[24:HEADER]:
        return "its header is damaged"
    count = (len(data) - HEADER) // (FRAME + page)
    for number in range(count):
        at = HEADER + number * (FRAME + page)
        frame = data[at : at + FRAME + page]
        frame_salts = list(struct.unpack(">2I", frame[8:16]))
        if frame_salts != salts:
            rest = range(number + 1, count)
            current = any(_salts(data, HEADER + k * (FRAME + page)) == salts for k in rest)
            older = 0 < (salts[0] - frame_salts[0]) & 0xFFFFFFFF < MAX_OLDER_LOGS
            return f"frame {number + 1} of {count} is damaged" if current or not older else None
        sums = _summed(frame[FRAME:], order, *_summed(frame[:8], order, *sums))
        if struct.pack(">2I", *sums) != frame[16:FRAME]:
            return f"frame {number + 1} of {count} is damaged"
    return None


def _salts(data: bytes, at: int) -> list[int]:
    return list(struct.unpack(">2I", data[at + 8 : at + 16]))


def _summed(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    """SQLite's checksum of some bytes, continued from ``first`` and ``second``."""
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
