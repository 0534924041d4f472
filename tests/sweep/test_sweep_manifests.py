"""Workers on Kubernetes and SkyPilot: the manifests are what the engines' published schemas ask for."""

import os
from pathlib import Path

import pytest
import yaml

from oneclock.cli import main
from oneclock.sweep.exec.manifests import Workers, manifest, start, write

K8S = Workers("kubernetes", "shared:/mnt/shared", image="example/train:1", count=8, memory="16Gi", gpus="1")
SKY = Workers("skypilot", "shared:/mnt/shared", count=4, cpus=8, gpus="H100:1", options=("--jobs", "2"))


def test_the_job_follows_the_published_schema_of_kubernetes():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    job = yaml.safe_load(manifest(Path("/mnt/shared/My study"), K8S))
    kubernetes_validate.validate(job, "1.33", strict=True)
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 8
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["oneclock", "work", "/mnt/shared/My study"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_task_has_what_skypilot_reads():
    task = yaml.safe_load(manifest(Path("/mnt/shared/my study"), SKY))
    assert task["volumes"] == {"/mnt/shared": "shared"}
    assert task["workdir"] == str(Path.cwd())
    assert task["run"] == "oneclock work '/mnt/shared/my study' --jobs 2"
    assert task["resources"] == {"cpus": "8+", "accelerators": "H100:1"}
    schemas = pytest.importorskip("sky.utils.schemas")
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ({"engine": "kubernetes", "volume": "shared:/mnt"}, "image"),
        ({"engine": "skypilot", "volume": "shared"}, "NAME:/path"),
        ({"engine": "skypilot", "volume": "a:/x\nrun: rm"}, "NAME:/path"),
        ({"engine": "skypilot", "volume": "a:/x", "count": 0}, "one worker"),
        ({"engine": "kubernetes", "volume": "a:/x", "image": "i", "gpus": "H100"}, "number"),
    ],
)
def test_what_cannot_be_started_is_refused(workers, words):
    with pytest.raises(ValueError, match=words):
        Workers(**workers)


def test_a_study_outside_the_volume_is_refused(tmp_path):
    with pytest.raises(ValueError, match="outside the volume"):
        manifest(tmp_path, K8S)


def test_a_name_with_a_newline_stays_one_value(tmp_path):
    odd = tmp_path / "a\nb: c"
    job = yaml.safe_load(manifest(odd, Workers("skypilot", f"v:{tmp_path}")))
    assert set(job) == {"name", "num_nodes", "resources", "volumes", "workdir", "run"}


def test_it_is_written_and_its_command_names_it(tmp_path):
    study = tmp_path / "s"
    line = write(study, Workers("kubernetes", f"v:{tmp_path}", image="i"))
    assert line == ["kubectl", "apply", "-f", str(study / "kubernetes" / "workers.yaml")]
    assert yaml.safe_load(Path(line[-1]).read_text())["kind"] == "Job"


def test_its_client_starts_it_where_there_is_one(tmp_path, monkeypatch):
    line = write(tmp_path / "s", Workers("kubernetes", f"v:{tmp_path}", image="i"))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert start(line) is None
    client = tmp_path / "bin" / "kubectl"
    client.parent.mkdir()
    client.write_text('#!/bin/sh\necho "applied $3"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert start(line) == f"applied {line[-1]}"
    client.write_text("#!/bin/sh\necho forbidden >&2; exit 1\n")
    with pytest.raises(OSError, match="forbidden"):
        start(line)


TRAIN = "def train(beta, seed, run):\n    run.log(run.budget, val_loss=1 + (beta - 0.9) ** 2)\n"


def command(folder, *words):
    """`oneclock sweep` of a function below the folder; its exit code."""
    (folder / "train.py").write_text(TRAIN)
    plan = [f"{folder}/train.py:train", "--budget", "10", "--out", str(folder / "study")]
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *plan, *words])
    return ended.value.code


@pytest.mark.parametrize("engine", ["kubernetes", "skypilot"])
def test_the_command_writes_the_plan_and_a_manifest_whose_command_does_the_runs(engine, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    words = ["--cluster", engine, "--volume", f"v:{tmp_path}", "--image", "i", "--array", "3", "--jobs", "2"]
    assert not command(tmp_path, *words, "--protocol", "grid", "--betas", "0.5,0.9", "--seeds", "1")
    written = yaml.safe_load((tmp_path / "study" / engine / "workers.yaml").read_text())
    if engine == "kubernetes":
        (container,) = written["spec"]["template"]["spec"]["containers"]
        line, cores, count = (
            container["command"],
            container["resources"]["requests"]["cpu"],
            written["spec"]["completions"],
        )
    else:
        line, cores, count = written["run"].split(), written["resources"]["cpus"], written["num_nodes"]
    assert (cores.rstrip("+"), count) == ("2", 3)
    assert {"kubernetes": "kubectl", "skypilot": "sky"}[engine] in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(line[1:])
    assert not ended.value.code
    assert len(list((tmp_path / "study" / "runs").rglob("result.json"))) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--cluster", "kubernetes", "--image", "i"],
        ["--cluster", "kubernetes", "--volume", "v:/elsewhere", "--image", "i"],
        ["--cluster", "kubernetes", "--volume", "v:/elsewhere"],
        ["--cluster", "slurm", "--volume", "v:/elsewhere"],
        ["--cluster", "skypilot", "--volume", "v:/elsewhere", "--sbatch", "--mem=1G"],
    ],
    ids=lambda words: "-".join(words[1:]),
)
def test_the_command_refuses_what_cannot_be_started_and_writes_nothing(words, tmp_path, capsys):
    assert command(tmp_path, *words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "study").exists()
