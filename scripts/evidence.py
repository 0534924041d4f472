"""Make the evidence base and all that follows from it.

    python scripts/evidence.py

It writes `sweeps.csv` from our records and from published tables, `ranges.csv` from that, and then the tables and the
picture of the documentation (`evidence_pages.py`). Our studies are read from `studies/`, the paper's losses from the
package, the sweeps of others from `studies/published/` (their README names the sources).

A new study enters by the same command once its packed records are in `studies/`. A study under way may enter too:

    python -m oneclock.lab.studies NAME --out DIR --collect studies/NAME
    python scripts/evidence.py
"""

from __future__ import annotations

import csv
import functools
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from oneclock.evidence.model import expected, range_numbers
from oneclock.evidence.table import COLUMNS
from oneclock.lab.evidence.records import evidence_cells
from oneclock.lab.experiments import find
from oneclock.lab.experiments.published import PUBLISHED as EXPERIMENTS
from oneclock.lab.experiments.spec import T5, Experiment, Text
from oneclock.lab.models import build
from oneclock.lab.paper.published import losses_study
from oneclock.lab.studies.models import Gpt2, Llama
from oneclock.runs.folder import runs_of
from oneclock.runs.sweeps import Sweep
from oneclock.runs.table import read_source

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "studies"
PUBLISHED = STUDIES / "published"
TABLE = ROOT / "src" / "oneclock" / "evidence" / "data" / "sweeps.csv"
CHOSE = ("joint", "series", "laptop", "fashion", "short", "brief")
"""Studies that took part in choosing the rule; their experiments are those of `oneclock lab`."""

TESTS = ("finetune", "batch", "size", "long")
"""Studies made after the rule was chosen, by `oneclock.lab.studies`; each enters when its records are there."""

FEWEST = 3
"""Tied betas that a test must have tried to say how long the memory should be: the recommended beta is one of them."""

DIVERGED = 1.5
"""A published loss above this multiple of the lowest one of its sweep is that of a diverged run."""

Row = dict[str, Any]


def rows(studies: Path = STUDIES) -> Iterator[Row]:
    """Every line of the table."""
    for sweep in losses_study().sweeps:
        yield from _own("paper", sweep, EXPERIMENTS[int(sweep.name.split()[0]) - 1])
    for study in CHOSE:
        for sweep in read_source(studies / study).sweeps:
            yield from _own(study, sweep, find(sweep.name))
    for study in TESTS:
        if (studies / study / "study.json").exists():
            yield from _tests(study, studies / study)
    yield from _marek_30m("beta1")
    yield from _marek_30m("beta2")
    yield from _marek_gpt2()
    yield from _marek_19m()
    yield from _marin()


def lent(found: list[Row]) -> list[Row]:
    """The same lines; in our sweeps with one run per cell, the noise of one run is that of other sweeps of the task.

    It is the median over its sweeps with replicates, as a share of the loss. Where there are none, it stays empty.
    """
    ours = [row for row in found if row["source"] in (*CHOSE, *TESTS) and row["loss"]]
    of_sweep: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in sorted(ours, key=lambda row: -float(row["loss"])):  # the last one is the best of its sweep
        if row["se"]:
            noise = float(row["se"]) * math.sqrt(row["seeds"]) / float(row["loss"])
            of_sweep[row["task"]][row["source"], row["sweep"]] = noise
    for row in ours:
        if not row["se"] and (noises := of_sweep[row["task"]]):
            row["se"] = f"{median(noises.values()) * float(row['loss']) / math.sqrt(row['seeds']):.2g}"
    return found


def _own(source: str, sweep: Sweep, spec: Experiment) -> Iterator[Row]:
    batch = spec.batch_size * spec.accumulate
    about = {
        "source": source,
        "sweep": spec.name,
        "task": _task(spec.name),
        "weights": _weights(spec.model),
        "batch": batch,
        "tokens_per_batch": batch * spec.data.length if isinstance(spec.data, Text) else "",
        "optimizer": spec.optimizer.name,
    }
    yield from _cells(sweep, about)


