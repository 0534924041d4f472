"""Claims and workers of two hosts on a real NFS mount. `nfs_machine.py` starts this on a machine of its own.

Each host is a set of namespaces (network, host name, processes, mounts) with an NFS mount of its own: its own caches
and another client to the server. The attribute cache is on, as it is by default.

First the tests of the claims, on the mount. Then processes of both hosts count under one claim. Then workers of both
hosts share studies and are killed, suspended or cut off from the server. After each study every run is finished with
the curve of an undisturbed one, no run was trained after it had ended, and once another process has logged to a run,
the former one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

EXPORT, MOUNT, LEDGER, WORK = Path("/mnt/export"), Path("/mnt/nfs"), Path("/mnt/ledger"), Path("/mnt/work")
BETAS, SEEDS, BUDGET, EVERY = (0.5, 0.8, 0.9, 0.95, 0.98), (1, 2), 20, 4
STALE = 12.0
KILLS = ("run", "server", "worker", "host")
PAUSES = ("worker suspended", "host suspended", "network cut")
TAKEN = "runs taken over"

TRAIN = f"""
import json, os, time
def loss(beta, seed, step):
    return 1 + (beta - 0.9) ** 2 + 1 / step + 0.001 * seed
def note(what, beta, seed):
    with open("{LEDGER}/notes", "a") as file:
        file.write(json.dumps([time.time(), what, f"beta-{{beta}}-seed-{{seed}}", os.getpid(), os.uname()[1]]) + "\\n")
def train(beta, seed, run):
    file = run.folder / "step"
    step = int(file.read_text()) if file.exists() else 0
    note("start", beta, seed)
    while step < run.budget:
        step += 1
        time.sleep(0.1)
        if step % {EVERY} == 0:
            run.log(step, val_loss=loss(beta, seed, step))
            note("log", beta, seed)
            (run.folder / "aside").write_text(str(step))
            (run.folder / "aside").replace(file)
"""

COUNT = f"""
import random, sys, time
from oneclock.runs.lock import *
folder, left = Path("{MOUNT}/counted"), int(sys.argv[1])
while left:
    try:
        claim = Claim.take(folder)
    except Held:
        time.sleep(random.uniform(0.01, 0.1))
        continue
    with claim:
        count = int((folder / "count").read_text()) if (folder / "count").exists() else 0
        time.sleep(random.uniform(0, 0.02))
        (folder / "aside").write_text(str(count + 1))
        (folder / "aside").replace(folder / "count")
    left -= 1
