"""Claims and workers of two hosts on a real NFS mount, on a machine of its own; left out where it cannot be made."""

import json

import pytest
from chaos import nfs_machine

KILLS = 100


@pytest.mark.nfs
def test_workers_of_two_hosts_on_nfs_lose_no_run_and_repeat_none():
    lines = []
    try:
        for line in nfs_machine.boot(KILLS):
            print(line, flush=True)
            lines.append(line)
    except nfs_machine.Unable as why:
        pytest.skip(str(why))
    (summary,) = [line for line in lines if " studies, " in line]
    found, _, counts = summary.partition(": ")
    counts = json.loads(counts)
    assert found.endswith(" 0 wrong")
    assert sum(counts[kind] for kind in ("run", "server", "worker", "host")) == KILLS
    assert counts["runs taken over"] > 0
    assert "exit code 0" in lines
