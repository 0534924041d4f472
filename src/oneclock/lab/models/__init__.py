"""From the model that a spec names to a torch module: transformers' language models, torchvision's vision models."""

from __future__ import annotations

from torch import nn

from oneclock.lab.experiments.spec import GPT2, T5, Llama, Model


def build(spec: Model) -> nn.Module:
    """The model of a spec, newly initialised from torch's global generator, or pretrained where the spec says so.

    Call a language model as `model(input_ids=..., labels=...)`, and a vision model as `model(images)` for its logits.

    >>> from oneclock.lab.experiments.spec import ViT
    >>> model = build(ViT(classes=10, image=8, patch=4, layers=1, heads=2, width=16, feed_forward=32))
    >>> sum(parameter.numel() for parameter in model.parameters())
    3306
    """
    if isinstance(spec, GPT2 | Llama | T5):
        from oneclock.lab.models import language

        return language.build(spec)
    from oneclock.lab.models import vision

    return vision.build(spec)


__all__ = ["build"]
