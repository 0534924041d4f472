"""How fast the laptop's twins train: beside a loop written by hand, and where their time goes.

    python benchmarks/bench_twins.py [--steps 300] [--repeats 5] [--split-only | --race-only] [--markdown]

Race: `oneclock.lab.training.train` against what one writes without it: a DataLoader, torch's optimizer as it comes,
LambdaLR, clipping, a CSV. Same model, data, augmentation, rates and evaluations; two processes of a kind at a time, as
in a sweep on two cores. Ours has one thread in each; the other is tried with one and two, and its better median counts.
The sides take turns within each repeat; a number of threads with less than half the other's rate is tried once only.
A rate is the sum over both processes of steps per second, from the first step to the last record: imports, data and a
warm-up come before.

Split: for each twin, on one thread and alone, the share of the time of a real run that goes into the forward pass, the
backward pass and the optimizer's step with its clipping, and what is spent outside of them: on batches, on evaluation,
and on the rest (records, learning rates, seeds, looking at the loss, freeing gradients).

Evaluations are as frequent as in the twin's full run. Every run holds at least two, so it may exceed --steps.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice, product, repeat
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

from oneclock import decay_groups
from oneclock.lab import data, models
from oneclock.lab.experiments import LAPTOP, Experiment
from oneclock.lab.experiments.spec import Images
from oneclock.lab.training import learning_rate, loop, run, train
from oneclock.lab.training.fit import Fit
from oneclock.lab.training.loop import Ending, evaluation_due
from oneclock.runs.folder import RunFolder

RACE = ("gpt2-bible", "vit-mnist", "resnet-digits")
PARTS = ("forward", "backward", "step", "batch", "evaluation")
BETA = 0.9


class Trained(NamedTuple):
    """Steps per second, and the validation losses."""

    rate: float
    losses: Sequence[float]


class Clock:
    """Seconds by part; a part within another counts as the outer one."""

    def __init__(self) -> None:
        self.seconds, self.inside = dict.fromkeys(PARTS, 0.0), False

    def of(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self.inside:
                return function(*arguments, **options)
            self.inside, started = True, time.perf_counter()
            result = function(*arguments, **options)
            self.seconds[part] += time.perf_counter() - started
            self.inside = False
            return result

        return timed

    @contextmanager
    def watching(self, fit: Fit) -> Iterator[None]:
        """Within it, everything that the loop calls is timed."""
        places: list[tuple[Any, str, str]] = [
            (fit.task, "loss", "forward"),
            (torch.Tensor, "backward", "backward"),
            (nn.utils, "clip_grad_norm_", "step"),
            (fit.optimizer, "step", "step"),
            (fit.task, "batch", "batch"),
            (loop, "evaluate", "evaluation"),
        ]
        with ExitStack() as patches:
            for owner, name, part in places:
                patches.enter_context(patch.object(owner, name, self.of(part, getattr(owner, name))))
            yield


def shortened(twin: Experiment, steps: int) -> Experiment:
    """About so many steps of a twin, at least two evaluations, and as many of them per step as in the full run."""
    full = sum(evaluation_due(twin.evaluation, step, twin.budget) for step in range(1, twin.budget + 1))
    every = round(twin.budget / full)
    budget = every * max(2, round(steps / every))
    return replace(twin, budget=budget, evaluation=replace(twin.evaluation, every=every, at_start=False))


def warm_up(experiment: Experiment) -> Experiment:
    """Two steps and one evaluation, so that nothing in the measured run is done for the first time."""
    return replace(experiment, budget=2, evaluation=replace(experiment.evaluation, every=2))


def ours(
    experiment: Experiment, task: Any, seed: int, start: Callable[[], object], clock: Clock | None = None
) -> Trained:
    """A real run, its record on disk; timed is its loop."""
    seconds = 0.0

    def timed(fit: Fit) -> Ending:
        nonlocal seconds
        with clock.watching(fit) if clock else nullcontext():
            start()
            started = time.perf_counter()
            ending = loop.loop(fit)
            seconds = time.perf_counter() - started
        return ending

    with tempfile.TemporaryDirectory() as folder, patch.object(run, "loop", timed):
        train(experiment, BETA, seed, Path(folder) / "run", task=task)
        points = RunFolder.read(Path(folder) / "run").points()
    return Trained(experiment.budget / seconds, [point.val_loss or math.nan for point in points])


def shifted(images: Tensor, margin: int) -> Tensor:
    """Each image moved by up to `margin` pixels each way."""
    height, width = images.shape[2:]
    padded = functional.pad(images, [margin] * 4)
    moves = torch.randint(2 * margin + 1, (len(images), 2)).tolist()
    return torch.stack([image[:, y : y + height, x : x + width] for image, (y, x) in zip(padded, moves, strict=True)])


def by_hand(experiment: Experiment, task: Any, seed: int, start: Callable[[], object]) -> Trained:
    """The same training without oneclock's loop and optimizer."""
    settings, plan, budget = experiment.optimizer, experiment.evaluation, experiment.budget
    images, margin = isinstance(experiment.data, Images), getattr(experiment.data, "shift", 0)
    if images:
        inner = slice(margin, -margin or None)  # what oneclock keeps has a margin already
        tensors = [task.ready.images[:, :, inner, inner], task.ready.labels]
    else:
        tensors = [torch.from_numpy(task.train.astype("int64"))]
    loader = DataLoader(TensorDataset(*tensors), experiment.batch_size, shuffle=True, drop_last=experiment.drop_last)
    splits = ("validation", "train") if plan.train_loss == "fixed" else ("validation",)
    fixed = {name: [list(batch.values()) for batch in task.evaluation(name)] for name in splits}
    torch.manual_seed(seed)
    model = models.build(experiment.model)
    groups = decay_groups(model, settings.weight_decay) if settings.decay == "weights" else model.parameters()
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.name]
    optimizer = kind(groups, lr=settings.lr, betas=(BETA, BETA), weight_decay=settings.weight_decay)
    scheduler = LambdaLR(
        optimizer, lambda step: learning_rate(experiment.schedule, settings.lr, budget, step) / settings.lr
    )

    def loss_of(batch: list[Tensor], smoothing: float = 0.0) -> Tensor:
        if images:
            return functional.cross_entropy(model(batch[0]), batch[1], label_smoothing=smoothing)
        return model(input_ids=batch[0], labels=batch[0]).loss

    @torch.no_grad()
    def evaluated(batches: list[list[Tensor]]) -> float:
        model.eval()
        total = sum(loss_of(batch).item() * len(batch[0]) for batch in batches)
        model.train()
        return total / sum(len(batch[0]) for batch in batches)

    losses = []
    with tempfile.TemporaryFile("w", newline="") as file:
        log = csv.writer(file)
        start()
        started = time.perf_counter()
        model.train()
        for step, batch in enumerate(islice(chain.from_iterable(repeat(loader)), budget), start=1):
            if margin:
                batch[0] = shifted(batch[0], margin)
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(batch, experiment.label_smoothing)
            loss.backward()
            if settings.clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            scheduler.step()
            if step % plan.every == 0:
                train_loss = evaluated(fixed["train"]) if "train" in fixed else loss.item()
                losses.append(evaluated(fixed["validation"]))
                log.writerow([step, train_loss, losses[-1]])
                file.flush()
        seconds = time.perf_counter() - started
    return Trained(budget / seconds, losses)


