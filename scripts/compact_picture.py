"""The picture of compact state's loss, from the committed results of `benchmarks/compact_quality.py`.

python scripts/compact_picture.py
"""

import json
import math
import statistics
from pathlib import Path

from scipy import stats

from oneclock.report import palette, plot
from oneclock.report.chart import Axis, Chart, Figure, ReferenceLine, Trace, number_axis

DOCS = Path(__file__).parents[1] / "docs"
NAMES = {
    "joint-llama-1000": "Llama, 1,000 steps",
    "joint-gpt2-1000": "GPT-2, 1,000 steps",
    "joint-vit-1000": "ViT, 1,000 steps",
}


def differences(task: str, beta: float, losses: dict) -> list[float]:
    """Of compact to full state, in per cent, by seed."""
    seeds = sorted({key[2] for key in losses if key[:2] == (task, beta)})
    return [100 * math.log(losses[task, beta, seed, "compact"] / losses[task, beta, seed, "full"]) for seed in seeds]


def trace(task: str, betas: list[float], losses: dict, place: int) -> Trace:
    found = [differences(task, beta, losses) for beta in betas]
    middles = [statistics.fmean(one) for one in found]
    halves = [stats.t.ppf(0.975, len(one) - 1) * statistics.stdev(one) / math.sqrt(len(one)) for one in found]
    return Trace(
        NAMES[task],
        tuple(number + 0.1 * place for number in range(len(betas))),
        tuple(middles),
        f"c{place}",
        "solid",
        ("circle", "square", "triangle")[place],
        group=NAMES[task],
        low=tuple(middle - half for middle, half in zip(middles, halves, strict=True)),
        high=tuple(middle + half for middle, half in zip(middles, halves, strict=True)),
    )


def main() -> None:
    lines = [json.loads(line) for line in (DOCS / "data" / "compact-quality.jsonl").read_text().splitlines()]
    losses = {(line["task"], line["beta"], line["seed"], line["state"]): line["loss"] for line in lines}
    betas = sorted({line["beta"] for line in lines})
    tasks = [task for task in NAMES if any(line["task"] == task for line in lines)]
    chart = Chart(
        title="",
        x=Axis("beta", -0.3, len(betas) - 0.5, tuple((place, f"{beta:.3g}") for place, beta in enumerate(betas))),
        y=number_axis("loss with 3 bytes above that with 8, %", -4, 6.5),
        series=tuple(trace(task, betas, losses, place) for place, task in enumerate(tasks)),
        lines=(ReferenceLine(0, "y", palette.QUIET, "the same loss", "dotted"),),
    )
    caption = "The mean over three seeds in pairs, and its 95 % interval."
    plot.save_figure(Figure("compact-loss", "Compact against full state", caption, (chart,)), DOCS / "images", ("svg",))


if __name__ == "__main__":
    main()
