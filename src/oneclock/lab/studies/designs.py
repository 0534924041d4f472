"""The studies as frozen values: what is trained, with which betas, learning rates and seeds.

A condition is one experiment of the records: everything but beta, learning rate and seed is the same in all its runs.
The pages in docs/research say what each study asks; they were committed before its first run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from oneclock.lab.studies.adapters import Start
from oneclock.lab.studies.ensemble import Arm, Member, Schedule, Setting
from oneclock.lab.studies.models import ConvNet, Gpt2, Llama, Mlp
from oneclock.lab.studies.tasks import ImageTask, Task, TextTask


@dataclass(frozen=True)
class Condition:
    """One experiment: its setting and task, and the runs that are made of it."""

    name: str
    title: str
    split: str
    setting: Setting
    task: Task
    lr: float
    """The learning rate that `rates` are factors on."""
    rates: tuple[float, ...]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (1,)
    weight_decay: float = 0.1

    def members(self) -> Iterator[tuple[float, Member]]:
        """Every run of the condition: its rate factor, and what trains."""
        for seed, rate, arm in product(self.seeds, self.rates, self.arms):
            yield rate, Member(self.task, arm, self.lr * rate, seed, self.weight_decay)


def law(steps: int) -> float:
    """The beta of the law for a training of `steps`, to five digits.

    >>> law(4_000), law(64_000)
    (0.90035, 0.97308)
    """
    return round(math.sqrt(steps) / (math.sqrt(steps) + 7), 5)


def tied_arm(beta: float) -> Arm:
    """Both betas the same."""
    return Arm(beta, beta)


GROWING = Arm(growing=True)


def untied_arms(steps: int) -> tuple[Arm, ...]:
    """Pairs that separate the length of the first memory from tying, and the two usual defaults."""
    beta = law(steps)
    return (*(Arm(beta, second) for second in (0.98, 0.99, 0.999)), Arm(0.9, 0.95), Arm(0.9, 0.999))


SHARES = (0.05, 0.2, 0.5, 1.0)
SHORT_TEXT = 64_000
"""Characters of the short text of `overfit`."""

_SPLITS = {"digits": "development", "bible": "development", "mnist-sample": "heldout", "python-library": "heldout"}


def overfit() -> list[Condition]:
    """Small models, some of which overfit: 64 evaluations each, half of the sources held out."""
    conditions = []
    schedules: tuple[Schedule, ...] = ("constant", "cosine")
    for source, pixels in (("digits", 64), ("mnist-sample", 196)):
        for share, noise, decay, schedule, steps in product(
            SHARES, (0.0, 0.2), (0.0, 1.0), schedules, (384, 1_600, 6_400)
        ):
            name = f"overfit-{source}-{share:g}-noise-{noise:g}-decay-{decay:g}-{schedule}-{steps}"
            setting = Setting(Mlp(pixels), steps, 32, 64, schedule)
            images = ImageTask(source, share, noise)
            conditions.append(_overfit(name, source, setting, images, 1e-3, (0.3, 1.0), decay))
    for source in ("bible", "python-library"):
        for share, decay, schedule, steps in product(SHARES, (0.0, 1.0), schedules, (384, 1_600, 4_800)):
            name = f"overfit-{source}-{share:g}-decay-{decay:g}-{schedule}-{steps}"
            setting = Setting(Llama(), steps, 4, 64, schedule)
            text = TextTask(source, characters=round(share * SHORT_TEXT), validation_windows=256)
            conditions.append(_overfit(name, source, setting, text, 2e-3, (1.0,), decay))
    return conditions


def horizon() -> list[Condition]:
    """A fresh held-out half for the useful horizon: other sources, models and schedules than `overfit`."""
    schedules: tuple[Schedule, ...] = ("constant", "cosine", "linear", "wsd")
    conditions = []
    for source, columns, classes in (("breast-cancer", 30, 2), ("wine", 13, 3), ("diabetes", 10, 3)):
        for steps, schedule, share, noise, decay in product((1_000, 4_000), schedules, (0.3, 1.0), (0.0, 0.2), _DECAYS):
            setting = Setting(Mlp(columns, classes=classes), steps, 16, _evaluations(steps), schedule)
            conditions.append(_fresh(setting, ImageTask(source, share, noise), 3e-3, (0.1, 1.0), decay))
    for steps, schedule, share, noise, decay in product((400, 3_200), schedules, (0.05, 0.2, 1.0), (0.0, 0.2), _DECAYS):
        setting = Setting(Mlp(196, hidden=128, layers=1), steps, 32, _evaluations(steps), schedule)
        conditions.append(_fresh(setting, ImageTask("fashion-mnist", share, noise), 1e-3, (1.0,), decay))
    for steps, schedule, characters, decay in product((400, 2_000), schedules, (3_000, 12_000, 48_000), _DECAYS):
        setting = Setting(Gpt2(layers=1), steps, 4, _evaluations(steps), schedule)
        task = TextTask("package-readmes", characters=characters, validation_windows=128)
        conditions.append(_fresh(setting, task, 4e-3, (1.0,), decay))
    return conditions


_DECAYS = (0.0, 1.0)


def third() -> list[Condition]:
    """The third test of the useful horizon: twelve sources that no other study has, and other models."""
    schedules: tuple[Schedule, ...] = ("constant", "cosine", "linear", "wsd")
    tables = (
        ("penguins", 4, 3),
        ("pima", 8, 2),
        ("vehicle", 18, 4),
        ("contraceptive", 9, 3),
        ("spambase", 57, 2),
        ("phoneme", 5, 2),
        ("satimage", 36, 6),
    )
    series = (("italy-power-demand", 24, 2), ("osu-leaf", 61, 6), ("acsf1", 73, 10))
    conditions = []
    for (source, columns, classes), steps, schedule, decay in product(tables, (800, 5_000), schedules, (0.0, 0.5)):
        setting = Setting(Mlp(columns, 32, 3, classes), steps, 32, _evaluations(steps), schedule)
        tasks = [ImageTask(source, share, noise) for share, noise in ((0.25, 0.0), (1.0, 0.0), (1.0, 0.2))]
        conditions += [_fresh(setting, task, 5e-4, (1.0,), decay, "third") for task in tasks]
    for (source, points, classes), steps, schedule, decay in product(series, (800, 5_000), schedules, (0.0, 0.5)):
        setting = Setting(ConvNet(points, classes), steps, 32, _evaluations(steps), schedule)
        tasks = [ImageTask(source, share) for share in (0.25, 1.0)]
        conditions += [_fresh(setting, task, 1e-3, (1.0,), decay, "third") for task in tasks]
    for source, steps, schedule, decay in product(
        ("shakespeare", "torch-headers"), (500, 2_000), schedules, (0.0, 0.5)
    ):
        setting = Setting(Gpt2(), steps, 4, _evaluations(steps), schedule)
        for characters in (4_000, 20_000, 100_000):
            task = TextTask(source, characters=characters, validation_windows=64)
            conditions.append(_fresh(setting, task, 3e-3, (1.0,), decay, "third"))
    return conditions


def _evaluations(steps: int) -> int:
    return 100 if steps <= 1_000 else 1_000


def _fresh(
    setting: Setting, task: Task, lr: float, rates: tuple[float, ...], decay: float, study: str = "horizon"
) -> Condition:
    """One condition of `horizon` or `third`; the law's beta only."""
    parts = [str(task.characters)] if isinstance(task, TextTask) else [f"{task.share:g}-noise-{task.label_noise:g}"]
    name = "-".join([study, task.source, *parts, f"decay-{decay:g}", setting.schedule, str(setting.steps)])
    title = f"{type(setting.model).__name__} on {task.source}, {setting.steps:,} steps"
    return Condition(name, title, "heldout", setting, task, lr, rates, (tied_arm(law(setting.steps)),), (1,), decay)


