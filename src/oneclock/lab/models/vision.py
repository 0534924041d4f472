"""ResNet, ViT, EfficientNet and Swin as torchvision has them, at the sizes a spec gives, with the paper's heads.

The paper replaces the head of a finished model, so each head is a new linear layer with torch's own initialisation.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from oneclock import torchvision_guard  # noqa: F401  before torchvision
from oneclock.lab.experiments.spec import EfficientNet, ResNet, Swin, ViT

from torchvision import models as zoo  # isort: skip
from torchvision.models.efficientnet import MBConvConfig  # isort: skip


def build(spec: ResNet | ViT | EfficientNet | Swin) -> nn.Module:
    """The vision model of a spec: images (batch, 3, height, width) -> logits (batch, classes)."""
    if isinstance(spec, ResNet):
        return _resnet(spec)
    if isinstance(spec, ViT):
        return _vit(spec)
    if isinstance(spec, EfficientNet):
        return _efficientnet(spec)
    return _swin(spec)


class _WidthResNet(zoo.ResNet):
    """torchvision's ResNet with all channels in proportion to `width`; 64 is torchvision's own."""

    def __init__(self, blocks: tuple[int, ...], width: int) -> None:
        self.width = width
        super().__init__(zoo.resnet.Bottleneck, list(blocks))

    def _make_layer(self, block: Any, planes: int, *rest: Any, **options: Any) -> nn.Sequential:
        if planes == 64:  # the first stage: the layers before it still have 64 channels
            self.inplanes = self.width
            self.conv1 = nn.Conv2d(3, self.width, kernel_size=7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(self.width)
        return super()._make_layer(block, planes * self.width // 64, *rest, **options)


def _resnet(spec: ResNet) -> nn.Module:
    model = _WidthResNet(spec.blocks, spec.width)
    if spec.stem == "small":
        model.conv1 = nn.Conv2d(3, spec.width, kernel_size=3, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = nn.Identity()
    features = spec.width * 8 * zoo.resnet.Bottleneck.expansion
    model.fc = nn.Sequential(nn.Dropout(spec.head_dropout), nn.Linear(features, spec.classes))
    return model


def _vit(spec: ViT) -> nn.Module:
    model = zoo.VisionTransformer(spec.image, spec.patch, spec.layers, spec.heads, spec.width, spec.feed_forward)
    model.heads.head = nn.Linear(spec.width, spec.classes)
    return model


def _efficientnet(spec: EfficientNet) -> nn.Module:
    stages = [  # expansion, kernel, stride, channels in and out, layers
        (1, 3, 1, 32, 16, 1),
        (6, 3, 2, 16, 24, 2),
        (6, 5, 2, 24, 40, 2),
        (6, 3, 2, 40, 80, 3),
        (6, 5, 1, 80, 112, 3),
        (6, 5, 2, 112, 192, 4),
        (6, 3, 1, 192, 320, 1),
    ]
    settings = [MBConvConfig(*stage, spec.width_multiplier, spec.depth_multiplier) for stage in stages]
    model = zoo.EfficientNet(settings, dropout=spec.dropout, stochastic_depth_prob=spec.stochastic_depth)
    if spec.stem == "small":
        model.features[0][0].stride = (1, 1)
    model.classifier[1] = nn.Linear(model.classifier[1].in_features, spec.classes)
    return model


def _swin(spec: Swin) -> nn.Module:
    model = zoo.SwinTransformer(
        patch_size=[spec.patch] * 2,
        embed_dim=spec.width,
        depths=list(spec.depths),
        num_heads=list(spec.heads),
        window_size=[spec.window] * 2,
        stochastic_depth_prob=spec.stochastic_depth,
    )
    model.head = nn.Linear(model.head.in_features, spec.classes)
    return model
