"""Chaos in short: strikes of every kind that starts quickly, by a seeded generator. The long form is `make chaos`."""

from chaos.dealer import SHARES, Dealer

SLOW = {"kills on a cluster", "kills of torchrun", "frozen drivers"}  # seconds each; `make chaos` deals them


def test_nothing_that_is_struck_is_lost_changed_or_silently_wrong(tmp_path):
    counts = Dealer(tmp_path, [kind for kind in SHARES if kind not in SLOW]).deal(20, seed=1)
    assert sum(count.struck.total() for count in counts.values()) == 20
    assert [line for count in counts.values() for line in count.wrong] == []
    assert all(str(count).startswith(("left out", str(count.struck.total()))) for count in counts.values())
