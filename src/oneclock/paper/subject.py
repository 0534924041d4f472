"""The paper's own data as the subject of a report."""

from __future__ import annotations

from collections.abc import Sequence

from oneclock.analysis import analyse
from oneclock.paper.published import recovered_study
from oneclock.report.subject import Subject
from oneclock.rule import GRID, REFRESHES, Rule


def published(refreshes: float = REFRESHES, rules: Sequence[Rule] = ()) -> Subject:
    """The paper's published figures, from its recovered gaps."""
    study = recovered_study()
    return Subject(
        title="Refresh-Scaling the Memory of Balanced Adam: the published data",
        study=study,
        analysis=analyse(study, refreshes, rules=rules),
        losses_known=False,
        grid=GRID,
        notes=(
            "The paper prints gaps, not losses: the gaps drawn here were recovered from its tables by solving them "
            "backwards. Of the 45 betas that a rule visits, 23 gaps are exact to the printed digits, 5 are bounds and "
            "17 are one choice among several that fit; the other betas of the grid are not known.",
        ),
    )
