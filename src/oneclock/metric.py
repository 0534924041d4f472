"""Which direction of a metric is better: the one place that decides it.

The direction is what the user says, else what the metric's name says, else what its curve shows; else the caller must
ask. A metric whose higher values are better is negated once, where it is read. Behind that point everything minimises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

_OBJECTIVES = """
loss losses nll xent ce bce crossentropy logloss hinge nelbo
mse mae rmse nrmse msle rmsle bpb bpc bpd bpt
"""
_ERRORS = """
perplexity ppl error errors err wer cer eer ter mape smape fpr fnr
fid kid lpips crps brier ece deviance residual cost regret distance
"""
_SCORES = """
acc accuracy precision recall sensitivity specificity tpr tnr correct em match top f fbeta fscore score scores
auc auroc auprc roc ap map mar ndcg mrr hit hits iou miou dice jaccard kappa mcc nmi ari silhouette purity
bleu sacrebleu rouge meteor chrf comet cider bleurt mmlu hellaswag gsm8k humaneval
psnr ssim snr sdr sisdr pesq stoi mos vmaf quality fitness
reward rewards rew return returns win winrate elo success solved profit
elbo likelihood loglikelihood loglik logp logprob logprobs
r2 rsquared spearman spearmanr pearson pearsonr kendall corr correlation
"""
LOSSES = frozenset(_OBJECTIVES.split())  # words that name a training objective: all are better when lower
_LOWER = LOSSES | frozenset(_ERRORS.split())
_HIGHER = frozenset(_SCORES.split())
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WITHOUT_GAP = re.compile(r"\b(val|valid|validation|eval|test|train)(?=(?:loss|acc|accuracy|error|err|ppl)\b)")
_WORD = re.compile(r"[a-z]+\d*|\d+")
_LOWER_ENDS = ("loss", "error", "perplexity")
_HIGHER_ENDS = ("accuracy", "acc", "iou", "reward", "score", "likelihood")
_LOWER_NAMES = re.compile(r"(?:cross|bits?_per)_?(?:entropy|byte|char|dim|token)")
_HIGHER_NAMES = re.compile(r"pass(?:@|_at_|_?k\b|_rate)|exact_?match|explained_?variance|r_?squared")
_OPPOSITE = frozenset({"neg", "negative", "negated", "minus", "improvement", "reduction"})
_SUBTRACTED = re.compile(r"\s*1?\s*-\s*[a-z]", re.IGNORECASE)
_MOST_BLOCKS = 10


@dataclass(frozen=True)
class Direction:
    """Whether higher values of a metric are better, and how that is known."""

    higher_is_better: bool
    source: Literal["asked", "name", "curve"]


def words(name: str) -> frozenset[str]:
    """The lower-case words of a name, split at capital letters and after `val`, `train` and the like.

    >>> sorted(words("eval/SquadLoss_1")), sorted(words("valloss"))
    (['1', 'eval', 'loss', 'squad'], ['loss', 'val'])
    """
    return frozenset(_WORD.findall(_WITHOUT_GAP.sub(r"\1 ", _CAPITAL.sub(" ", name).lower())))


@lru_cache(4096)  # a log repeats a few names on every line
def higher_is_better(name: str) -> bool | None:
    """What the name of a metric says about its direction; None if it says nothing.

    A word for lower-is-better wins over one for higher-is-better: `iou_loss` is a loss. `neg`, or a minus before the
    name, reverses a metric. A number at the end of a word is ignored: `map50`, `f1`, `top5`.
    """
    here = words(name) | frozenset(_WORD.findall(name.lower()))  # `mIoU` is one word, too
    here |= {word.rstrip("0123456789") for word in here}
    lowered = re.sub(r"[ -]", "_", _CAPITAL.sub("_", name).lower())
    lower = here & _LOWER or any(word.endswith(_LOWER_ENDS) for word in here) or _LOWER_NAMES.search(lowered)
    higher = here & _HIGHER or any(word.endswith(_HIGHER_ENDS) for word in here) or _HIGHER_NAMES.search(lowered)
    if not lower and not higher:
        return None
    return bool(lower) == bool(here & _OPPOSITE or _SUBTRACTED.match(name))


def require_lower(name: str) -> str:
    """The name itself; ValueError if it says that higher values are better, for callers that need a loss."""
    if higher_is_better(name):
        raise ValueError(f"higher {name!r} is better, but a loss is needed here; use a loss, such as 1 - accuracy")
    return name


def trend(values: Sequence[float]) -> bool | None:
    """Whether a curve rises (True) or falls (False) from the start; None if neither, as a loss that falls, then rises.

    >>> trend([0.1, 0.4, 0.3, 0.6]), trend([2.0, 1.0, 1.5]), trend([1.0, 0.5, 3.0]), trend([1.0, 1.0])
    (True, False, None, None)
    """
    finite = [value for value in values if math.isfinite(value)]
    count = min(_MOST_BLOCKS, len(finite))
    blocks = pairwise(len(finite) * index // max(count, 1) for index in range(count + 1))
    means = [math.fsum(value / (end - start) for value in finite[start:end]) for start, end in blocks]
    if not all(map(math.isfinite, means)) or len(set(means)) < 2:
        return None
    if means[0] == min(means) and finite[0] <= means[0]:
        return True
    return False if means[0] == max(means) and finite[0] >= means[0] else None


def decide(name: str, curves: Iterable[Sequence[float]], asked: bool | None = None) -> Direction | None:
    """The direction of a metric with these curves, one per run; None if the user, who `asked` for none, must say it.

    >>> decide("accuracy", []), decide("value", [[0.1, 0.5, 0.9]]), decide("value", [[1.0, 0.5, 3.0]])
    (Direction(higher_is_better=True, source='name'), Direction(higher_is_better=True, source='curve'), None)
    """
    if asked is not None:
        return Direction(asked, "asked")
    if (by_name := higher_is_better(name)) is not None:
        return Direction(by_name, "name")
    trends = {trend(values) for values in curves}
    (rises,) = trends if len(trends) == 1 else (None,)
    return None if rises is None else Direction(rises, "curve")
