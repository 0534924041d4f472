"""A member of an ensemble is an ordinary training: the same model in transformers, the same AdamW of torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from oneclock.lab.studies.ensemble import Arm, Ensemble, Member, Setting
from oneclock.lab.studies.models import ConvNet, Gpt2, Llama, Mlp, Model
from oneclock.lab.studies.tasks import ImageTask, TextTask
from oneclock.optim import decay_groups

TEXT, IMAGES = TextTask("bible", validation_windows=16), ImageTask("digits", share=0.2)
ARMS = (Arm(0.8, 0.8), Arm(0.9, 0.999), Arm(growing=True))
STEPS = 12


def _ordinary(model: Model, seed: int) -> nn.Module:
    """The same model, with the weights that the member of a seed starts from."""
    values = model.initial(torch.Generator().manual_seed(seed))
    if isinstance(model, Mlp):
        layers: list[nn.Module] = []
        for number in range(model.layers + 1):
            weight, bias = values[f"{number}"], values[f"{number}.bias"]
            layer = nn.Linear(*weight.shape)
            layer.load_state_dict({"weight": weight.T, "bias": bias[0]})
            layers += [layer, nn.ReLU()]
        return nn.Sequential(*layers[:-1])
    if isinstance(model, ConvNet):
        return _convnet(model, values)
    return _llama(model, values) if isinstance(model, Llama) else _gpt2(model, values)


def _convnet(model: ConvNet, values: dict[str, torch.Tensor]) -> nn.Module:
    convolutions, channels = [], 1
    for number in range(2):
        layer = nn.Conv1d(channels, model.channels, model.kernel, stride=2)
        weight = values[f"{number}"].T.reshape(model.channels, channels, model.kernel)
        layer.load_state_dict({"weight": weight, "bias": values[f"{number}.bias"][0]})
        convolutions += [layer, nn.ReLU()]
        channels = model.channels
    last = nn.Linear(model.channels, model.classes)
    last.load_state_dict({"weight": values["2"].T, "bias": values["2.bias"][0]})
    return nn.Sequential(nn.Unflatten(1, (1, -1)), *convolutions, nn.AdaptiveAvgPool1d(1), nn.Flatten(), last)


def _llama(model: Llama, values: dict[str, torch.Tensor]) -> nn.Module:
    from oneclock.lab.experiments import spec
    from oneclock.lab.models.language import build

    size = (model.vocabulary, model.context, model.layers, model.heads, model.width, model.feed_forward)
    names = ("vocabulary", "context", "layers", "heads", "width", "intermediate")
    found = build(spec.Llama(**dict(zip(names, size, strict=True))))
    state = {"model.embed_tokens.weight": values["embedding"], "lm_head.weight": values["head"].T}
    for layer in range(model.layers):
        stem = f"model.layers.{layer}"
        parts = zip("qkv", values[f"{layer}.qkv"].chunk(3, 1), strict=True)
        state |= {f"{stem}.self_attn.{name}_proj.weight": part.T for name, part in parts}
        gate, up = values[f"{layer}.gate_up"].chunk(2, 1)
        state |= {f"{stem}.self_attn.o_proj.weight": values[f"{layer}.out"].T}
        state |= {f"{stem}.mlp.gate_proj.weight": gate.T, f"{stem}.mlp.up_proj.weight": up.T}
        state |= {f"{stem}.mlp.down_proj.weight": values[f"{layer}.down"].T}
        state |= {f"{stem}.input_layernorm.weight": values["norms"][2 * layer]}
        state |= {f"{stem}.post_attention_layernorm.weight": values["norms"][2 * layer + 1]}
    found.load_state_dict(state | {"model.norm.weight": values["norms"][-1]})
    return found


def _gpt2(model: Gpt2, values: dict[str, torch.Tensor]) -> nn.Module:
    from oneclock.lab.experiments import spec
    from oneclock.lab.models.language import build

    size = (model.vocabulary, model.context, model.layers, model.heads, model.width)
    names = ("vocabulary", "context", "layers", "heads", "width")
    found = build(spec.GPT2(**dict(zip(names, size, strict=True)), dropout=0.0))
    state = {"transformer.wte.weight": values["embedding"], "transformer.wpe.weight": values["positions"]}
    state["lm_head.weight"] = values["embedding"]
    gains, shifts = values["norms"]
    places = {"qkv": "attn.c_attn", "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
    for layer in range(model.layers):
        for name, place in places.items():
            state[f"transformer.h.{layer}.{place}.weight"] = values[f"{layer}.{name}"]
            state[f"transformer.h.{layer}.{place}.bias"] = values[f"{layer}.{name}.bias"][0]
        for norm in (1, 2):
            state[f"transformer.h.{layer}.ln_{norm}.weight"] = gains[2 * layer + norm - 1]
            state[f"transformer.h.{layer}.ln_{norm}.bias"] = shifts[2 * layer + norm - 1]
    found.load_state_dict(state | {"transformer.ln_f.weight": gains[-1], "transformer.ln_f.bias": shifts[-1]})
    return found


def _trained(module: nn.Module, setting: Setting, member: Member) -> float:
    """The validation loss after an ordinary training of this module with torch's AdamW."""
    optimizer = torch.optim.AdamW(decay_groups(module, member.weight_decay), lr=1.0)

    def loss_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = module(inputs)
        logits = getattr(logits, "logits", logits)
        return nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())

    for step in range(setting.steps):
        for group in optimizer.param_groups:
            group["betas"], group["lr"] = member.arm.at(step + 1), member.lr * setting.lr_share(step)
        optimizer.zero_grad()
        loss_of(*member.task.batch(member.seed, step, setting.batch)).backward()
        optimizer.step()
    with torch.no_grad():
        return float(loss_of(*member.task.validation()))


