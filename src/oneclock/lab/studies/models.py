"""Small models with stacked parameters: every tensor has a leading dimension E, one slice per member.

A model is a frozen value. `initial` draws the parameters of one member; `outputs` computes all members at once from
parameters of shape (E, ...). Members never mix: a member that diverges leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

Parameters = Mapping[str, Tensor]

_STD = 0.02
"""Standard deviation of new weights, as in transformers."""


@dataclass(frozen=True)
class Llama:
    """A language model with RMSNorm, rotary positions and SwiGLU, without biases, as in transformers' Llama."""

    vocabulary: int = 128
    context: int = 32
    layers: int = 2
    heads: int = 2
    width: int = 32
    feed_forward: int = 88

    def initial(self, random: torch.Generator) -> dict[str, Tensor]:
        """New parameters of one member."""
        width, wide = self.width, self.feed_forward
        shapes = {"embedding": (self.vocabulary, width)}
        for layer in range(self.layers):
            shapes |= {f"{layer}.qkv": (width, 3 * width), f"{layer}.out": (width, width)}
            shapes |= {f"{layer}.gate_up": (width, 2 * wide), f"{layer}.down": (wide, width)}
        shapes["head"] = (width, self.vocabulary)
        drawn = {name: torch.randn(shape, generator=random) * _STD for name, shape in shapes.items()}
        return drawn | {"norms": torch.ones(2 * self.layers + 1, width)}

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Logits (E, B * T, V) of token ids (E, B, T)."""
        members, rows, time = inputs.shape
        angles = _rotary(time, self.width // self.heads)
        hidden = _embedded(parameters["embedding"], inputs).view(members, rows * time, self.width)
        norms = parameters["norms"].unbind(1)
        for layer in range(self.layers):
            normed = _rms_norm(hidden, norms[2 * layer])
            mixed = _attention(torch.bmm(normed, parameters[f"{layer}.qkv"]), rows, self.heads, angles)
            hidden = torch.baddbmm(hidden, mixed, parameters[f"{layer}.out"])
            normed = _rms_norm(hidden, norms[2 * layer + 1])
            gate, up = torch.bmm(normed, parameters[f"{layer}.gate_up"]).chunk(2, -1)
            hidden = torch.baddbmm(hidden, F.silu(gate) * up, parameters[f"{layer}.down"])
        return torch.bmm(_rms_norm(hidden, norms[-1]), parameters["head"])


@dataclass(frozen=True)
class Gpt2:
    """A language model with LayerNorm, learned positions, biases, GELU and a tied head, as in transformers' GPT-2."""

    vocabulary: int = 128
    context: int = 32
    layers: int = 2
    heads: int = 2
    width: int = 32

    def initial(self, random: torch.Generator) -> dict[str, Tensor]:
        """New parameters of one member."""
        width = self.width
        shapes = {"embedding": (self.vocabulary, width), "positions": (self.context, width)}
        for layer in range(self.layers):
            shapes |= {f"{layer}.qkv": (width, 3 * width), f"{layer}.out": (width, width)}
            shapes |= {f"{layer}.up": (width, 4 * width), f"{layer}.down": (4 * width, width)}
        drawn = {name: torch.randn(shape, generator=random) * _STD for name, shape in shapes.items()}
        for layer in range(self.layers):
            for name in ("out", "down"):
                drawn[f"{layer}.{name}"] *= (2 * self.layers) ** -0.5
            for name, size in {"qkv": 3 * width, "out": width, "up": 4 * width, "down": width}.items():
                drawn[f"{layer}.{name}.bias"] = torch.zeros(1, size)
        norms = torch.stack([torch.ones(2 * self.layers + 1, width), torch.zeros(2 * self.layers + 1, width)])
        return drawn | {"norms": norms}

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Logits (E, B * T, V) of token ids (E, B, T)."""
        members, rows, time = inputs.shape
        hidden = _embedded(parameters["embedding"], inputs) + parameters["positions"][:, None, :time]
        hidden = hidden.view(members, rows * time, self.width)
        gains, shifts = (one.unbind(1) for one in parameters["norms"].unbind(1))

        def dense(values: Tensor, name: str) -> Tensor:
            return torch.baddbmm(parameters[f"{name}.bias"], values, parameters[name])

        for layer in range(self.layers):
            normed = _layer_norm(hidden, gains[2 * layer], shifts[2 * layer])
            hidden = hidden + dense(_attention(dense(normed, f"{layer}.qkv"), rows, self.heads), f"{layer}.out")
            normed = _layer_norm(hidden, gains[2 * layer + 1], shifts[2 * layer + 1])
            hidden = hidden + dense(F.gelu(dense(normed, f"{layer}.up"), approximate="tanh"), f"{layer}.down")
        return torch.bmm(_layer_norm(hidden, gains[-1], shifts[-1]), parameters["embedding"].transpose(1, 2))


@dataclass(frozen=True)
class Mlp:
    """A classifier of vectors: hidden layers with ReLU."""

    inputs: int
    hidden: int = 64
    layers: int = 2
    classes: int = 10

    def initial(self, random: torch.Generator) -> dict[str, Tensor]:
        """New parameters of one member: He's initialization, biases 0."""
        sizes = [self.inputs, *[self.hidden] * self.layers, self.classes]
        drawn = {}
        for number, (before, after) in enumerate(pairwise(sizes)):
            drawn[f"{number}"] = torch.randn(before, after, generator=random) * (2 / before) ** 0.5
            drawn[f"{number}.bias"] = torch.zeros(1, after)
        return drawn

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Logits (E, B, classes) of vectors (E, B, inputs)."""
        values = inputs
        for number in range(self.layers + 1):
            values = F.relu(values) if number else values
            values = torch.baddbmm(parameters[f"{number}.bias"], values, parameters[f"{number}"])
        return values


@dataclass(frozen=True)
class ConvNet:
    """A classifier of time series: two convolutions with ReLU and stride 2, the mean over time, and a linear layer."""

    inputs: int
    classes: int
    channels: int = 16
    kernel: int = 5

    def initial(self, random: torch.Generator) -> dict[str, Tensor]:
        """New parameters of one member: He's initialization, biases 0."""
        sizes = [(self.kernel, self.channels), (self.kernel * self.channels, self.channels)]
        drawn = {}
        for number, (before, after) in enumerate([*sizes, (self.channels, self.classes)]):
            drawn[f"{number}"] = torch.randn(before, after, generator=random) * (2 / before) ** 0.5
            drawn[f"{number}.bias"] = torch.zeros(1, after)
        return drawn

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Logits (E, B, classes) of series (E, B, inputs)."""
        values = inputs[..., None]
        for number in range(2):
            windows = values.unfold(2, self.kernel, 2).flatten(3)  # (E, B, places, channels * kernel)
            flat = torch.baddbmm(parameters[f"{number}.bias"], windows.flatten(1, 2), parameters[f"{number}"])
            values = F.relu(flat).view(*windows.shape[:3], -1)
        return torch.baddbmm(parameters["2.bias"], values.mean(2), parameters["2"])


Model = Llama | Gpt2 | Mlp | ConvNet


def losses(model: Model, parameters: Parameters, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of each member, shape (E,). A sum over members gives every member its own gradient."""
    logits = model.outputs(parameters, inputs)
    each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return each.view(len(logits), -1).mean(1)


