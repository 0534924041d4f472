"""What an experiment is: frozen values, no behaviour. Variants are made with `dataclasses.replace` or `override`.

A spec holds everything that decides a loss curve except beta, seed and the machine. Its nested dataclasses are plain
data. It is part of a run's record (`experiments.recorded`), and its hash, without descriptive text, identifies the run.
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
    """transformers' LlamaForCausalLM, from scratch. `padding` is the id whose embedding stays zero and unlearned."""

    vocabulary: int = 32_000
    context: int = 256
    layers: int = 8
    heads: int = 8
    width: int = 512
    intermediate: int = 1376
    padding: int | None = None


@dataclass(frozen=True)
class T5:
    """transformers' T5ForConditionalGeneration: a pretrained checkpoint (a name on the hub or a folder), or from this
    configuration where that is None."""

    checkpoint: str | None = "t5-small"
    vocabulary: int = 32_128
    layers: int = 6
    heads: int = 8
    width: int = 512
    feed_forward: int = 2048
    head_width: int = 64
    dropout: float = 0.1


@dataclass(frozen=True)
class ResNet:
    """torchvision's ResNet of bottleneck blocks (ResNet50), from scratch; the head is dropout, then a linear layer.

    The `small` stem, a 3x3 convolution without stride or pooling, is for images of 8 to 64 pixels.
    """

    classes: int
    blocks: tuple[int, int, int, int] = (3, 4, 6, 3)
    width: int = 64
    head_dropout: float = 0.2
    stem: Literal["imagenet", "small"] = "imagenet"


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
    """torchvision's EfficientNet-B0, from scratch, with a linear head after its dropout; multipliers shrink it.

    The `small` stem has no stride, for images of 8 to 64 pixels.
    """

    classes: int
    width_multiplier: float = 1.0
    depth_multiplier: float = 1.0
    dropout: float = 0.2
    stochastic_depth: float = 0.2
    stem: Literal["imagenet", "small"] = "imagenet"


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
    """A text data set, tokenized: a model sees at most `length` tokens at a time.

    What an example is: one of the `blocks` into which all text is cut, a window of the text at any place (`windows`,
    drawn with replacement), one document with its end-of-text token (`documents`), or one row without (`rows`); the
    last two are cut to `length` and padded. A row of fewer than `shortest` tokens gives way to the text `filler`.
    `separate` says whether an end-of-text token follows each document in blocks and windows; None leaves it to the
    source.

    `held_out_documents`, or a `held_out_share` of all, make the validation set of a source that has none: `drawn`
    with `split_seed`, the `first`, or the first of datasets' permutation with that seed (`permuted`), in which the
    others then train. A `streaming` source is read from its start only as far as the budget needs. With an
    `order_seed` the order of the examples is that seed's, whatever the run's.
    """

    source: str
    tokenizer: str
    length: int = 256
    streaming: bool = False
    held_out_documents: int | None = None
    split_seed: int = 123
    examples: Literal["blocks", "windows", "documents", "rows"] = "blocks"
    separate: bool | None = None
    shortest: int = 0
    filler: str | None = None
    held_out_share: float | None = None
    held_out_by: Literal["drawn", "first", "permuted"] = "drawn"
    order_seed: int | None = None


@dataclass(frozen=True)
class SpanCorruption:
    """T5's denoising objective; masks are drawn anew for every `batch`, or once for every `row`."""

    noise_density: float = 0.15
    mean_span_length: float = 3.0
    mask_by: Literal["batch", "row"] = "batch"


@dataclass(frozen=True)
class Augmentation:
    """Training transforms, in this order, normalization before the erasing; `rand_augment` is (operations, magnitude).

    `random_erasing` is a probability; what is erased covers `erasing_area` of the image with an aspect ratio in
    `erasing_aspect`, and becomes zero (the mean colour) or noise. Evaluation resizes the shorter side to `resize` and
    crops the centre.
    """

    crop: int = 224
    resize: int = 256
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    color_jitter: tuple[float, float, float, float] | None = None
    rand_augment: tuple[int, int] | None = None
    random_erasing: float = 0.0
    erasing_area: tuple[float, float] = (0.02, 0.33)
    erasing_aspect: tuple[float, float] = (0.3, 3.3)
    erasing_fill: Literal["zero", "noise"] = "zero"


@dataclass(frozen=True)
class Images:
    """An image classification data set. Without augmentation, images are normalized and otherwise taken as they are,
    but for a `shift` of up to so many pixels each way in training, for images in memory.

    `train_per_class` images of each class, drawn with `split_seed`, train, and the others validate; None takes the
    split that the source has. Classes whose names are in `leave_out` are not used.
    """

    source: str
    augmentation: Augmentation | None
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    train_per_class: int | None = None
    split_seed: int = 123
    shift: int = 0
    leave_out: tuple[str, ...] = ()


Data = Text | Images


@dataclass(frozen=True)
class Optimizer:
    """Adam or AdamW with tied betas. `decay` says which parameters decay: all, weights alone (no bias, position biases
    among them, and no norm), or matrices: everything of two or more dimensions."""

    name: Literal["adam", "adamw"]
    lr: float
    weight_decay: float
    decay: Literal["all", "weights", "matrices"] = "weights"
    clip: float | None = None


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then cosine decay to `min_lr` at the last step.

    The warm-up lasts max(warmup_steps, warmup_share * budget) steps: a number, a share of the budget, or the
    larger of both. `phase` says where it ends: `closed` has the full rate at the warm-up's last update and the floor at
    the last of all; `open` has the full rate at the next one too, and stays above the floor; `late` is open, and counts
    the warm-up from 0.
    """

    min_lr: float
    warmup_steps: int = 0
    warmup_share: float = 0.0
    phase: Literal["closed", "open", "late"] = "closed"


@dataclass(frozen=True)
class Evaluation:
    """When and on how much: every `every` steps, and at the first step where `at_start`; always at the last step.

    `batches` batches, or up to `tokens` tokens; neither means the whole set. The batches are drawn `once`, or `anew`
    for every evaluation, the same for every beta and seed. `batch_size` is the training one where None. The loss is
    the mean over `targets`, over `tokens` (those without a target count too), or over `batches`, the last partial one
    as much as any.

    The training loss is that of `batches` evaluation batches of the training set (`fixed`), the `running` mean of the
    objective over the steps since the last evaluation, that mean weighted by `targets`, or that of the `last` step.
    """

    every: int
    at_start: bool = False
    batches: int | None = None
    tokens: int | None = None
    batch_size: int | None = None
    train_loss: Literal["fixed", "running", "targets", "last"] = "running"
    draw: Literal["once", "anew"] = "once"
    mean: Literal["targets", "tokens", "batches"] = "targets"


@dataclass(frozen=True)
class Experiment:
    """One experiment: everything but beta and seed. `budget` is in optimizer steps; `t_es` is the paper's, rounded.

    `batch_size` is what one forward pass sees, and `accumulate` counts the forward passes of a step in each
    process. Label smoothing is the training objective's alone: validation never smooths.
    """

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
