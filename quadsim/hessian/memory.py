"""How much memory a measurement will take, found out by running it on tensors without content."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from quadsim.checks import InputError
from quadsim.hessian.operators import Loss, Outputs, operator, restored

SLACK = 1.5  # what a process holds over what its tensors do: workspaces of the operations, and the allocator's own


def check(
    module: nn.Module,
    outputs: Outputs,
    loss: Loss,
    curvature: str,
    names: dict[str, str],
    steps: int,
    say: Callable[[str], None],
) -> None:
    """State the memory of the block that needs most, and refuse if there is less."""
    sizes = {block: module.get_parameter(name).numel() for block, name in names.items()}
    largest = max(sizes, key=lambda block: sizes[block])
    # The graph is the longer the earlier a block is used, and a product of the largest block holds the most beside it.
    graphs = [
        graph_bytes(module, names[block], outputs, loss, curvature)
        for block in dict.fromkeys([largest, next(iter(names)), list(names)[-1]])
    ]
    known = [size for size in graphs if size is not None]
    graph = int(SLACK * max(known, default=0))
    basis = basis_bytes(sizes[largest], steps, module.get_parameter(names[largest]).dtype)
    free = available()
    parts = f"{_gb(basis)} for {min(steps, sizes[largest])} Lanczos vectors, " + (
        f"{_gb(graph)} for the graph" if len(known) == len(graphs) else "the graph's size is not known"
    )
    need = f"block {largest} needs about {_gb(basis + graph)} of memory beside the network ({parts})"
    if free is not None and basis + graph > free:
        raise InputError(f"{need}, and {_gb(free)} are free: use fewer steps, a smaller batch or other blocks")
    say(f"{need[0].upper()}{need[1:]}, the others less" + ("" if free is None else f"; {_gb(free)} are free"))


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


class _Live(TorchDispatchMode):
    """Counts the bytes of the tensors that live at once."""

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
    """The most that building the graph and one product hold at once, beside the network; None if it cannot be told.

    Run with shapes only: nothing is computed and nothing is allocated.
    """
    live = _Live()
    try:
        with (
            restored(module),
            FakeTensorMode(allow_non_fake_inputs=True),
            live,
            operator(module, name, outputs, loss, curvature=curvature) as product,
        ):
            product(torch.zeros(dict(module.named_parameters())[name].numel()))
    except Exception:  # a module may do what tensors without content cannot follow, such as look at a value
        return None
    return live.peak


def basis_bytes(size: int, steps: int, dtype: torch.dtype) -> int:
    """The Lanczos basis, and four working vectors in float64."""
    return min(steps, size) * size * dtype.itemsize + 4 * 8 * size


def available() -> int | None:
    """Bytes that this process may still take, where the system tells: the machine's and its control group's."""
    limits = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError):
        pass
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            most, now = (int(Path(path).read_text(encoding="ascii")) for path in (limit, used))
        except (OSError, ValueError):
            continue
        if most < 2**60:
            limits.append(most - now)
    return min(limits) if limits else None
