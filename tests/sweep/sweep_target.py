"""A small real target: softmax regression on scikit-learn's digits by balanced Adam, resumable, in numpy alone.

It starts in a tenth of a second where torch takes two. Steps draw from (seed, step), so that a resumed run repeats
what it would have done. PACE, in seconds, stretches an evaluation so that a test can strike in the middle; while the
file HOLD exists it waits there.
"""

import gzip
import importlib.util
import os
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np


@cache
def digits():
    """Images and labels, read from scikit-learn's file without importing scikit-learn."""
    folder = Path(importlib.util.find_spec("sklearn").origin).parent
    with gzip.open(folder / "datasets" / "data" / "digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :64] / 16, table[:, 64].astype(int)


def train(beta, seed, run):
    images, labels = digits()
    held_out = slice(1400, None)
    one, two = beta if isinstance(beta, tuple) else (beta, beta)
    if (run.folder.parent / "result.json").exists():
        told("finished-before")
    kept = run.folder / "state.npz"
    if kept.exists():
        state = dict(np.load(kept))
    else:
        first = np.random.default_rng(seed).normal(size=(64, 10)) * 0.01
        state = {"w": first, "m": first * 0, "v": first * 0, "step": np.array(0)}
    w, m, v = state["w"], state["m"], state["v"]
    for step in range(int(state["step"]) + 1, run.budget + 1):
        chosen = np.random.default_rng((seed, step)).integers(0, 1400, 32)
        gradient = slope(w, images[chosen], labels[chosen])
        m, v = one * m + (1 - one) * gradient, two * v + (1 - two) * gradient**2
        w = w - 0.03 * (m / (1 - one**step)) / (np.sqrt(v / (1 - two**step)) + 1e-8)
        if step % 20 == 0:
            run.log(step, val_loss=loss(w, images[held_out], labels[held_out]), train_loss=1.0)
            np.savez(run.folder / "new.npz", w=w, m=m, v=v, step=step)
            os.replace(run.folder / "new.npz", kept)
            if step == run.budget:
                told(run.folder.parent)
            time.sleep(float(os.environ.get("PACE", "0")))
            while os.path.exists(os.environ.get("HOLD", "")):
                time.sleep(0.05)


def with_children(beta, seed, run):
    """Trains beside a child, one in a session of its own and a daemon, none of which ends by itself."""
    for apart in (False, True):
        subprocess.Popen(["sleep", "600"], start_new_session=apart)
    subprocess.run(["sh", "-c", "setsid sleep 600 &"], check=True)
    train(beta, seed, run)


def told(line):
    """Note that a run has made its last step, or was started though it was finished."""
    if "COMPLETED" in os.environ:
        with open(os.environ["COMPLETED"], "a") as file:
            file.write(f"{line}\n")


def loss(w, images, labels):
    scores = images @ w
    scores -= scores.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]))


def slope(w, images, labels):
    scores = images @ w
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    return images.T @ chances / len(labels)


def troubled(beta, seed, run):
    """Fails in the way the beta stands for; beta 0.9 is well."""
    trouble = TROUBLES.get(beta)
    run.log(20, val_loss=2.0)
    if trouble:
        trouble(run)
    train(beta, seed, run)


def raises(run):
    raise KeyError("no such layer")


def hangs(run):
    time.sleep(3600)


def logs_nan(run):
    run.log(40, val_loss=float("nan"))


def exits(run):
    os._exit(1)


def segfaults(run):
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed(run):
    os.kill(os.getpid(), signal.SIGKILL)


def meets_a_full_disk(run):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    run.log(40, val_loss=2.0)


def fills_the_disk(beta, seed, run):
    """Trains; the first time that half of it is done, something else takes all the room there is."""
    plain, fill = run.log, Path(os.environ["FILL"])

    def log(step, **losses):
        if step == 40 and not fill.with_suffix(".once").exists():
            fill.with_suffix(".once").touch()
            with suppress(OSError):
                fill.write_bytes(bytes(300_000))
        plain(step, **losses)

    run.log = log
    train(beta, seed, run)


def dies_once(run):
    died = run.folder / "died"
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)


TROUBLES = {
    0.1: raises,
    0.2: hangs,
    0.3: logs_nan,
    0.4: exits,
    0.5: segfaults,
    0.6: is_killed,
    0.7: meets_a_full_disk,
    0.8: dies_once,
}


def silent(beta, seed, run):
    """Logs nothing and returns nothing."""


def returns_nan(beta, seed, run):
    return float("nan")
