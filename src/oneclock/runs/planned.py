"""Planned runs that have not ended: not run yet, or lost. With them another beta might be the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oneclock.runs.adaptive import recorded_protocol
from oneclock.runs.key import RunKey
from oneclock.runs.protocols import Protocol, all_keys, next_step
from oneclock.runs.record import RunRecord


def missing_runs(
    header: Mapping[str, Any], ended: Iterable[RunRecord], only: str | None = None
) -> dict[str, list[RunKey]]:
    """The next planned runs of the study in `header` (its `study.json`), by experiment; none if it is complete.

    With `only`, those of that experiment: a study may have a hundred.

    >>> grid = {"kind": "grid", "betas": [0.5, 0.9], "seeds": [1]}
    >>> done = RunRecord(RunKey("a", 0.5, 1, 9), "finished", 9, best_loss=2.0)
    >>> missing = missing_runs({"targets": [{"name": "a", "budget": 9}], "protocol": grid}, [done])
    >>> [key.folder for key in missing["a"]]
    ['a/beta-0.9-seed-1']
    """
    runs, missing = list(ended), {}
    try:
        protocol = recorded_protocol(header["protocol"])
        for target in header["targets"]:
            base = RunKey(str(target.get("experiment") or target.get("name")), 0.0, 0, target["budget"])
            if only in (None, base.experiment):
                own = [run for run in runs if run.experiment == base.experiment]
                missing[base.experiment] = _asked_for(protocol, base, own)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"study.json is not a study of oneclock: {error!r}") from None
    return {name: keys for name, keys in missing.items() if keys}


def _asked_for(protocol: Protocol, base: RunKey, runs: Sequence[RunRecord]) -> list[RunKey]:
    """study.json does not hold an experiment's own seeds; then only the seeds that ran are known."""
    losses = {base.at(run.beta, run.seed, run.lr): run.loss for run in runs}
    asked = replace(protocol, seeds=protocol.seeds or tuple(sorted({run.seed for run in runs})))
    ended = {key: losses[key] for key in all_keys(asked, base) if key in losses}
    return list(next_step(asked, ended, base).runs) if asked.seeds else []


def waiting_runs(keys: Iterable[RunKey], ended: Iterable[RunRecord]) -> list[RunRecord]:
    """Missing runs as records without a result. If the ended runs had factors on a learning rate, these have too.

    >>> ended = [RunRecord(RunKey("a", 0.9, 1, 9, lr=2.0, spec={"optimizer": {"lr": 0.02}}), "finished", 9)]
    >>> [run.lr for run in waiting_runs([RunKey("a", 0.9, 1, 9, lr=4.0), RunKey("b", 0.9, 1, 9, lr=0.1)], ended)]
    [0.04, 0.1]
    """
    lrs = {(run.experiment, run.lr): run.key.learning_rate for run in ended if run.lr}
    units = {name: (lr or factor) / factor for (name, factor), lr in lrs.items()}

    def learning_rate(key: RunKey) -> float | None:
        return key.lr and lrs.get((key.experiment, key.lr), key.lr * units.get(key.experiment, 1.0))

    return [RunRecord(replace(key, lr=learning_rate(key)), "waiting") for key in keys]


def missing_in_words(keys: Iterable[RunKey], under_way: bool = False) -> str:
    """Missing runs in one clause; while a sweep is under way they are still to come.

    >>> missing_in_words([RunKey("a", 0.9, 1, 9), RunKey("a", 0.99, 1, 9)])
    '2 planned runs are missing (not run yet, or lost): beta 0.9 seed 1, beta 0.99 seed 1'
    """
    keys = sorted(keys, key=lambda key: key.order)
    runs = f"{len(keys)} planned run{' is' if len(keys) == 1 else 's are'}"
    if under_way:
        return f"{runs} still to come"
    lrs = ["" if key.lr is None else f" lr {key.lr:g}" for key in keys]
    named = ", ".join(f"beta {key.beta_in_words}{lr} seed {key.seed}" for key, lr in zip(keys, lrs, strict=True))
    if len(keys) > 5:  # then only the betas
        betas = list(dict.fromkeys(key.beta_in_words for key in keys))
        named = f"at beta {', '.join(betas[:5])}{' and others' if len(betas) > 5 else ''}"
    return f"{runs} missing (not run yet, or lost): {named}"