def _tests(source: str, folder: Path) -> Iterator[Row]:
    """The sweeps of a study of `oneclock.lab.studies`; runs whose memory grows have no beta and are left out.

    All lengths, widths and batch sizes of one model and text are one task, that of the joint study.
    """
    specs: dict[str, Mapping[str, Any]] = {run.key.experiment: run.key.spec for run in runs_of(folder)}
    for sweep in read_source(folder).sweeps:
        if sweep.name.endswith("-growing") or not sweep.tied:
            continue
        spec = specs[sweep.name]
        about = {
            "source": source,
            "sweep": sweep.name,
            "task": _test_task(sweep.name),
            "weights": _stacked_weights(**spec["model"]),
            "batch": spec["batch_size"],
            "tokens_per_batch": spec["batch_size"] * spec["data"]["length"],
            "optimizer": spec["optimizer"]["name"],
        }
        yield from _cells(sweep, about, "tied" if len(sweep.betas) >= FEWEST else "pairs")


def _test_task(name: str) -> str:
    """`size-llama-192-4000`: `llama-bible`. Another text, or fine-tuning, is another task."""
    plain = re.sub(r"-\d+", "", name)
    return plain if plain.startswith("finetune") else _task(plain.partition("-")[2])


def _cells(sweep: Sweep, about: Row, varied: str = "tied") -> Iterator[Row]:
    tuned = "yes" if sweep.has_lrs else "no"
    for cell in evidence_cells([*sweep.tied, *sweep.untied]):
        yield about | {
            "steps": round(sweep.budget or 0),
            "varied": varied,
            "lr_tuned": tuned,
            "beta1": f"{cell.beta1:g}",
            "beta2": f"{cell.beta2:g}",
            "lr": "" if cell.lr is None else f"{cell.lr:g}",
            "seeds": cell.seeds,
            "loss": "" if cell.loss is None else f"{cell.loss:.6g}",
            "se": "" if cell.se is None else f"{cell.se:.2g}",
        }


def _task(name: str) -> str:
    """Model and data of an experiment's name, without the study and the length."""
    parts = [part for part in name.split("-") if part not in ("joint", "short", "brief") and not part.isdigit()]
    plain = "-".join(part for part in parts if not (part[0] == "b" and part[1:].isdigit()))
    return {"llama": "llama-bible", "gpt2": "gpt2-python", "vit": "vit-mnist"}.get(plain, plain)


@functools.cache
def _weights(model: Any) -> int:
    if isinstance(model, T5) and model.checkpoint is not None:
        model = replace(model, checkpoint=None)  # the same sizes, without a download
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(model).parameters())


@functools.cache
def _stacked_weights(kind: str, **sizes: int) -> int:
    model = {"llama": Llama, "gpt2": Gpt2}[kind](**sizes)
    return sum(value.numel() for value in model.initial(torch.Generator()).values())


