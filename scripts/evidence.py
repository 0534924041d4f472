"""Make the evidence base: `sweeps.csv` from our records and from published tables, `ranges.csv` from that.

    python scripts/evidence.py

Our studies are read from `studies/`, the paper's losses from the package, the sweeps of others from
`studies/published/` (their README names the sources).
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.evidence.model import RANGE_COLUMNS, range_rows
from oneclock.evidence.table import COLUMNS
from oneclock.lab.experiments import find
from oneclock.lab.experiments.spec import Experiment, Text
from oneclock.lab.paper.published import losses_study
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweep
from oneclock.runs.table import read

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "studies" / "published"
TABLE = ROOT / "src" / "oneclock" / "evidence" / "data" / "sweeps.csv"
STUDIES = ("joint", "series", "laptop", "fashion", "short", "brief")

NEAR = 1.1
"""Cells within this factor of the lowest mean share one estimate of the seed effects and of the noise."""

Row = dict[str, Any]


def rows() -> Iterator[Row]:
    """Every line of the table."""
    weights: dict[Any, int] = {}
    for sweep in losses_study().sweeps:
        yield from _own("paper", sweep, _paper_experiment(sweep.name), weights)
    for study in STUDIES:
        for sweep in read(ROOT / "studies" / study).sweeps:
            yield from _own(study, sweep, find(sweep.name), weights)
    yield from _marek_30m("beta1")
    yield from _marek_30m("beta2")
    yield from _marek_gpt2()
    yield from _marek_19m()
    yield from _marin()


def _paper_experiment(title: str) -> Experiment:
    from oneclock.lab.experiments.published import PUBLISHED as eleven

    return eleven[int(title.split()[0]) - 1]


def _own(source: str, sweep: Sweep, spec: Experiment, weights: dict[Any, int]) -> Iterator[Row]:
    if spec.model not in weights:
        weights[spec.model] = _count(spec)
    batch = spec.batch_size * spec.accumulate
    about = {
        "source": source,
        "sweep": spec.name,
        "task": _task(spec.name),
        "weights": weights[spec.model],
        "batch": batch,
        "tokens_per_batch": batch * spec.data.length if isinstance(spec.data, Text) else "",
        "steps": round(sweep.budget or 0),
        "optimizer": spec.optimizer.name,
        "varied": "tied",
        "lr_tuned": "yes" if sweep.has_lrs else "no",
    }
    for (beta1, beta2, lr), (loss, se, seeds) in sorted(
        cells([*sweep.tied, *sweep.untied]).items(), key=lambda item: str(item[0])
    ):
        yield {
            **about,
            "beta1": f"{beta1:g}",
            "beta2": f"{beta1 if beta2 is None else beta2:g}",
            "lr": "" if lr is None else f"{lr:g}",
            "seeds": seeds,
            "loss": "" if loss is None else f"{loss:.6g}",
            "se": "" if se is None else f"{se:.2g}",
        }


def _task(name: str) -> str:
    """Model and data of an experiment's name, without the study and the length."""
    parts = [part for part in name.split("-") if part not in ("joint", "short", "brief") and not part.isdigit()]
    plain = "-".join(part for part in parts if not (part[0] == "b" and part[1:].isdigit()))
    return {"llama": "llama-bible", "gpt2": "gpt2-python", "vit": "vit-mnist"}.get(plain, plain)


def _count(spec: Experiment) -> int:
    import torch

    from oneclock.lab.experiments.spec import T5
    from oneclock.lab.models import build

    model = spec.model
    if isinstance(model, T5) and model.checkpoint is not None:
        from dataclasses import replace

        model = replace(model, checkpoint=None)  # the same sizes, without a download
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(model).parameters())


Key = tuple[float, float | None, float | None]


def cells(runs: Iterable[RunRecord]) -> dict[Key, tuple[float | None, float | None, int]]:
    """(mean loss, standard error, seeds) of every (beta1, beta2, lr), as the mean seed would have it.

    Seeds share weights and batches over all cells, so a seed's effect is estimated by least squares over the cells
    near the best and removed. The noise is pooled over all replicate cells near the best; where one pair of untied
    betas spreads more than that, its own spread counts.
    """
    losses: dict[Key, dict[int, float]] = defaultdict(dict)
    for run in runs:
        beta1, beta2 = run.key.betas
        losses[beta1, None if run.key.is_tied else beta2, run.lr][run.seed] = run.loss
    finite = {key: found for key, found in losses.items() if all(map(math.isfinite, found.values()))}
    lowest = min(float(np.mean(list(found.values()))) for found in finite.values())
    near = {key: found for key, found in finite.items() if np.mean(list(found.values())) <= NEAR * lowest}
    effects = _seed_effects(near)
    residuals: dict[Key, list[float]] = {}
    result: dict[Key, tuple[float | None, float | None, int]] = {}
    for key, found in finite.items():
        level = float(np.mean([loss - effects.get(seed, 0.0) for seed, loss in found.items()]))
        residuals[key] = [loss - effects.get(seed, 0.0) - level for seed, loss in found.items()]
        result[key] = level, None, len(found)
    free = sum(len(found) - 1 for found in near.values()) - max(len(effects) - 1, 0)
    pooled = math.sqrt(sum(r * r for key in near for r in residuals[key]) / free) if free > 0 else None
    for key, (mean, _, seeds) in result.items():
        spread = pooled
        own = [other for other in near if other[:2] == key[:2]] if key[1] is not None else []
        degrees = sum(len(near[other]) - 1 for other in own)
        if pooled is not None and degrees >= 2:
            spread = max(pooled, math.sqrt(sum(r * r for other in own for r in residuals[other]) / degrees))
        result[key] = mean, None if spread is None else spread / math.sqrt(seeds), seeds
    for key in losses.keys() - finite.keys():
        result[key] = None, None, len(losses[key])
    return result


def _seed_effects(near: dict[Key, dict[int, float]]) -> dict[int, float]:
    """What each seed adds to the loss, zero on average over the seeds of the best-known cells."""
    seeds = sorted({seed for found in near.values() for seed in found})
    lines, values = [], []
    for place, found in enumerate(near.values()):
        for seed, loss in found.items():
            line = np.zeros(len(near) + len(seeds))
            line[place], line[len(near) + seeds.index(seed)] = 1, 1
            lines.append(line)
            values.append(loss)
    solved = np.linalg.lstsq(np.array(lines), np.array(values), rcond=None)[0][len(near) :]
    return dict(zip(seeds, solved - solved.mean(), strict=True))


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
    """One baseline at each size and length, and beta1 or beta2 changed alone: two sweeps that share the baseline."""
    found = _published("marin_betas.csv")
    groups = defaultdict(list)
    for row in found:
        groups[row["optimizer"], row["weights"], row["chinchilla"], row["steps"]].append(row)
    for (optimizer, size, ratio, steps), own in groups.items():
        for varied in ("beta1", "beta2"):
            chosen = [row for row in own if row["varied"] in ("baseline", varied)]
            if len(chosen) < 2:
                continue
            for row in chosen:
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
                    "loss": f"{float(row['loss']):.5f}",
                    "se": "",
                }


def text() -> str:
    """The whole table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows())
    return out.getvalue()


def ranges_text() -> str:
    """What the model makes of the table, by length."""
    lines = [",".join(RANGE_COLUMNS), *(",".join(f"{value:g}" for value in row) for row in range_rows())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(text(), encoding="utf-8")
    TABLE.with_name("ranges.csv").write_text(ranges_text(), encoding="utf-8")
