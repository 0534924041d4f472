"""What an experiment is: frozen values, no behaviour. Variants are made with `dataclasses.replace` or `override`.

A spec says everything that decides a loss curve except beta, seed and the machine. Its nested dataclasses are plain
data: `dataclasses.asdict` of it goes into a run's record, and its hash names the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class GPT2:
    """transformers' GPT2LMHeadModel, from scratch."""

    vocabulary: int = 50_304
    context: int = 256
    layers: int = 6
    heads: int = 6
    width: int = 384
    dropout: float = 0.2


@dataclass(frozen=True)
class Llama:
    """transformers' LlamaForCausalLM, from scratch."""

    vocabulary: int = 32_100
    context: int = 256
    layers: int = 8
    heads: int = 8
    width: int = 512
    intermediate: int = 1376


@dataclass(frozen=True)
class T5:
    """transformers' T5ForConditionalGeneration: a pretrained checkpoint, or from its configuration where None."""

    checkpoint: str | None = "t5-small"
    vocabulary: int = 32_128
    layers: int = 6
    heads: int = 8
    width: int = 512
    feed_forward: int = 2048
    head_width: int = 64


@dataclass(frozen=True)
class ResNet:
    """torchvision's ResNet of bottleneck blocks (ResNet50), from scratch; the head is dropout, then a linear layer."""

    classes: int
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    width: int = 64
    head_dropout: float = 0.2


@dataclass(frozen=True)
class ViT:
    """torchvision's VisionTransformer (ViT-B/16), from scratch, with a linear head."""

    classes: int
    image: int = 224
    patch: int = 16
    layers: int = 12
    heads: int = 12
    width: int = 768
    feed_forward: int = 3072


@dataclass(frozen=True)
class EfficientNet:
    """torchvision's EfficientNet-B0, from scratch, with a linear head; multipliers shrink it."""

    classes: int
    width_multiplier: float = 1.0
    depth_multiplier: float = 1.0
    dropout: float = 0.2


@dataclass(frozen=True)
class Swin:
    """torchvision's SwinTransformer (Swin-T), from scratch, with a linear head."""

    classes: int
    patch: int = 4
    width: int = 96
    depths: tuple[int, ...] = (2, 2, 6, 2)
    heads: tuple[int, ...] = (3, 6, 12, 24)
    window: int = 7
    stochastic_depth: float = 0.2


Model = GPT2 | Llama | T5 | ResNet | ViT | EfficientNet | Swin


@dataclass(frozen=True)
class Text:
    """A text data set, tokenized and packed into blocks of `length` tokens."""

    source: str
    tokenizer: str
    length: int = 256
    streaming: bool = False
    held_out_documents: int | None = None


@dataclass(frozen=True)
class SpanCorruption:
    """T5's denoising objective."""

    noise_density: float = 0.15
    mean_span_length: float = 3.0


@dataclass(frozen=True)
class Augmentation:
    """Training transforms, in this order; evaluation resizes to `resize` and crops the centre."""

    crop: int = 224
    resize: int = 256
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    color_jitter: tuple[float, float, float, float] | None = None
    rand_augment: tuple[int, int] | None = None
    random_erasing: float = 0.0


@dataclass(frozen=True)
class Images:
    """An image classification data set."""

    source: str
    augmentation: Augmentation
    train_per_class: int | None = None
    split_seed: int | None = None


Data = Text | Images


@dataclass(frozen=True)
class Optimizer:
    """Adam or AdamW with tied betas. `decay` says which parameters decay: all, or weights alone."""

    name: Literal["adam", "adamw"]
    lr: float
    weight_decay: float
    decay: Literal["all", "weights"] = "weights"
    clip: float | None = None


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then cosine decay to `min_lr` at the last step.

    The warm-up lasts max(warmup_steps, warmup_share * budget) steps: a number, a share of the budget, or the
    larger of both.
    """

    min_lr: float
    warmup_steps: int = 0
    warmup_share: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """When and on how much: every `every` steps, and at the first step where `at_start`; always at the last step.

    Language: `batches` fixed batches of train and validation, or up to `tokens` tokens. None means the whole set.
    """

    every: int
    at_start: bool = False
    batches: int | None = None
    tokens: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class Experiment:
    """One experiment: everything but beta and seed. `budget` is in optimizer steps; `t_es` is the paper's, rounded."""

    name: str
    title: str
    split: Literal["development", "heldout"]
    model: Model
    data: Data
    optimizer: Optimizer
    schedule: Schedule
    evaluation: Evaluation
    budget: int
    batch_size: int
    accumulate: int = 1
    label_smoothing: float = 0.0
    objective: Literal["next-token", "span-corruption", "classification"] = "classification"
    span_corruption: SpanCorruption | None = None
    drop_last: bool = True
    seeds: tuple[int, ...] = (1, 2, 3)
    t_es: int | None = None
