"""The write-ahead log of a store that was not closed: whether all of it can be read.

SQLite reads a log up to the first frame whose checksum is wrong and ignores the rest without a word. That is right
after a power cut, and loses committed rows if the log was damaged. A writer therefore notes in its lock file what it
has committed; the note outlives a kill. Where there is a log without a note, its frames are checked here.

Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = 0x377F0682  # the last bit: whether checksums are of big-endian words
HEADER, FRAME = 32, 24  # bytes
OLDER = 1 << 16  # logs before the current one, whose frames may follow


def log_path(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(path.name + "-wal")


def fault(path: Path) -> str | None:
    """What is wrong with the log of a store; None if every frame of it can be read, or there is none."""
    try:
        data = log_path(path).read_bytes()
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
        its_salts = list(struct.unpack(">2I", frame[8:16]))
        if its_salts != salts:
            rest = range(number + 1, count)
            current = any(_salts(data, HEADER + k * (FRAME + page)) == salts for k in rest)
            older = 0 < (salts[0] - its_salts[0]) & 0xFFFFFFFF < OLDER
            return f"frame {number + 1} of {count} is damaged" if current or not older else None
        sums = _summed(frame[FRAME:], order, *_summed(frame[:8], order, *sums))
        if struct.pack(">2I", *sums) != frame[16:FRAME]:
            return f"frame {number + 1} of {count} is damaged"
    return None


def _salts(data: bytes, at: int) -> list[int]:
    return list(struct.unpack(">2I", data[at + 8 : at + 16]))


def _summed(data: bytes, order: str, first: int, second: int) -> tuple[int, int]:
    """SQLite's checksum of some bytes, going on from earlier ones."""
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
