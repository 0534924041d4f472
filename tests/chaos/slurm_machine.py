"""A real Slurm on this machine: a controller and two nodes of one core each, on 127.0.0.1, in a folder of its own.

Debian has it (`apt-get install slurm-wlm munge`). Partition `low` is preempted by partition `high`, its jobs queued
again.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

USER = pwd.getpwuid(os.getuid()).pw_name
PARTS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol")

CONFIGURATION = """
ClusterName=one
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ReturnToService=2
KillWait=30
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
MpiDefault=none
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF
"""


def missing() -> str | None:
    """Why there can be no Slurm here, or None."""
    absent = [name for name in PARTS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    return f"Slurm is not installed ({', '.join(absent)}): apt-get install slurm-wlm munge" if absent else None


class Unable(Exception):
    """Slurm is installed, and does not start here: no privileges, no room for its sockets, or settings it dislikes."""


class Slurm:
    """Slurm from its start to its end; a context manager. `ask` has a command of Slurm's say what it says.

    Entering it raises `Unable` where its daemons do not come up.
    """

    nodes = ("n1", "n2")

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o711)  # munge wants its socket reached by all
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        self.environment = plain | {  # those would be of another Slurm, of which this is a job
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Slurm":
        try:
            self._begin()
        except (OSError, AssertionError) as error:
            self._end()
            raise Unable(f"Slurm does not start here: {str(error)[-300:]}") from None
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("scancel", "--user", USER, check=False)
        try:
            self._until(lambda: not self.queue())
        finally:
            self._end()

    def _begin(self) -> None:
        (self.folder / "state").mkdir()
        for node in self.nodes:
            (self.folder / node).mkdir()
        key = self.folder / "key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        values = {"folder": self.folder, "ports": _free_ports(3), "user": USER}
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        places = [f"--{what}={self.folder}/munge.{what.split('-')[0]}" for what in ("socket", "pid-file", "seed-file")]
        self._start("munged", "-F", f"--key-file={key}", f"--log-file={self.folder}/munge.log", *places)
        self._until((self.folder / "munge.socket").exists, all_alive=True)
        self._start("slurmctld", "-D")
        for node in self.nodes:
            self._start("slurmd", "-D", "-N", node)
        self._until(lambda: self._states() == ["idle"] * 2, all_alive=True)

    def _end(self) -> None:
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)

    def ask(self, *line: object, check: bool = True) -> str:
        done = subprocess.run([*map(str, line)], env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def queue(self) -> dict[str, tuple[str, str]]:
        """Job -> its state and the node it is on, of all that Slurm has."""
        rows = self.ask("squeue", "--noheader", "--array", "--format=%i|%T|%N").splitlines()
        return {job: (state, node) for job, state, node in (row.split("|") for row in rows)}

    def running(self) -> dict[str, str]:
        return {job: node for job, (state, node) in self.queue().items() if state == "RUNNING"}

    def _states(self) -> list[str]:
        return self.ask("sinfo", "--noheader", "--Node", "--partition=low", "--format=%T", check=False).split()

    def release(self) -> None:
        """Let jobs that were queued again start soon: Slurm would leave them alone for two minutes.

        Not at once: a node counts in seconds, and refuses for ever a job that starts in the very one in which it ended.
        """
        waiting = [job for job, (state, _) in self.queue().items() if state == "PENDING"]
        time.sleep(2 if waiting else 0)
        for job in waiting:
            self.ask("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)

    def _start(self, name: str, *more: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as output:
            self._started.append(subprocess.Popen([name, *more], env=self.environment, stdout=output, stderr=output))

    def _until(self, true, within: float = 60.0, all_alive: bool = False) -> None:
        """Wait for something; AssertionError with what the daemons said where it does not come, or one has ended."""
        deadline = time.monotonic() + within
        while not true():
            assert time.monotonic() < deadline, self._said()
            assert not all_alive or all(process.poll() is None for process in self._started), self._said()
            time.sleep(0.1)

    def _said(self) -> str:
        return " ".join(" ".join(path.read_text().split()) for path in sorted(self.folder.glob("*.out")))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
