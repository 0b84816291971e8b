"""A short training run before a measurement."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from quadsim.hessian import batches
from quadsim.hessian.batches import Batch

LR, WARM_UP_STEPS, MAX_GRAD_NORM = 1e-3, 20, 1.0


def train(network: nn.Module, draw: Callable[..., Batch], steps: int, log: Callable[[str], None]) -> None:
    """Train in place by AdamW (β 0.9, 0.95, weight decay 0.1, warm-up, gradients clipped at 1).

    Step t uses batch t and its lr does not depend on `steps`: 30 steps are the first 30 of 300.
    """
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(steps):
        batch = draw(number=step)
        for group in optimizer.param_groups:
            group["lr"] = LR * min(1.0, (step + 1) / WARM_UP_STEPS)
        loss = batches.cross_entropy(batch, network(batch.inputs))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        if (step + 1) % max(1, steps // 10) == 0:
            log(f"Training: step {step + 1} of {steps}, loss {loss.item():.3f}")