def is_decayed(name: str) -> bool:
    """Whether weight decay acts on a parameter: on weights and embeddings, not on biases and norms."""
    return not (name.endswith("bias") or name == "norms")


def _embedded(table: Tensor, ids: Tensor) -> Tensor:
    members, vocabulary, width = table.shape
    first = torch.arange(members).view(-1, 1, 1) * vocabulary
    return F.embedding(ids + first, table.view(-1, width))


def _rms_norm(values: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(values, values.shape[-1:], eps=1e-6) * gain[:, None]


def _layer_norm(values: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return torch.addcmul(shift[:, None], F.layer_norm(values, values.shape[-1:]), gain[:, None])


def _rotary(time: int, size: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine (T, size) of the rotary positions, base 10,000."""
    frequencies = 10_000.0 ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.outer(torch.arange(time).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def _rotated(values: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    first, second = values.chunk(2, -1)
    return values * angles[0] + torch.cat([-second, first], -1) * angles[1]


def _attention(qkv: Tensor, rows: int, heads: int, angles: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Causal self-attention of (E, B * T, 3 * width), each row of the batch by itself."""
    members, tokens, wide = qkv.shape
    size = wide // 3 // heads
    split = qkv.view(members * rows, tokens // rows, 3, heads, size).permute(2, 0, 3, 1, 4)
    queries, keys, values = split.unbind(0)
    if angles is not None:
        queries, keys = _rotated(queries, angles), _rotated(keys, angles)
    mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return mixed.transpose(1, 2).reshape(members, tokens, wide // 3)
