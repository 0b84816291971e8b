"""A short training run before a measurement."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from quadsim.hessian import batches
from quadsim.hessian.batches import Batch

LR, WARM_UP_STEPS, MAX_GRAD_NORM = 1e-3, 20, 1.0


def train(
    network: nn.Module, draw: Callable[[int], Batch], steps: int, say: Callable[[str], None] | None = None
) -> float:
    """Train in place by AdamW (β 0.9, 0.95, weight decay 0.1, warm-up, gradients clipped at 1); the last loss.

    Step t uses batch t and its lr does not depend on `steps`: 30 steps are the first 30 of 300.
    """
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    value = float("nan")
    for step in range(steps):
        batch = draw(step)
        for group in optimizer.param_groups:
            group["lr"] = LR * min(1.0, (step + 1) / WARM_UP_STEPS)
        loss = batches.cross_entropy(batch, network(batch.inputs))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        value = loss.item()
        if say is not None and (step + 1) % max(1, steps // 10) == 0:
            say(f"Training: step {step + 1} of {steps}, loss {value:.3f}")
    return value
