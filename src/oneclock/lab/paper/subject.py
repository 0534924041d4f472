"""The paper's own data as the subject of a report."""

from __future__ import annotations

from collections.abc import Sequence

from oneclock.lab.paper.published import losses_study
from oneclock.report.folder import Subject
from oneclock.rule import Rule
from oneclock.stats import analyse


def published(rules: Sequence[Rule] = ()) -> Subject:
    """The paper's eleven sweeps, all 13 betas and every seed, from the authors' published losses."""
    study = losses_study()
    return Subject(
        title="Refresh-Scaling the Memory of Balanced Adam: the published data",
        study=study,
        analysis=analyse(study, rules),
        notes=(
            "The losses are the authors' own: the best validation loss of every beta and seed, as published beside the "
            "paper. Curves and training losses were not published.",
        ),
    )