WAYS: dict[str, tuple[Callable[..., Trained], int]] = {
    "ours": (ours, 1),
    "hand, 1 thread": (by_hand, 1),
    "hand, 2 threads": (by_hand, 2),
}
"""Way -> what trains, and the threads of each process."""
BY_HAND = [way for way in WAYS if way != "ours"]


@lru_cache(maxsize=1)
def task_of(name: str) -> data.Task:
    return data.load_task(LAPTOP[name])


BARRIER: Any  # set in each process of the pool


def share_barrier(barrier: Any) -> None:
    global BARRIER  # noqa: PLW0603 - a process of a pool has no other place for it
    BARRIER = barrier


def one_of_two(way: str, name: str, steps: int, seed: int) -> Trained:
    """One process's run; both begin together, which also makes each process take one of the two."""
    side, threads = WAYS[way]
    torch.set_num_threads(threads)
    experiment = shortened(LAPTOP[name], steps)
    try:
        side(warm_up(experiment), task_of(name), seed, lambda: None)
        return side(experiment, task_of(name), seed, BARRIER.wait)
    except Exception:
        BARRIER.abort()
        raise


def race(steps: int, repeats: int, markdown: bool) -> None:
    spawn = multiprocessing.get_context("spawn")
    row(["steps/s", "steps", *WAYS, "ours / its best", "min..max", "last losses"], markdown, True)
    with spawn.Pool(2, share_barrier, [spawn.Barrier(2, timeout=600)]) as pool:
        for name in RACE:
            rates: dict[str, list[float]] = {way: [] for way in WAYS}
            last: dict[str, float] = {}
            for number, way in product(range(repeats), WAYS):
                if number and way != "ours" and rates[way][0] < max(rates[other][0] for other in BY_HAND) / 2:
                    continue
                both = pool.starmap(one_of_two, [(way, name, steps, seed) for seed in (1, 2)], chunksize=1)
                for _, losses in both:
                    assert losses[-1] < losses[0], f"{name}, {way}: it does not train, {losses}"
                rates[way].append(sum(one.rate for one in both))
                last[way] = statistics.fmean(one.losses[-1] for one in both)
            middle = {way: statistics.median(found) for way, found in rates.items()}
            best = max((way for way in BY_HAND if len(rates[way]) == repeats), key=middle.__getitem__)
            ratios = [own / other for own, other in zip(rates["ours"], rates[best], strict=True)]
            found = [f"{rate:.0f}" for rate in middle.values()] + [f"{statistics.median(ratios):.2f}"]
            ends = f"{last['ours']:.3f} / {last[best]:.3f}"
            budget = shortened(LAPTOP[name], steps).budget
            row([name, str(budget), *found, f"{min(ratios):.2f}..{max(ratios):.2f}", ends], markdown)