def _published(name: str) -> list[dict[str, str]]:
    with open(PUBLISHED / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _marek_30m(varied: str) -> Iterator[Row]:
    """The figure has losses minus that of the centre; the level is the printed loss of the best run."""
    level = {int(row["steps"]): float(row["best_loss"]) for row in _published("marek_lm30m_best.csv")}
    found = _published(f"marek_lm30m_{varied}.csv")
    lowest = {
        steps: min(float(row["delta_loss"]) for row in found if int(row["steps"]) == steps and row["delta_loss"])
        for steps in level
    }
    for row in found:
        steps, batch = int(row["steps"]), int(row["batch_sequences"])
        delta = row["delta_loss"]
        yield {
            "source": "marek-30m",
            "sweep": f"lm30m-{varied}-{steps}",
            "task": "lm30m",
            "weights": 30_000_000,
            "batch": batch,
            "tokens_per_batch": batch * 512,
            "steps": steps,
            "optimizer": "adam",
            "varied": varied,
            "lr_tuned": "no",
            "beta1": row["beta1"],
            "beta2": row["beta2"],
            "lr": row["peak_lr"],
            "seeds": 7,
            "loss": "" if not delta else f"{level[steps] + float(delta) - lowest[steps]:.5f}",
            "se": _error(row["se"], row["delta_err"]),
        }


def _error(se: str, reading: str) -> str:
    known = [float(text) for text in (se, reading) if text]
    return f"{math.hypot(*known):.2g}" if se else (f"{float(reading):.2g}" if reading else "")


def _marek_gpt2() -> Iterator[Row]:
    for row in _published("marek_gpt2_beta1_lr.csv"):
        yield {
            "source": "marek-gpt2",
            "sweep": f"gpt2-beta1-{row['steps']}",
            "task": "gpt2-124m",
            "weights": 124_000_000,
            "batch": row["batch_sequences"],
            "tokens_per_batch": row["tokens_per_batch"],
            "steps": row["steps"],
            "optimizer": "adam",
            "varied": "beta1",
            "lr_tuned": "yes",
            "beta1": row["beta1"],
            "beta2": row["beta2"],
            "lr": f"{float(row['lr']):.5g}",
            "seeds": 1,
            "loss": "" if row["clipped"] == "1" else row["loss"],
            "se": "",
        }


def _marek_19m() -> Iterator[Row]:
    """Two values of beta2 at each batch size: 0.95, and the one with a half-life of ten million tokens."""
    for row in _published("marek_lm19m_beta2.csv"):
        batch = int(row["batch_sequences"])
        yield {
            "source": "marek-19m",
            "sweep": f"lm19m-beta2-{row['steps']}",
            "task": "lm19m-c4",
            "weights": 19_000_000,
            "batch": batch,
            "tokens_per_batch": batch * 512,
            "steps": row["steps"],
            "optimizer": "adam",
            "varied": "beta2",
            "lr_tuned": "yes",
            "beta1": row["beta1"],
            "beta2": row["beta2"],
            "lr": row["peak_lr"],
            "seeds": 5,
            "loss": row["loss"],
            "se": _error(row["se"], row["loss_err"]),
        }


def _marin() -> Iterator[Row]:
    """One baseline at each size and length, and beta1 or beta2 changed alone: two sweeps that share the baseline.

    The learning rate was not tuned again, and some runs diverged with a longer memory: their losses are left empty.
    """
    found = _published("marin_betas.csv")
    groups = defaultdict(list)
    for row in found:
        groups[row["optimizer"], row["weights"], row["chinchilla"], row["steps"]].append(row)
    for (optimizer, size, ratio, steps), own in groups.items():
        for varied in ("beta1", "beta2"):
            chosen = [row for row in own if row["varied"] in ("baseline", varied)]
            if len(chosen) < 2:
                continue
            lowest = min(float(row["loss"]) for row in chosen)
            for row in chosen:
                loss = float(row["loss"])
                yield {
                    "source": "marin",
                    "sweep": f"{optimizer}-{size}-{ratio}x-{varied}",
                    "task": f"lm{size}-{optimizer}",
                    "weights": round(float(size[:-1]) * {"m": 1e6, "b": 1e9}[size[-1]]),
                    "batch": row["batch_sequences"],
                    "tokens_per_batch": row["tokens_per_batch"],
                    "steps": steps,
                    "optimizer": optimizer,
                    "varied": varied,
                    "lr_tuned": "no",
                    "beta1": row["beta1"],
                    "beta2": row["beta2"],
                    "lr": row["lr"],
                    "seeds": 1,
                    "loss": f"{loss:.5f}" if loss <= DIVERGED * lowest else "",
                    "se": "",
                }


def text(studies: Path = STUDIES) -> str:
    """The whole table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lent(list(rows(studies))))
    return out.getvalue()


def ranges_text() -> str:
    """What the model makes of the table, by length."""
    lines = ["log10_steps,shift_low,shift_high,loses,loses_high,tasks"]
    for place in range(91):
        numbers = [round(number, 4) + 0.0 for number in range_numbers(expected(10 ** (place / 10)))]
        lines.append(",".join(f"{value:g}" for value in (place / 10, *numbers)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import evidence_pages

    TABLE.write_text(text(), encoding="utf-8")
    TABLE.with_name("ranges.csv").write_text(ranges_text(), encoding="utf-8")
    evidence_pages.write()
