"""Fine-tuning starts from the pretrained weights; LoRA moves the layers alone, by a product of low rank."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from oneclock.lab.studies.adapters import LoRA, Pretrained, Start
from oneclock.lab.studies.ensemble import Arm, Ensemble, Member, Setting
from oneclock.lab.studies.models import Gpt2, Llama, Model, losses
from oneclock.lab.studies.run import pretrained
from oneclock.lab.studies.tasks import TextTask

TASK = TextTask("bible", validation_windows=16)
MEMBERS = [Member(TASK, Arm(0.9, 0.9), 1e-2, seed, 0.01) for seed in (1, 2)]


def _loss(model: Model, weights: dict[str, torch.Tensor]) -> float:
    inputs, targets = TASK.validation()
    return float(losses(model, {name: one[None] for name, one in weights.items()}, inputs[None], targets[None]))


@pytest.mark.parametrize("model", [Llama(), Gpt2()], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("rank", [None, 3])
def test_it_starts_from_the_pretrained_weights(model: Model, rank: int | None) -> None:
    weights = model.initial(torch.Generator().manual_seed(7))
    adapter = Start("bible", 10, 1e-3, rank).adapter(model, weights)
    setting = Setting(model, 8, 4, 1)
    ensemble = Ensemble(setting, MEMBERS, adapt=adapter)
    before = adapter.effective(ensemble.state.parameters)
    for name, value in weights.items():
        assert torch.equal(before[name][0], value)
        assert torch.equal(before[name][1], value)
    ensemble.run()
    assert all(curve[-1][1] < _loss(model, weights) for curve in ensemble.state.curves)


def test_lora_moves_the_matrices_of_the_layers_by_its_rank() -> None:
    model = Llama()
    weights = model.initial(torch.Generator().manual_seed(7))
    adapter = LoRA(model, weights, rank=3)
    state = Ensemble(Setting(model, 8, 4, 1), MEMBERS, adapt=adapter).run()
    after = adapter.effective(state.parameters)
    for name, value in weights.items():
        moved = after[name][0].detach() - value
        if name in ("embedding", "head", "norms"):
            assert not moved.any()
        else:
            assert torch.linalg.matrix_rank(moved, rtol=1e-3) == 3


def test_a_study_pretrains_once(tmp_path: Path) -> None:
    setting = Setting(Llama(layers=1, width=8, heads=1, feed_forward=8), 8, 4, start=Start("bible", 6, 1e-2))
    first = pretrained(setting, tmp_path)
    stamp = next(tmp_path.rglob("pretrained/*.pt")).stat().st_mtime_ns
    again = pretrained(setting, tmp_path)
    assert next(tmp_path.rglob("pretrained/*.pt")).stat().st_mtime_ns == stamp
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert isinstance(setting.start.adapter(setting.model, first), Pretrained)  # type: ignore[union-attr]