def _overfit(
    name: str, source: str, setting: Setting, task: Task, lr: float, rates: tuple[float, ...], decay: float
) -> Condition:
    arms = (tied_arm(law(setting.steps)), Arm(0.9, 0.999))
    title = f"{type(setting.model).__name__} on {source}, {setting.steps:,} steps"
    return Condition(name, title, _SPLITS[source], setting, task, lr, rates, arms, (1,), decay)


GRID = (0.9, 0.94377, 0.96838, 0.98222, 0.99, 0.99438)
"""Six tied betas of the paper's grid."""

LLAMA, GPT2 = Llama(), Gpt2()
_TEXT_OF = {"llama": "bible", "gpt2": "python-library"}
_NAMES = {"llama": "Llama on the King James Bible", "gpt2": "GPT-2 on Python's library"}
_LR = {"llama": 4e-3, "gpt2": 6e-3}
"""Best learning rates of a pilot with seed 0 at 2,000 steps."""


def finetune() -> list[Condition]:
    """Pretrain on one text, fine-tune on the other, in full or with LoRA."""
    conditions = []
    for family, steps, rank in product(("llama", "gpt2"), (300, 1_000, 3_000), (None, 4)):
        model, before, after = (LLAMA, "bible", "python-library") if family == "llama" else (GPT2, *_TEXTS[::-1])
        kind = "full" if rank is None else "lora"
        start = Start(before, 8_000, _LR[family], rank)
        setting = Setting(model, steps, 4, 4, start=start)
        arms = (tied_arm(law(steps)), *untied_arms(steps), tied_arm(0.95), GROWING)
        conditions.append(
            Condition(
                f"finetune-{family}-{kind}-{steps}",
                f"{family} from {before} to {after}, {kind}, {steps:,} steps",
                "development",
                setting,
                TextTask(after),
                _FINETUNE_LR[kind],
                (0.25, 0.5, 1.0, 2.0),
                arms,
                (1, 2, 3, 4, 5, 6) if steps < 3_000 else (1, 2, 3),
                0.01,
            )
        )
    return conditions


_TEXTS = ("bible", "python-library")
_FINETUNE_LR = {"full": 4e-3, "lora": 1.6e-2}


