"""The memory that a measurement needs, estimated by a run on fake tensors (shapes without data)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from quadsim._validation import InputError
from quadsim.hessian.operators import Loss, Outputs, operator, restored

OVERHEAD = 1.5  # memory of a process relative to that of its tensors: workspaces and the allocator


def check(
    module: nn.Module,
    outputs: Outputs,
    loss: Loss,
    curvature: str,
    names: dict[str, str],
    steps: int,
    log: Callable[[str], None],
) -> None:
    """Report the memory that the largest block needs, and raise if less is available."""
    sizes = {block: module.get_parameter(name).numel() for block, name in names.items()}
    largest = max(sizes, key=sizes.__getitem__)
    # The graph is longer the earlier a block is used; products of the largest block need the most memory beside it.
    graphs = [
        graph_bytes(module, names[block], outputs, loss, curvature)
        for block in dict.fromkeys([largest, next(iter(names)), list(names)[-1]])
    ]
    known = [size for size in graphs if size is not None]
    graph = int(OVERHEAD * max(known, default=0))
    vectors, itemsize = min(steps, sizes[largest]), module.get_parameter(names[largest]).dtype.itemsize
    basis = sizes[largest] * (vectors * itemsize + 4 * 8)  # and four working vectors in float64
    free = available()
    parts = f"{_gb(basis)} for {vectors} Lanczos vectors, " + (
        f"{_gb(graph)} for the graph" if len(known) == len(graphs) else "unknown for the graph"
    )
    need = f"block {largest} needs about {_gb(basis + graph)} of memory beside the network ({parts})"
    if free is not None and basis + graph > free:
        raise InputError(f"{need}, and {_gb(free)} are free: use fewer Lanczos steps, a smaller batch or other blocks")
    log(f"{need[0].upper()}{need[1:]}, the others less" + ("" if free is None else f"; {_gb(free)} are free"))


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


class _Live(TorchDispatchMode):
    """Counts the bytes of live tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def graph_bytes(module: nn.Module, name: str, outputs: Outputs, loss: Loss, curvature: str) -> int | None:
    """The peak memory of building the graph and of one product, besides the network; None if it is unknown.

    Run on fake tensors: nothing is computed or allocated.
    """
    live = _Live()
    try:
        with (
            restored(module),
            FakeTensorMode(allow_non_fake_inputs=True),
            live,
            operator(module, name, outputs, loss, curvature=curvature) as product,
        ):
            product(torch.zeros(module.get_parameter(name).numel()))
    except Exception:  # fake tensors have no values, which a module may depend on
        return None
    return live.peak


def available() -> int | None:
    """Bytes available to this process: the machine's free memory and the limit of its cgroup; None if unknown."""
    limits = []
    with suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for limit_file, usage_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            limit, usage = (int(Path(path).read_text(encoding="ascii")) for path in (limit_file, usage_file))
            if limit < 2**60:
                limits.append(limit - usage)
    return min(limits, default=None)
