"""torch's own table of optimizer inputs, good and bad: the same parameters as torch's classes, the same refusals."""

import importlib
import importlib.util
import sys
import types
import unittest

import pytest
import torch

from oneclock import BalancedAdam, BalancedAdamW

if not importlib.util.find_spec("expecttest"):  # torch's table needs it at import, for assertions not used here
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    vars(sys.modules["expecttest"])["TestCase"] = unittest.TestCase
common = importlib.import_module("torch.testing._internal.common_optimizers")

OURS = {torch.optim.Adam: BalancedAdam, torch.optim.AdamW: BalancedAdamW}
INFOS = [info for info in common.optim_db if info.optim_cls in OURS]
GOOD = [(info.optim_cls, given) for info in INFOS for given in info.optim_inputs_func(device="cpu")]
BAD = [
    (info.optim_cls, given)
    for info in INFOS
    for given in info.optim_error_inputs_func(device="cpu", dtype=torch.float32)
]
UNTIED = {"betas", "beta1", "beta2"}
NOT_COMPACT = {"amsgrad", "capturable", "differentiable", "foreach", "fused"}


def label(value):
    return getattr(getattr(value, "optimizer_error_input", value), "desc", None) or value.__name__


def trained(optimizer, params):
    for step in range(5):
        torch.manual_seed(step)
        for p in params:
            p.grad = torch.randn_like(p)
        optimizer.step()
    return [p.detach() for p in params]


def parameters():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((4, 3), (3,), (2, 2, 2))]


def settings_of(given):
    return {name: value for name, value in given.kwargs.items() if name not in UNTIED}


@pytest.mark.parametrize("fused", [None, True, False])
@pytest.mark.parametrize(("theirs", "given"), GOOD, ids=label)
def test_full_state_equals_torchs(theirs, given, fused):
    settings = settings_of(given) | ({} if fused is None else {"fused": fused})
    ours, plain = parameters(), parameters()
    mine = trained(OURS[theirs](ours, beta=0.95, **settings), ours)
    for p, q in zip(mine, trained(theirs(plain, betas=(0.95, 0.95), **settings), plain), strict=True):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize(("theirs", "given"), GOOD, ids=label)
def test_compact_state_follows_or_refuses(theirs, given):
    settings = settings_of(given)
    unknown = [name for name in NOT_COMPACT if settings.get(name)]
    ours, plain = parameters(), parameters()
    if unknown:
        with pytest.raises(ValueError, match="compact state does not work with"):
            OURS[theirs](ours, beta=0.95, state="compact", **settings)
        return
    lr = float(settings.get("lr", 1e-3))
    mine = trained(OURS[theirs](ours, beta=0.95, state="compact", **settings), ours)
    for p, q in zip(mine, trained(theirs(plain, betas=(0.95, 0.95), **settings), plain), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0.1 * lr)


@pytest.mark.parametrize(("theirs", "bad"), BAD, ids=label)
def test_bad_inputs_are_refused_as_by_torch(theirs, bad):
    given = bad.optimizer_error_input
    params = parameters() if given.params is None else given.params
    with pytest.raises(bad.error_type):
        OURS[theirs](params, beta=0.9, **given.kwargs).step()