def batch() -> list[Condition]:
    """128 to 32,768 tokens per batch at 4,000 steps; the larger the batch, the fewer runs."""
    steps = 4_000
    wide = (*map(tied_arm, (0.8, law(steps), 0.95, 0.98)), GROWING, *untied_arms(steps))
    some = (*map(tied_arm, (0.8, law(steps), 0.95)), *untied_arms(steps))
    few = (tied_arm(law(steps)), tied_arm(0.95), Arm(0.9, 0.999))
    plan: list[tuple[str, int, float, tuple[float, ...], tuple[Arm, ...], tuple[int, ...]]] = [
        ("llama", 4, 4e-3, (0.5, 1.0, 2.0), wide, (1, 2)),
        ("gpt2", 4, 6e-3, (0.5, 1.0, 2.0), wide, (1, 2)),
        ("llama", 16, 6e-3, (0.5, 1.0, 2.0), wide, (1, 2)),
        ("llama", 64, 8e-3, (0.5, 1.0), some, (1,)),
        ("llama", 256, 8e-3, (0.5, 1.0), few, (1,)),
        ("llama", 1024, 8e-3, (1.0,), few, (1,)),
    ]
    conditions = []
    for family, rows, lr, rates, arms, seeds in plan:
        model = Llama(layers=1) if family == "llama" else Gpt2(layers=1)
        name, title = f"batch-{family}-{rows * 32}-{steps}", f"{_NAMES[family]}, batches of {rows * 32:,} tokens"
        task = TextTask(_TEXT_OF[family])
        setting = Setting(model, steps, rows, 4)
        conditions.append(Condition(name, title, "development", setting, task, lr, rates, arms, seeds))
    return conditions


def size() -> list[Condition]:
    """Widths 24 to 192 at 4,000 steps; the wider the model, the fewer runs."""
    steps = 4_000
    wide = (*map(tied_arm, (0.8, law(steps), 0.95, 0.98)), GROWING, *untied_arms(steps))
    some = (*map(tied_arm, (0.8, law(steps), 0.95)), *untied_arms(steps))
    plan: list[tuple[int, float, tuple[float, ...], tuple[Arm, ...], tuple[int, ...]]] = [
        (24, 4e-3, (0.5, 1.0, 2.0), wide, (1, 2)),
        (48, 4e-3, (0.5, 1.0, 2.0), wide, (1,)),
        (96, 3e-3, (0.5, 1.0), some, (1,)),
        (192, 2e-3, (0.5, 1.0), some, (1,)),
    ]
    conditions = []
    for width, lr, rates, arms, seeds in plan:
        setting = Setting(Llama(width=width, feed_forward=8 * round(width / 3)), steps, 4, 4)
        name, title = f"size-llama-{width}-{steps}", f"{_NAMES['llama']}, width {width}"
        conditions.append(Condition(name, title, "development", setting, TextTask("bible"), lr, rates, arms, seeds))
    return conditions


def long() -> list[Condition]:
    """16,000 to 256,000 steps of 4 x 32 tokens on two texts; at 256,000 fewer betas and learning rates."""
    conditions = []
    for steps, family in product((16_000, 64_000, 256_000), ("llama", "gpt2")):
        lr = _LR[family] * {16_000: 1.0, 64_000: 0.75, 256_000: 0.5}[steps]
        name, title = f"long-{family}-{steps}", f"{_NAMES[family]}, {steps:,} steps"
        arms = (*map(tied_arm, (*GRID, law(steps))), GROWING, *untied_arms(steps))
        rates: tuple[float, ...] = (0.25, 0.5, 1.0)
        if steps == 256_000:
            rates = (0.25, 0.5)
            pairs = (Arm(law(steps), 0.999), Arm(0.9, 0.95), Arm(0.9, 0.999))
            arms = (*map(tied_arm, (*GRID[2:], law(steps))), GROWING, *pairs)
        setting = Setting(LLAMA if family == "llama" else GPT2, steps, 4, 16)
        task = TextTask(_TEXT_OF[family])
        conditions.append(Condition(name, title, "development", setting, task, lr, rates, arms, (1, 2)))
    return conditions + [_exchanged(family) for family in ("llama", "gpt2")]


def _exchanged(family: str) -> Condition:
    """64,000 steps with the two texts exchanged: two more tasks, so that a mean over tasks can decide something."""
    steps, text = 64_000, _TEXT_OF["gpt2" if family == "llama" else "llama"]
    model = LLAMA if family == "llama" else GPT2
    pairs = (Arm(law(steps), 0.99), Arm(law(steps), 0.999), Arm(0.9, 0.95), Arm(0.9, 0.999))
    arms = (*map(tied_arm, (*GRID, law(steps))), GROWING, *pairs)
    name, title = f"long-{family}-{text.split('-')[-1]}-{steps}", f"{family} on {text}, {steps:,} steps"
    setting, rates = Setting(model, steps, 4, 16), (0.25, 0.5)
    return Condition(name, title, "heldout", setting, TextTask(text), _LR[family] * 0.75, rates, arms, (1, 2))


STUDIES: dict[str, Callable[[], list[Condition]]] = {
    "overfit": overfit,
    "horizon": horizon,
    "third": third,
    "finetune": finetune,
    "batch": batch,
    "size": size,
    "long": long,
}
