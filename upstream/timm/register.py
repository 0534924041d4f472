"""BalancedAdamW for timm: one registry entry. timm loads the class from its import string when it is first used."""

from timm.optim._optim_factory import OptimInfo, default_registry

ENTRY = OptimInfo(
    name="balancedadamw",
    opt_class="oneclock.optim.BalancedAdamW",
    description="AdamW with beta1 = beta2, set from the number of training steps (horizon=...)",
    has_betas=False,
)


def register() -> None:
    """Make `timm.optim.create_optimizer_v2(model, "balancedadamw", horizon=20_000)` work."""
    default_registry.register(ENTRY)