@pytest.mark.parametrize("model", [Llama(), Gpt2(), Mlp(64), ConvNet(64, 10)], ids=lambda model: type(model).__name__)
def test_a_member_equals_an_ordinary_training(model: Model) -> None:
    task = IMAGES if isinstance(model, Mlp | ConvNet) else TEXT
    setting = Setting(model, STEPS, 4, 2)
    members = [Member(task, arm, lr, seed, 0.1) for arm in ARMS for lr, seed in ((3e-3, 1), (1e-2, 2))]
    state = Ensemble(setting, members).run()
    for member, curve in zip(members, state.curves, strict=True):
        assert curve[-1][0] == STEPS
        expected = _trained(_ordinary(model, member.seed), setting, member)
        assert curve[-1][1] == pytest.approx(expected, rel=2e-5)


def test_a_diverged_member_leaves_the_others_as_they_are() -> None:
    setting = Setting(Llama(), STEPS, 4, 2)
    good = Member(TEXT, ARMS[0], 3e-3, 1)
    alone = Ensemble(setting, [good]).run().curves[0]
    beside, bad = Ensemble(setting, [good, Member(TEXT, ARMS[0], float("inf"), 1)]).run().curves
    assert torch.tensor(bad[-1][1]).isnan()
    assert beside[-1][1] == pytest.approx(alone[-1][1], rel=1e-6)


def test_a_stopped_ensemble_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    setting = Setting(Mlp(64), STEPS, 4, 4)
    members = [Member(IMAGES, arm, 1e-2, 1) for arm in ARMS]
    whole = Ensemble(setting, members).run()
    Ensemble(setting, members, tmp_path / "one.pt").run(stop=lambda step: step == 7)
    resumed = Ensemble(setting, members, tmp_path / "one.pt")
    assert resumed.state.step == 7
    assert resumed.run().curves == whole.curves
    with pytest.raises(ValueError, match="other members"):
        Ensemble(setting, members[:1], tmp_path / "one.pt")
