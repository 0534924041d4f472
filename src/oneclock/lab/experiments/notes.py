"""Where the settings of an experiment come from; shown by `oneclock lab experiments NAME`.

A setting without a note comes from the paper's text, or belongs to the named model. `text` is what the paper prints
where it is ambiguous or differs from the runs. `as run` is what the authors' public code does with its default
arguments (no log proves that these were used). `inferred` follows from other figures. `ours` was decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "as run", "inferred", "ours"]


@dataclass(frozen=True)
class Note:
    """One or two sentences, the kind of source, and the settings that they are about."""

    kind: Kind
    words: str
    settings: tuple[str, ...] = ()


_OPEN = Note(
    "as run",
    "The full rate comes twice, at the warm-up's last update and at the next; the last update stays above the floor.",
    ("schedule.phase",),
)
_BATCH_MEANS = Note(
    "as run",
    "The validation loss is the plain mean of the batches' means: the last partial batch weighs as much as any.",
    ("evaluation.mean",),
)
_RUNNING = Note(
    "as run",
    "The training loss is the mean of the objective since the last evaluation, smoothed labels included.",
    ("evaluation.train_loss",),
)
_TRANSFORMS = Note(
    "ours",
    "Transforms are torchvision's second interface on tensors, where the authors' code has the first on PIL images: "
    "the same but for rounding and random streams.",
)
_VISION = (_OPEN, _BATCH_MEANS, _RUNNING, _TRANSFORMS)
_EPOCHS = Note(
    "text", "An epoch has as many batches as the text says if the last partial one is dropped.", ("drop_last",)
)
_ERASING = Note(
    "as run",
    "What is erased covers 2 to 20 % of the image, with an aspect ratio of 0.3 to 3.3, and becomes noise.",
    ("data.augmentation.erasing_area", "data.augmentation.erasing_aspect", "data.augmentation.erasing_fill"),
)
_LLAMA = (
    Note(
        "as run",
        "An example is one document: its first 255 pieces and the end token, padded to 256 with id 0, which is masked "
        "and not scored. So 131,072 tokens an update count padding.",
        ("data.examples", "model.padding"),
    ),
    Note(
        "inferred",
        "The text names llama_60m.json and not its contents: they are those of the public file of that name, with its "
        "32,000 entries raised to the tokenizer's 32,100.",
        ("model.vocabulary", "model.width", "model.layers", "model.heads", "model.intermediate"),
    ),
    Note("text", "No decay groups are named: all parameters decay.", ("optimizer.decay",)),
    Note("as run", "The first update has rate 0, and the full rate comes at update 1,001.", ("schedule.phase",)),
    Note(
        "as run",
        "Batches are weighted by their unpadded tokens, the first of each document among them.",
        ("evaluation.mean",),
    ),
    Note("as run", "The training loss is that of the one update before the evaluation.", ("evaluation.train_loss",)),
    Note(
        "as run",
        "Every seed sees the data in one order: a seed sets the weights alone.",
        ("data.order_seed",),
    ),
    Note("ours", "The order is a permutation of our own with that seed: the library's shuffle depends on its version."),
)
_NANOGPT = (
    Note(
        "as run",
        "Windows of 256 tokens at random places of the text, with replacement; the losses of the paper are of these.",
        ("data.examples",),
    ),
    Note(
        "as run",
        "50 batches of random windows, drawn anew for every evaluation, the same for every beta and seed.",
        ("evaluation.draw", "evaluation.train_loss"),
    ),
    Note("as run", "The model is also evaluated after the first update.", ("evaluation.at_start",)),
    _OPEN,
    Note("as run", "Texts run on without an end-of-text token between them.", ("data.separate",)),
    Note("as run", "Matrices and both embeddings decay.", ("optimizer.decay",)),
    Note("ours", "Draws are of our own generators: those of the authors' code depend on the device."),
)
_NANOGPT_PRINTED = (
    Note("text", "Blocks of 256 tokens.", ("data.examples",)),
    Note("text", "50 fixed batches.", ("evaluation.draw",)),
    Note("text", "Every 500 steps, and not at the first.", ("evaluation.at_start",)),
    *_NANOGPT[3:],
    Note("text", "The paper's losses are not of this form: random windows were run, as the plain name has them."),
)
_HELD_OUT = Note(
    "as run",
    "OpenWebText has no validation split: 0.1 %, 8,014 documents, the first of a permutation with seed 123456.",
    ("data.held_out_share", "data.held_out_by", "data.split_seed"),
)
_RESNET = (
    Note(
        "text",
        "The optimizer is initialised with learning rate 5e-4 and the schedule uses 3e-4 from the first step on: only "
        "the latter has an effect, and it alone stands here.",
        ("optimizer.lr",),
    ),
    _EPOCHS,
    *_VISION,
)
_SWIN = (
    Note(
        "as run",
        "The class clutter is left out: 256 classes remain.",
        ("data.leave_out", "model.classes"),
    ),
    Note("as run", "The tables of relative positions decay too.", ("optimizer.decay",)),
    _ERASING,
    *_VISION,
)

NOTES: dict[str, tuple[Note, ...]] = {
    "nanogpt-wikitext103": _NANOGPT,
    "nanogpt-wikitext103-as-printed": _NANOGPT_PRINTED,
    "nanogpt-openwebtext": (*_NANOGPT, _HELD_OUT),
    "nanogpt-openwebtext-as-printed": (*_NANOGPT_PRINTED, _HELD_OUT),
    "llama60m-c4": (
        *_LLAMA,
        Note("as run", "10,000 updates of 512 documents each; the stream is read as far as that.", ("data.streaming",)),
    ),
    "llama60m-slimpajama": (
        *_LLAMA,
        Note("as run", "Evaluated after the first update too, as on C4.", ("evaluation.at_start",)),
        Note("as run", "The bound of 1e7 tokens never binds: 9,347 documents cut at 256 have fewer."),
    ),
    "vitb16-cifar100": (
        Note("as run", "Normalization is CIFAR-100's own.", ("data.mean", "data.std")),
        _ERASING,
        _EPOCHS,
        *_VISION,
    ),
    "vitb16-tinyimagenet": (
        Note("as run", "Normalization is ImageNet's.", ("data.mean", "data.std")),
        _ERASING,
        _EPOCHS,
        *_VISION,
    ),
    "resnet50-food101": _RESNET,
    "resnet50-imagenet100": (
        *_RESNET,
        Note(
            "inferred",
            "1,015 batches of 128 imply 129,920 to 130,047 training images: the ImageNet100 of 1,300 images per class.",
            ("data.source",),
        ),
    ),
    "efficientnetb0-cars": (
        Note(
            "as run",
            "The text's mild ColorJitter is 0.2 in brightness and contrast, 0.15 in saturation, 0.03 in hue.",
            ("data.augmentation.color_jitter",),
        ),
        Note(
            "as run",
            "What is erased covers 2 to 12 % of the image, with an aspect ratio of 0.5 to 2, and becomes noise.",
            _ERASING.settings,
        ),
        Note("text", "128 batches of 64 from 8,144 images: the last partial batch is kept.", ("drop_last",)),
        Note("text", "No decay groups are named: all parameters decay.", ("optimizer.decay",)),
        *_VISION,
    ),
    "t5small-bookcorpus": (
        Note("text", "The final analysis uses seed 1 alone.", ("seeds",)),
        Note(
            "as run",
            "An example is one row, a sentence, cut at 256 pieces before it is corrupted, and never packed.",
            ("data.examples",),
        ),
        Note("as run", "Rows of fewer than 8 pieces give way to one fixed sentence.", ("data.shortest",)),
        Note("ours", "The words of that sentence: the authors' are their own.", ("data.filler",)),
        Note("as run", "The first 20,000 rows validate, and all of them are used.", ("data.held_out_by",)),
        Note(
            "inferred",
            "Rows are sentences and not books: only a copy of 2 million rows or more leaves 20,000.",
            ("data.held_out_documents",),
        ),
        Note(
            "as run",
            "A row's mask never changes; a span always lies at its end.",
            ("span_corruption.mask_by",),
        ),
        Note(
            "ours",
            "In validation the masks are those of seed 1, whatever the run's seed. The authors' change with it; of "
            "theirs only seed 1 counts.",
        ),
        Note("as run", "The tables of positions decay with all matrices; the norms do not.", ("optimizer.decay",)),
        Note(
            "as run",
            "The training loss is the mean since the last evaluation, weighted by targets.",
            ("evaluation.train_loss",),
        ),
        _OPEN,
    ),
    "swint-caltech256": (
        Note(
            "inferred",
            "The train and validation splits of a public copy were run, not 60 images a class: 376 full batches of 64 "
            "need 24,064 to 24,127 images, and that copy has about 24,121 without clutter. The paper's losses are of "
            "this form.",
            ("data.train_per_class", "drop_last"),
        ),
        *_SWIN,
    ),
    "swint-caltech256-as-printed": (
        Note(
            "text",
            "60 images of each class train, and the others validate. The printed budget and cadence stand: with 240 "
            "batches a pass they make 94 passes, not 60. The paper's losses are not of this form.",
            ("data.train_per_class", "data.split_seed"),
        ),
        Note(
            "as run",
            "The draw is that of the authors' code for a folder of categories: Python's generator through the classes "
            "in order. A last partial batch is dropped.",
            ("drop_last",),
        ),
        *_SWIN,
    ),
}


def origins(name: str) -> dict[str, Kind]:
    """Where each setting of an experiment comes from, for those with a note; the first note of a setting counts.

    >>> origins("vitb16-cifar100")["data.mean"]
    'as run'
    """
    kinds: dict[str, Kind] = {}
    for note in NOTES.get(name, ()):
        for setting in note.settings:
            kinds.setdefault(setting, note.kind)
    return kinds
