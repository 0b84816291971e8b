"""GPT2, a BERT-style encoder and a ViT in plain torch.

Attention is written out, since fused kernels have no second derivative. Query, key and value are separate matrices, so
that each is a block; the published models store the three in one matrix, with the same initialization.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Layer(nn.Module):
    """Attention and MLP with their residual connections; norms before them (GPT2, ViT) or after (BERT)."""

    def __init__(self, width: int, heads: int, *, causal: bool, pre_norm: bool, gelu: str, eps: float) -> None:
        super().__init__()
        self.heads, self.causal, self.pre_norm, self.gelu = heads, causal, pre_norm, gelu
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.attention_out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=eps)
        self.mlp_in = nn.Linear(width, 4 * width)
        self.mlp_out = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        if self.pre_norm:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape

        def by_head(y: Tensor) -> Tensor:
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = by_head(self.query(x)), by_head(self.key(x)), by_head(self.value(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)  # (batch, heads, length, length)
        if self.causal:
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return self.attention_out(mixed)

    def mlp(self, x: Tensor) -> Tensor:
        return self.mlp_out(F.gelu(self.mlp_in(x), approximate=self.gelu))


class Stack(nn.Module):
    """Layers named layer0, layer1, …, so that a block is called layer3.query."""

    def __init__(self, layers: int, width: int, heads: int, **kind: bool | str | float) -> None:
        super().__init__()
        for number in range(layers):
            self.add_module(f"layer{number}", Layer(width, heads, **kind))  # type: ignore[arg-type]

    def layers(self) -> list[Layer]:
        return [part for part in self.children() if isinstance(part, Layer)]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers():
            x = layer(x)
        return x


class GPT2(Stack):
    """Radford et al. 2019, the smallest of the four; the embedding is tied to the head.

    Positions start at the scale of all other weights, 0.02, as in most reimplementations; the original code has 0.01.
    """

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257, context: int = 1024
    ) -> None:
        super().__init__(layers, width, heads, causal=True, pre_norm=True, gelu="tanh", eps=1e-5)
        self.vocabulary, self.context = vocabulary, context
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.norm = nn.LayerNorm(width)
        _initialize(self, partial(nn.init.normal_, std=0.02))
        for layer in self.layers():
            # So that the residual stream does not grow with depth: section 2.3 of the paper.
            for residual in (layer.attention_out, layer.mlp_out):
                nn.init.normal_(residual.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, tokens: Tensor) -> Tensor:  # (batch, length) → logits (batch, length, vocabulary)
        x = super().forward(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]])
        return self.norm(x) @ self.embedding.weight.T


class BERT(Stack):
    """After Devlin et al. 2018: masked tokens are predicted, the embedding is tied.

    Without segments and next-sentence prediction; a token to be predicted is always masked. By default it has the size
    of BERT-mini (4 layers, width 256) and GPT2's vocabulary with one more token, the mask.
    """

    def __init__(
        self, layers: int = 4, width: int = 256, heads: int = 4, vocabulary: int = 50258, context: int = 512
    ) -> None:
        super().__init__(layers, width, heads, causal=False, pre_norm=False, gelu="none", eps=1e-12)
        self.vocabulary, self.context = vocabulary, context
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.head = nn.Linear(width, width)
        self.head_norm = nn.LayerNorm(width, eps=1e-12)
        self.head_bias = nn.Parameter(torch.zeros(vocabulary))
        _initialize(self, partial(nn.init.trunc_normal_, std=0.02, a=-0.04, b=0.04))

    def forward(self, tokens: Tensor) -> Tensor:
        x = super().forward(self.norm(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]))
        return self.head_norm(F.gelu(self.head(x))) @ self.embedding.weight.T + self.head_bias


class ViT(Stack):
    """Dosovitskiy et al. 2021, initialized as DeiT (Touvron et al. 2021).

    The original initializes the head at zero, where every other block's Hessian vanishes; DeiT does not.
    """

    def __init__(
        self,
        layers: int = 6,
        width: int = 192,
        heads: int = 3,
        patch: int = 8,
        image: tuple[int, int] = (64, 64),
        classes: int = 1000,
    ) -> None:
        super().__init__(layers, width, heads, causal=False, pre_norm=True, gelu="none", eps=1e-6)
        self.patch = patch
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + (image[0] // patch) * (image[1] // patch), width))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        draw = partial(nn.init.trunc_normal_, std=0.02)  # truncated at ±2, which has no effect
        _initialize(self, draw)  # the convolution keeps torch's initialization
        for parameter in (self.token, self.positions):
            draw(parameter)

    def forward(self, images: Tensor) -> Tensor:  # (batch, 3, height, width) → (batch, classes)
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(super().forward(x))[:, 0])


def _initialize(module: nn.Module, draw: Callable[[Tensor], Any]) -> None:
    """Draw the weights of linear layers and embeddings; their biases are 0. Norms keep 1 and 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            draw(part.weight)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
