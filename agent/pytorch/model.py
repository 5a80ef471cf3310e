"""The model that the drill trains: a decoder-only transformer with dropout, as large as asked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

BYTES_PER_PARAMETER = 12
"""A weight and the two moments of AdamW, four bytes each."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the transformer.

    Attributes:
        width: of the residual stream; a multiple of 64, one head for each 64.
        layers: transformer blocks.
        vocabulary, context: tokens, and how many of them one sequence has.
    """

    width: int
    layers: int
    vocabulary: int = 256
    context: int = 16

    @property
    def parameters(self) -> int:
        """How many weights a model of this shape has."""
        block = 12 * self.width**2 + 13 * self.width
        return self.layers * block + (2 * self.vocabulary + self.context + 2) * self.width


def shape_for(state_bytes: float) -> Shape:
    """The shape whose weights and AdamW moments come closest to ``state_bytes``; 0.6 MB at the least."""
    shapes = [Shape(width, layers) for width in range(64, 4097, 64) for layers in (1, 2, 3, 4, 6, 8, 12, 16)]
    square = [shape for shape in shapes if shape.layers <= max(2, shape.width // 64)]
    return min(square, key=lambda shape: abs(shape.parameters * BYTES_PER_PARAMETER - state_bytes))


class Block(nn.Module):
    """Attention and a feed-forward network, each after a layer norm, with dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.heads = width // 64
        self.dropout = dropout
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, context, width) to the same shape."""
        batch, context, width = tokens.shape
        parts = self.qkv(self.before_attention(tokens)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, context, self.heads, -1).transpose(1, 2) for part in parts)
        rate = self.dropout if self.training else 0.0
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
        mixed = self.out(seen.transpose(1, 2).reshape(batch, context, width))
        tokens = tokens + functional.dropout(mixed, self.dropout, self.training)
        fed = self.feed(self.before_feed(tokens))
        return tokens + functional.dropout(fed, self.dropout, self.training)


class Transformer(nn.Module):
    """Predicts the next token."""

    def __init__(self, shape: Shape, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Parameter(torch.zeros(shape.context, shape.width))
        self.blocks = nn.Sequential(*(Block(shape.width, dropout) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, context) of token numbers to (batch, context, vocabulary) of logits."""
        hidden = self.blocks(self.tokens(tokens) + self.places)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


def next_token_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Cross entropy of each token given those before it; ``batch`` is (sequences, context + 1)."""
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