def split(steps: int, markdown: bool) -> None:
    torch.set_num_threads(1)
    row(["twin", "steps/s", *(f"{part} %" for part in (*PARTS, "rest", "outside"))], markdown, True)
    for name, twin in LAPTOP.items():
        experiment, clock = shortened(twin, steps), Clock()
        ours(warm_up(experiment), task_of(name), 1, lambda: None)
        rate = ours(experiment, task_of(name), 1, lambda: None, clock).rate
        assert all(clock.seconds.values()), f"{name}: a part was never called, {clock.seconds}"
        shares = [100 * seconds * rate / experiment.budget for seconds in clock.seconds.values()]
        outside = 100 - sum(shares[:3])
        row([name, f"{rate:.0f}", *(f"{share:.1f}" for share in (*shares, 100 - sum(shares), outside))], markdown)


def row(cells: list[str], markdown: bool, head: bool = False) -> None:
    if markdown:
        print("| " + " | ".join(cells) + " |" + ("\n| --- |" + " ---: |" * (len(cells) - 1)) * head, flush=True)
    else:
        print(f"{cells[0]:20}" + "".join(f"{cell:>17}" for cell in cells[1:]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of each run, about (default: 300)")
    parser.add_argument("--repeats", type=int, default=5, help="of the race (default: 5)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--split-only", action="store_true")
    only.add_argument("--race-only", action="store_true")
    arguments = parser.parse_args()
    if not arguments.split_only:
        race(arguments.steps, arguments.repeats, arguments.markdown)
    if not (arguments.split_only or arguments.race_only):
        print()
    if not arguments.race_only:
        split(arguments.steps, arguments.markdown)
