"""What a run ran on is asked without a trace."""

import os
import subprocess

from oneclock.runs.record import commit


def test_git_is_asked_without_a_lock(tmp_path, monkeypatch):
    """A git that would write its index takes a lock first, and leaves it where it is killed: then nobody can commit."""
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "code.py").touch()
    for words in (["init", "-q"], ["add", "code.py"], ["commit", "-qm", "one"]):
        subprocess.run([*line, *words], cwd=tmp_path, check=True)
    os.utime(tmp_path / "code.py", (1, 1))  # the index is now behind
    before = (tmp_path / ".git" / "index").read_bytes()
    monkeypatch.chdir(tmp_path)
    found = commit()
    assert found is not None
    assert not found.endswith("+")
    assert (tmp_path / ".git" / "index").read_bytes() == before
    subprocess.run(["git", "status"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / ".git" / "index").read_bytes() != before
