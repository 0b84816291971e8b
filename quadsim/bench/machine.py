"""Properties of the machine that times depend on; nothing that identifies it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

FLAGS = ("avx2", "fma", "avx512f", "neon", "asimd", "sve")  # CPU flags that are reported


def facts() -> dict[str, Any]:
    """CPU, cores, caches and vector units, and the BLAS that numpy calls."""
    from quadsim.engine.solver import cores

    cpu = _cpuinfo()
    flags = set((cpu.get("flags") or cpu.get("features") or "").split())
    return {
        "cpu": cpu.get("model name") or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "cores": cores(),
        "caches": _caches(),
        "vector_units": [flag for flag in FLAGS if flag in flags],
        "blas": _blas(),
    }


def others() -> Callable[[], float | None]:
    """A function that returns the share of CPU time that others used since this call; None if it is unknown.

    Others are all processes except this one and its ended children, and the host of a virtual machine.
    """
    began = _used()

    def share() -> float | None:
        now = _used()
        if began is None or now is None:
            return None
        total, busy, own = (after - before for before, after in zip(began, now, strict=True))
        return round(min(max((busy - own) / max(total, 1.0), 0.0), 1.0), 3)

    return share


def _used() -> tuple[float, float, float] | None:
    """CPU seconds of all cores so far: total, busy, and used by this process and its children."""
    try:
        ticks = [float(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        ticks_per_second = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    total, idle = sum(ticks), ticks[3] + ticks[4]  # with I/O wait
    return total / ticks_per_second, (total - idle) / ticks_per_second, sum(os.times()[:4])


def _cpuinfo() -> dict[str, str]:
    """/proc/cpuinfo of the first core."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _caches() -> dict[str, str]:
    """The caches of the first core: {"L1d": "32K", "L2": "1024K", …}."""
    caches = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            caches[f"L{level}{'d' if kind == 'Data' else ''}"] = size
    return caches


def _blas() -> str:
    import numpy as np

    built: Any = np.show_config(mode="dicts")
    blas = (built or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
