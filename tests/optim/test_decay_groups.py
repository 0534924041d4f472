"""Which parameters decay."""

import torch
from torch import nn

from oneclock import BalancedAdamW, decay_groups


def names(model, weight_decay=0.1):
    named = {id(p): name for name, p in model.named_parameters()}
    return [{named[id(p)] for p in group["params"]} for group in decay_groups(model, weight_decay)]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.norm = nn.LayerNorm((3, 4))
        self.scale = nn.Parameter(torch.ones(4))
        self.relative_position_bias_table = nn.Parameter(torch.ones(9, 2))
        self.unbiased = nn.Linear(4, 4, bias=False)
        self.head = nn.Linear(4, 10)
        self.head.weight = self.embedding.weight


def test_weights_decay_and_the_rest_does_not():
    decay, keep = names(Tied())
    assert decay == {"embedding.weight", "unbiased.weight"}
    assert keep == {"norm.weight", "norm.bias", "scale", "relative_position_bias_table", "head.bias"}


def test_shared_parameters_once_frozen_ones_never():
    model = Tied()
    model.unbiased.weight.requires_grad_(False)
    ids = [id(p) for group in decay_groups(model, 0.1) for p in group["params"]]
    assert len(ids) == len(set(ids)) == 6
    assert id(model.unbiased.weight) not in ids


def test_norms_of_every_make():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.RMSNorm(4))
    assert names(model) == [
        {"0.weight"},
        {"0.bias", "1.weight", "1.bias", "2.weight", "2.bias", "3.weight"},
    ]


def test_an_empty_group_is_left_out_and_the_optimizer_takes_them():
    groups = decay_groups(nn.Linear(3, 2, bias=False), 0.1)
    assert [g["weight_decay"] for g in groups] == [0.1]
    optimizer = BalancedAdamW(decay_groups(Tied(), 0.1), lr=1e-3, horizon=20_000, rule="paper")
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.1, 0.0]
    assert optimizer.beta == 0.95


def test_parameters_of_a_bare_module():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = nn.Parameter(torch.ones(2, 2))

    assert names(Bare()) == [{"matrix"}]
