"""DDP, FSDP and distributed checkpoints on two real gloo processes."""

import socket
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("distributed_worker.py")


def test_two_processes_train_as_one(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(WORKER)]
    workers = [
        subprocess.Popen([*command, str(rank), str(port), str(tmp_path)], stdout=-1, stderr=-1, text=True)
        for rank in range(2)
    ]
    try:
        outcomes = [worker.communicate(timeout=240) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (printed, errors) in zip(workers, outcomes, strict=True):
        assert worker.returncode == 0, errors
        assert printed.splitlines() == [
            "DDP equals one process",
            "FSDP equals one process, and a distributed checkpoint continues bit for bit",
            "so does compact state",
            "and with the state offloaded",
        ]