"""


class Host:
    """A host: namespaces of its own, in which the export is mounted, and a worker."""

    def __init__(self, number: int, options: str) -> None:
        self.number, self.worker = number, None
        self.net, here, there = f"h{number}", f"10.9.{number}.1", f"10.9.{number}.2"
        for line in (
            f"ip netns add {self.net}",
            f"ip link add v{number} type veth peer name w{number}",
            f"ip link set w{number} netns {self.net}",
            f"ip addr add {here}/24 dev v{number}",
            f"ip link set v{number} up",
            f"ip -n {self.net} addr add {there}/24 dev w{number}",
            f"ip -n {self.net} link set w{number} up",
            f"ip -n {self.net} link set lo up",
        ):
            subprocess.run(line.split(), check=True)
        mount = f"mount.nfs4 {here}:/ {MOUNT} -o {options},nosharecache"
        script = (
            f"hostname host{number} && {mount} && grep ' {MOUNT} ' /proc/mounts && echo ready && exec sleep 1000000"
        )
        apart = ["unshare", "--uts", "--pid", "--mount", "--fork", "--mount-proc", "bash", "-c", script]
        self.holder = subprocess.Popen(["ip", "netns", "exec", self.net, *apart], stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout is not None
        while (line := self.holder.stdout.readline()) != "ready\n":
            assert line, f"host {number} could not mount the export"
            print(line, end="", flush=True)
        (self.init,) = [pid for pid, parent in parents().items() if parent == self.holder.pid]
        self.space = os.readlink(f"/proc/{self.init}/ns/pid")

    def command(self, *line: str, folder: Path = WORK) -> list[str]:
        """A command line that runs on this host."""
        return ["nsenter", "-t", str(self.init), "-n", "-u", "-p", "-m", f"--wdns={folder}", "--", *line]

    def work(self, study: Path) -> None:
        """Have a worker on the study."""
        if self.worker is None or self.worker.poll() is not None:
            line = [
                sys.executable,
                "-m",
                "oneclock",
                "work",
                str(study),
                "--jobs",
                "2",
                "--retries",
                "50",
                "--grace",
                "1",
            ]
            with open(LEDGER / f"worker-{self.number}", "a") as output:
                self.worker = subprocess.Popen(self.command(*line), stdout=output, stderr=output)

    def processes(self) -> dict[int, str]:
        """The processes of its worker: worker, server or run."""
        found, parent_of = {}, parents()
        for pid in parent_of:
            with suppress(OSError):
                if pid == self.init or os.readlink(f"/proc/{pid}/ns/pid") != self.space:
                    continue
                line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"work" in line:
                    found[pid] = "worker"
                elif any(word.startswith(b"from oneclock.sweep.exec.server") for word in line):
                    found[pid] = "server"
        return {pid: "run" if found.get(parent_of[pid]) == "server" else kind for pid, kind in found.items()}

    def network(self, state: str) -> None:
        """Have its way to the server `up` or `down`."""
        subprocess.run(f"ip -n {self.net} link set w{self.number} {state}".split(), check=True)


def parents() -> dict[int, int]:
    """Process -> its parent, of all that live."""
    found = {}
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            state, parent = Path(f"/proc/{int(entry)}/stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(entry)] = int(parent)
    return found


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def held(study: Path, host: Host) -> set[Path]:
    """The folders of the runs that the host has claimed, as the server sees them."""
    found = set()
    for claim in study.glob("runs/*/*/claim-*.json"):
        with suppress(OSError, ValueError):
            if json.loads(claim.read_text())["host"].startswith(f"host{host.number}/"):
                found.add(claim.parent)
    return found


def strike(hosts: list[Host], dice: random.Random, study: Path, pauses: float) -> Counter[str]:
    """Kill, suspend or cut off something; what, and the runs taken over meanwhile. Empty where it was not there."""
    host, kind = dice.choice(hosts), dice.choice(PAUSES if dice.random() < pauses else KILLS)
    (other,) = [one for one in hosts if one is not host]
    found = host.processes()
    whole = kind.split()[0] in ("host", "network")
    victims = [pid for pid, one in found.items() if whole or one == kind.split()[0]]
    if "run" not in found.values() or not victims:
        return Counter()
    if kind == "run":
        victims = [dice.choice(victims)]
    dice.shuffle(victims)
    if kind in KILLS:
        send(victims, signal.SIGKILL)
        return Counter({kind: 1})
    cut = kind == "network cut"
    host.network("down") if cut else send(victims, signal.SIGSTOP)
    lost, taken = held(EXPORT / study.name, host), set[Path]()
    shortest, longest = time.monotonic() + STALE * 1.2, time.monotonic() + STALE * 5
    while time.monotonic() < (shortest if taken or not lost else longest):
        other.work(study)
        time.sleep(0.2)
        taken |= lost & held(EXPORT / study.name, other)
    time.sleep(dice.uniform(0, 3))
    host.network("up") if cut else send(victims, signal.SIGCONT)
    if host.worker is not None:  # nsenter stops itself with what it started
        send([host.worker.pid], signal.SIGCONT)
    return Counter({kind: 1, TAKEN: len(taken)})


def check(study: Path) -> list[str]:
    """What does not hold of a study that is done."""
    space: dict[str, object] = {}
    exec(TRAIN, space)
    notes = [json.loads(line) for line in (LEDGER / "notes").read_text().splitlines()]
    wrong = [f"damaged: {path}" for path in study.glob("damaged/**/run.json")]
    for beta in BETAS:
        for seed in SEEDS:
            name = f"beta-{beta}-seed-{seed}"
            (folder,) = [path for path in study.glob("runs/*/*") if path.name == name]
            lines = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
            expected = [{"step": s, "val_loss": space["loss"](beta, seed, s)} for s in range(EVERY, BUDGET + 1, EVERY)]  # type: ignore[operator]
            result = json.loads((folder / "result.json").read_text())
            if lines != expected or result["status"] != "finished":
                wrong.append(f"{name}: {result['status']} {result['reason']}, {lines}")
            ended = (folder / "result.json").stat().st_mtime
            mine = [note for note in notes if note[2] == name]
            wrong += [f"{name}: trained after its end at {ended}: {mine}" for note in mine if note[0] > ended + 0.05]
            writers = [tuple(note[3:]) for note in mine if note[1] == "log"]
            changes = [one for one, before in zip(writers[1:], writers, strict=False) if one != before]
            if len({*changes, *writers[:1]}) != len(changes) + 1:
                wrong.append(f"{name}: two writers by turns: {writers}")
    return wrong


def count_together(hosts: list[Host], each: int = 20) -> list[str]:
    """Three processes of each host count under one claim; what does not hold."""
    line = [sys.executable, "-c", COUNT, str(each)]
    counting = [subprocess.Popen(host.command(*line)) for host in hosts for _ in range(3)]
    codes = [process.wait(timeout=600) for process in counting]
    count = int((EXPORT / "counted" / "count").read_text())
    print(f"counted under one claim: {count} of {each * len(counting)}", flush=True)
    return [] if not any(codes) and count == each * len(counting) else [f"counted {count}, exit codes {codes}"]


def claim_tests(host: Host) -> list[str]:
    """The tests of the claims with their folders on the mount; what does not hold."""
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={MOUNT}/tests"]
    line += ["runs/test_claims.py"]
    done = subprocess.run(host.command(*line, folder=Path.cwd()), capture_output=True, text=True, check=False)
    print("tests of the claims:", (done.stdout.strip().splitlines() or [""])[-1], flush=True)
    return [done.stdout + done.stderr] if done.returncode else []


def share_study(
    hosts: list[Host], dice: random.Random, name: str, counts: Counter[str], kills: int, pauses: float
) -> list[str]:
    """Have workers of all hosts execute a study, with faults until there were so many kills; what does not hold."""
    study, here = MOUNT / name, EXPORT / name
    (LEDGER / "notes").write_text("")
    plan = ["sweep", "train.py:train", "--budget", str(BUDGET), "--protocol", "grid", "--out", str(study)]
    plan += ["--betas", ",".join(map(str, BETAS)), "--seeds", ",".join(map(str, SEEDS)), "--plan-only"]
    subprocess.run(hosts[0].command(sys.executable, "-m", "oneclock", *plan), check=True, stdout=subprocess.DEVNULL)
    due, stuck = time.monotonic() + dice.uniform(1, 5), time.monotonic() + 900
    while len(list(here.glob("runs/*/*/result.json"))) < len(BETAS) * len(SEEDS):
        for host in hosts:
            host.work(study)
        if time.monotonic() > due and sum(counts[kind] for kind in KILLS) < kills:
            counts.update(strike(hosts, dice, study, pauses))
            due = time.monotonic() + dice.uniform(0.5, 3)
        assert time.monotonic() < stuck, f"{study} does not end: {[str(path) for path in here.glob('**/*')]}"
        time.sleep(0.2)
    for host in hosts:
        assert host.worker is not None
        host.worker.wait(timeout=300)
    wrong = check(here)
    counts["runs"] += len(BETAS) * len(SEEDS)
    print(f"{name}: {dict(sorted(counts.items()))}", *wrong, sep="\n  ", flush=True)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pauses", type=float, default=0.25, help="the share of faults that are no kills")
    parser.add_argument("--mount", default="vers=4.2")
    arguments = parser.parse_args()
    os.environ |= {"ONECLOCK_STALE": str(STALE), "PYTHONDONTWRITEBYTECODE": "1"}
    for folder in (MOUNT, LEDGER, WORK):
        folder.mkdir(exist_ok=True)
    (WORK / "train.py").write_text(TRAIN)
    hosts, dice = [Host(number, arguments.mount) for number in (1, 2)], random.Random(arguments.seed)
    wrong = claim_tests(hosts[0]) + count_together(hosts)
    print(*wrong, sep="\n", flush=True)
    counts: Counter[str] = Counter()
    studies = 0
    while sum(counts[kind] for kind in KILLS) < arguments.kills:
        studies += 1
        wrong += share_study(hosts, dice, f"study{studies}", counts, arguments.kills, arguments.pauses)
    for host in hosts:
        host.holder.kill()
    print(f"{studies} studies, {len(wrong)} wrong: {json.dumps(counts)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
