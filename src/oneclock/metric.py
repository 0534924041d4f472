"""Which direction of a metric is better: the one place that decides it.

The direction is, in this order, what the user says, what the metric's name says, or what its curve shows. Where none of
the three is clear, there is no direction, and the caller must ask. A metric whose higher values are better is negated
once, where it is read. Everything behind that point minimises.
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

LOSSES = frozenset(_OBJECTIVES.split())
"""Words that name a training objective. All of them are better when lower."""

LOWER = LOSSES | frozenset(_ERRORS.split())
"""Words of metrics that are better when lower."""

HIGHER = frozenset(_SCORES.split())
"""Words of metrics that are better when higher. A number at the end of a word is ignored: `map50`, `f1`, `top5`."""

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
_REMEMBERED = 4096  # a log repeats a few names on every line


@dataclass(frozen=True)
class Direction:
    """Whether higher values of a metric are better, and how that is known."""

    higher_is_better: bool
    source: Literal["asked", "name", "curve"]

    @property
    def phrase(self) -> str:
        """For a message: `higher is better` or `lower is better`."""
        return "higher is better" if self.higher_is_better else "lower is better"


LOWER_BY_NAME = Direction(higher_is_better=False, source="name")
"""The direction of a loss."""


def words(name: str) -> frozenset[str]:
    """The lower-case words of a name, split at capital letters and after `val`, `train` and the like.

    >>> sorted(words("eval/SquadLoss_1")), sorted(words("valloss"))
    (['1', 'eval', 'loss', 'squad'], ['loss', 'val'])
    """
    split = _WITHOUT_GAP.sub(r"\1 ", _CAPITAL.sub(" ", name).lower())
    return frozenset(_WORD.findall(split))


@lru_cache(_REMEMBERED)
def higher_is_better(name: str) -> bool | None:
    """What the name of a metric says about its direction; None if it says nothing.

    A word for lower-is-better wins over one for higher-is-better: `iou_loss` is a loss. `neg`, or a minus before the
    name, reverses a metric.

    >>> [higher_is_better(name) for name in ("val_loss", "mAP50", "pass@1", "neg_mean_squared_error", "value")]
    [False, True, True, True, None]
    """
    here = words(name) | frozenset(_WORD.findall(name.lower()))  # `mIoU` is one word, too
    here |= {word.rstrip("0123456789") for word in here}
    lowered = re.sub(r"[ -]", "_", _CAPITAL.sub("_", name).lower())
    if here & LOWER or any(word.endswith(_LOWER_ENDS) for word in here) or _LOWER_NAMES.search(lowered):
        higher = False
    elif here & HIGHER or any(word.endswith(_HIGHER_ENDS) for word in here) or _HIGHER_NAMES.search(lowered):
        higher = True
    else:
        return None
    return not higher if here & _OPPOSITE or _SUBTRACTED.match(name) else higher


def require_lower(name: str) -> str:
    """The name itself; ValueError if it says that higher values are better, for callers that need a loss.

    >>> require_lower("eval_accuracy")
    Traceback (most recent call last):
    ValueError: higher 'eval_accuracy' is better, but a loss is needed here; use a loss, such as 1 - accuracy
    """
    if higher_is_better(name):
        raise ValueError(f"higher {name!r} is better, but a loss is needed here; use a loss, such as 1 - accuracy")
    return name


def trend(values: Sequence[float]) -> bool | None:
    """Whether a curve rises (True) or falls (False); None if it does neither from the start.

    The curve is cut into up to ten blocks. It rises if the first block has the lowest mean and the first value is not
    above that mean; it falls in the mirrored case. A curve that first falls and then rises is neither: it may be a loss
    that overfits.

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
    """The direction of a metric with these curves, one per run; None if the user must be asked.

    `asked` is what the user says, `higher_is_better=True` or `False`.

    >>> decide("accuracy", []), decide("value", [[0.1, 0.5, 0.9]]), decide("value", [[1.0, 0.5, 3.0]])
    (Direction(higher_is_better=True, source='name'), Direction(higher_is_better=True, source='curve'), None)
    """
    if asked is not None:
        return Direction(asked, "asked")
    by_name = higher_is_better(name)
    if by_name is not None:
        return Direction(by_name, "name")
    trends = {trend(values) for values in curves}
    (rises,) = trends if len(trends) == 1 else (None,)
    return None if rises is None else Direction(rises, "curve")
