"""`oneclock sweep`: many runs over beta, on this machine or a cluster; the same command again continues."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneclock.plain_text import printable
from oneclock.steps import count

if TYPE_CHECKING:
    from oneclock.sweep import Execution, Plan
    from oneclock.sweep.exec.scheduler import Observer
    from oneclock.sweep.targets import Target


_PANELS = "What to train, Which runs, The study, Look before you run, On this machine, On a cluster"
What, Which, Study, First, Here, Cluster, Lab = (
    partial(typer.Option, rich_help_panel=name) for name in (*_PANELS.split(", "), "Experiments of the paper")
)

SUBMITTED = ("slurm", "kubernetes", "skypilot")  # engines that keep running after this command has ended
_OF_MANIFESTS = dict.fromkeys(("volume", "image", "worker_memory", "worker_gpus"), SUBMITTED[1:])
_ONLY_FOR = {"sbatch": SUBMITTED[:1], "array": SUBMITTED} | _OF_MANIFESTS


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="file.py:function, module:function or an experiment."),
    ] = None,
    budget: Annotated[float | None, What(parser=count, help="Steps of one run, as 20000 or 20k.")] = None,
    run_command: Annotated[str | None, What("--command", help="A command instead of a function; see above.")] = None,
    log: Annotated[str, What(help="Where that command writes its log or CSV.")] = "{folder}",
    name: Annotated[str | None, What(help="What the study calls the function or command.")] = None,
    processes: Annotated[int, What(help="Processes of one run, by torchrun.")] = 1,
    allow_early_stop: Annotated[
        bool, What("--allow-early-stop", help="A run that ends before its budget counts as finished.")
    ] = False,
    protocol: Annotated[str | None, Which(help="paper (the default), grid or adaptive.")] = None,
    betas: Annotated[list[str] | None, Which(metavar="LIST", help="0.9,0.99: instead of the paper's thirteen.")] = None,
    seeds: Annotated[list[str] | None, Which(metavar="LIST", help="1,2,3")] = None,
    learning_rates: Annotated[
        list[str] | None, Which(metavar="LIST", help="grid, adaptive: sweep these too: lr= of a function, {lr}.")
    ] = None,
    baselines: Annotated[
        list[str] | None, Which(metavar="LIST", help="Untied pairs beside the sweep: 0.9/0.999,0.9/0.95; or none.")
    ] = None,
    max_runs: Annotated[int | None, Which(help="adaptive: stop there. Default: 10 or, with two axes, 36.")] = None,
    out: Annotated[Path, Study(help="The study's folder.")] = Path("study"),
    extend: Annotated[bool, Study("--extend", help="Add betas, seeds or the like to the study.")] = False,
    keep_runs: Annotated[bool, Study("--keep-runs", help="Keep finished runs although the code has changed.")] = False,
    with_report: Annotated[bool, Study("--report/--no-report", help="Write a report at the end.")] = True,
    log_to: Annotated[list[str] | None, Study(help="Show evaluations as they come: tensorboard, wandb.")] = None,
    dry_run: Annotated[bool, First("--dry-run", help="Print the plan and its cost, run nothing.")] = False,
    try_first: Annotated[bool, First("--try", help="Train one run to its third evaluation, show it.")] = False,
    plan_only: Annotated[bool, First("--plan-only", help="Write the plan for `oneclock work` only.")] = False,
    jobs: Annotated[int | None, Here("--jobs", "-j", help="Runs at a time; default: cores, or GPUs.")] = None,
    threads: Annotated[int, Here(help="Threads of one run.")] = 1,
    gpus_per_run: Annotated[float, Here(help="GPUs of one run, or a fraction of one.")] = 1.0,
    in_process: Annotated[bool, Here("--in-process", help="All in this process, to debug.")] = False,
    retries: Annotated[int, Here(help="How often a killed run is tried again.")] = 2,
    timeout: Annotated[float | None, Here(help="Seconds after which a run counts as hung.")] = None,
    cluster: Annotated[str | None, Cluster(help="slurm, kubernetes, skypilot, or a Dask: tls://host:port.")] = None,
    insecure: Annotated[bool, Cluster("--insecure", help="Trust the network of a Dask without TLS.")] = False,
    array: Annotated[
        int | None, Cluster(help="How many workers share the runs. Not for Dask.", show_default="1")
    ] = None,
    volume: Annotated[str | None, Cluster(help="kubernetes, skypilot: the shared volume, NAME:/path.")] = None,
    image: Annotated[str | None, Cluster(help="kubernetes, skypilot: an image with oneclock.")] = None,
    worker_memory: Annotated[str | None, Cluster(help="kubernetes: 16Gi; skypilot: 16 (GB).")] = None,
    worker_gpus: Annotated[str | None, Cluster(help="kubernetes: 1; skypilot: H100:1.")] = None,
    sbatch: Annotated[str | None, Cluster(help="slurm: its options, '--time=24:00:00 --gres=gpu:1'.")] = None,
    settings: Annotated[list[str] | None, Lab("--set", metavar="NAME=VALUE", help="A setting.")] = None,
    data_dir: Annotated[Path | None, Lab(help="Where its data are; else ONECLOCK_DATA or caches.")] = None,
) -> None:
    """Sweep beta by the paper's protocol. It survives a crash: the same command again continues.

    oneclock sweep train.py:train --budget 20k --try

    oneclock sweep train.py:train --budget 20k --out mystudy

    oneclock sweep --command "python train.py --beta {beta} --seed {seed} --out {folder}" --budget 20k

    oneclock sweep --out mystudy --extend --betas 0.992

    Code that changed since runs were made is refused: --keep-runs keeps them, another --out starts a new study.
    """
    asked = SimpleNamespace(**locals())
    from oneclock.sweep import Execution

    _check(asked)
    address = None if cluster in SUBMITTED else cluster
    where = Execution(jobs, threads, gpus_per_run, address, in_process, retries, timeout, insecure)
    plan = _plan(asked)
    if try_first:
        _try(plan, where)
        return
    _print_plan(plan, where, asked)
    if dry_run:
        return
    if plan_only or cluster in SUBMITTED:
        _submit(plan, where, asked)
    else:
        run_plan(plan, where, _observers(out, log_to or []))
        _finish(plan, with_report)


def _check(asked: SimpleNamespace) -> None:
    """ValueError for options that exclude each other."""
    for name, engines in _ONLY_FOR.items():
        if getattr(asked, name) is not None and asked.cluster not in engines:
            raise ValueError(f"--{name.replace('_', '-')}: only for --cluster {' or '.join(engines)}")
    if asked.cluster is not None and asked.cluster not in SUBMITTED and ":" not in asked.cluster:
        names = ", ".join(SUBMITTED)
        raise ValueError(f"--cluster takes {names} or a Dask address such as tls://host:port, got {asked.cluster!r}")
    if asked.try_first and asked.dry_run:
        raise ValueError("--dry-run runs nothing, and --try trains one run: give one of them")
    if asked.data_dir is not None and (asked.plan_only or asked.cluster in SUBMITTED):
        raise ValueError("workers do not get --data-dir: set ONECLOCK_DATA instead, here and where they run")


def _plan(asked: SimpleNamespace) -> Plan:
    """The plan for these targets; without any, that of the study in the folder, with what is added to it."""
    from oneclock.lab.sweep_target import with_data
    from oneclock.runs.protocols import protocol_from
    from oneclock.sweep import Plan
    from oneclock.sweep.api import make_plan

    out, extend, more = asked.out, asked.extend, {"extend": asked.extend, "keep_runs": asked.keep_runs}
    targets, values = _targets(asked), _values(asked)
    if targets:
        return make_plan(out, targets, asked.protocol or "paper", values, **more)
    if not (out / "study.json").exists():
        if extend:
            raise ValueError(f"{out} holds no study to extend; name one with --out")
        given = "a function (file.py:train), --command, an experiment, or a study (--out)"
        raise ValueError(f"name what to sweep: {given}; {out} holds no study")
    before = Plan.read(out)
    if (values or asked.protocol) and not extend:
        raise ValueError(f"{out} holds a study: add to it with --extend, or name what to sweep")
    protocol = protocol_from(asked.protocol or before.protocol.kind, **values) if extend else before.protocol
    return Plan(out, with_data([target.afresh() for target in before.targets], asked.data_dir), protocol, **more)


def _targets(asked: SimpleNamespace) -> list[Target]:
    """The functions and experiments that were named, and the command."""
    from oneclock.lab import experiment_target
    from oneclock.sweep import Command
    from oneclock.sweep.api import target_of

    named, settings, budget = asked.targets or [], tuple(asked.settings or ()), asked.budget
    experiments = [one for one in named if ":" not in one and not one.endswith(".py")]
    # Without a target, those of the study may read data.
    if not experiments and (settings or (asked.data_dir and (named or asked.run_command))):
        raise ValueError("--set and --data-dir are only for experiments of the paper")
    more = {"processes": asked.processes, "allow_early_stop": asked.allow_early_stop}
    targets: list[Target] = [
        experiment_target(one, budget, settings, asked.processes, asked.data_dir)
        if one in experiments
        else target_of(one, budget, asked.name, **more)
        for one in named
    ]
    if asked.run_command is not None:
        if budget is None:
            raise ValueError("give the budget of a run in steps (--budget): a command does not state it")
        targets.append(Command(asked.run_command, budget, asked.log, asked.name or "command", **more))
    return targets


def _values(asked: SimpleNamespace) -> dict[str, Any]:
    """The protocol options that were given, as numbers; those of an option that was given twice are joined."""
    kinds = {"betas": float, "seeds": int, "learning_rates": float}
    given = {name: ",".join(texts) for name in (*kinds, "baselines") if (texts := getattr(asked, name))}
    pairs = given.pop("baselines", None)
    values: dict[str, Any] = {name: _numbers(text, kinds[name], name) for name, text in given.items()}
    if pairs is not None:
        each = [] if pairs == "none" else pairs.split(",")
        values["baselines"] = [_numbers(one, float, "baselines", "/") for one in each]
    return values | ({} if asked.max_runs is None else {"max_runs": asked.max_runs})


def _numbers(text: str, kind: type, name: str, separator: str = ",") -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(separator))
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise ValueError(f"{option} takes numbers separated by {separator!r}, got {text!r}") from None


def _print_plan(plan: Plan, where: Execution, asked: SimpleNamespace) -> None:
    from oneclock.sweep.api import plan_in_words
    from oneclock.sweep.exec.scheduler import processes_of

    plan.check()
    submitted = (asked.array or 1) * (asked.jobs or 1)
    workers = submitted if asked.cluster in SUBMITTED else where.workers(processes_of(plan))
    wrapped = textwrap.TextWrapper(80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    for line in plan_in_words(plan, workers):
        print(wrapped.fill(printable(line)))


def _submit(plan: Plan, where: Execution, asked: SimpleNamespace) -> None:
    """Write the plan for workers elsewhere, start them where that is possible from here, and say how to go on."""
    from oneclock.sweep.exec import manifests, slurm
    from oneclock.sweep.exec.scheduler import processes_of

    array = 1 if asked.array is None else asked.array
    cores = (where.jobs or 1) * where.threads * processes_of(plan)  # of one worker
    given = {"jobs": where.jobs or 1, "threads": where.threads, "gpus-per-run": where.gpus_per_run}
    given |= {"retries": where.retries} | ({} if where.timeout is None else {"timeout": where.timeout})
    options = tuple(word for name, value in given.items() for word in (f"--{name}", f"{value:.15g}"))  # of `work`
    if asked.plan_only:
        _write(plan)
        print(printable(f"the plan is written; `oneclock work {plan.path}` starts a worker, here or elsewhere"))
    elif asked.cluster == "slurm":
        if array < 1:
            raise ValueError(f"--array must be at least 1, got {array}")
        if shutil.which("sbatch") is None:
            raise ValueError("sbatch was not found: submit from a machine of the Slurm cluster")
        text = slurm.script(plan.path, array, cores, shlex.split(asked.sbatch or ""), options)
        _write(plan)
        number = slurm.submit(plan.path, text)
        print(f"Slurm has it as job {number}, {array} worker(s), and this command is no longer needed")
        print(printable(f"look: `oneclock status {plan.path}`, `squeue --job {number}`; end: `scancel {number}`"))
    else:
        if asked.volume is None:
            raise ValueError(f"--cluster {asked.cluster} needs --volume NAME:/path, where the study lies")
        worker = (asked.worker_memory, asked.worker_gpus, options)
        workers = manifests.Workers(asked.cluster, asked.volume, asked.image, array, cores, *worker)
        manifests.manifest(plan.path, workers)  # refuses a study outside the volume before anything is written
        _write(plan)
        line = manifests.write(plan.path, workers)
        if (printed := manifests.start(line)) is None:
            print(printable(f"the plan and a manifest are written. To start {array} worker(s): {shlex.join(line)}"))
        else:
            print(printable_lines(f"{printed}\n{array} worker(s) started with {line[-1]}"))


def _write(plan: Plan) -> None:
    """Write the plan, unless workers have it already; ValueError for what a worker could not load."""
    from oneclock.runs.lock import take_alone

    for target in plan.targets:
        target.afresh()
    if not plan.written:
        with take_alone(plan.path):
            plan.write()


def _try(plan: Plan, where: Execution) -> None:
    """One run of the first target, up to its third evaluation."""
    from oneclock.rule import beta_for
    from oneclock.sweep.api import TRY, try_target
    from oneclock.sweep.view import span

    target = plan.targets[0]
    beta = beta_for(target.budget)
    print(printable(f"{target.name}: one run at beta {beta:.3g}, up to its third evaluation"))
    try:
        tried = try_target(target, where, round(beta, 6), plan.protocol.lrs[0])
    except RuntimeError as error:
        print(printable_lines(f"oneclock: {error}"), file=sys.stderr)
        raise typer.Exit(1) from None
    for point in tried.points[:TRY]:
        losses = {"val_loss": point.val_loss, "train_loss": point.train_loss}
        print(f"step {point.step:,}: " + ", ".join(f"{key} {loss:.5g}" for key, loss in losses.items() if loss))
    if seconds := tried.whole(target.budget):
        print(f"a run of {target.budget:,} steps takes about {span(seconds)}")


def printable_lines(text: str) -> str:
    """Text of several lines, safe to print on a terminal."""
    return "\n".join(map(printable, text.splitlines()))


def _observers(out: Path, names: list[str]) -> list[Observer]:
    from oneclock.export.live import TensorBoard, WeightsAndBiases

    kinds: dict[str, Any] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}
    for name in names:
        if name not in kinds:
            raise ValueError(f"--log-to takes {' or '.join(kinds)}, got {name!r}")
    return [kinds[name](folder=out / name) for name in names]


def run_plan(plan: Plan, where: Execution, observers: Sequence[Observer] = ()) -> None:
    """Sweep; Ctrl-C and a polite kill end it with one line and exit code 130."""
    from oneclock.sweep import sweep
    from oneclock.sweep.exec.scheduler import Stopped

    try:
        sweep(plan, where, observers=observers)
    except KeyboardInterrupt:
        print("oneclock: stopped; the same command continues it", file=sys.stderr)
        raise typer.Exit(130) from None
    except Stopped as error:
        print(printable_lines(f"oneclock: {error}"), file=sys.stderr)
        raise typer.Exit(2) from None


def _finish(plan: Plan, with_report: bool) -> None:
    for target in plan.targets:
        print(printable(f"{target.name}: {plan.step(target).reason}"))
    failed, ended = plan.study.failed(), len(plan.study.ended)
    if len(failed) == ended:
        reason = plan.study.ended[failed[0]].reason if failed else None
        which = "the only run" if ended == 1 else f"all {ended} runs"
        print(printable(f"no answer: {which} failed ({reason})"), file=sys.stderr)
    else:
        try:
            _answer(plan.path, with_report)
        except ValueError as error:  # such as losses below 0: there is a best beta, but no percentages
            for name in plan.study.experiments:
                print(printable(f"{name}: {plan.study.best(name).summary}"))
            print(printable(f"no analysis: {error}"), file=sys.stderr)
    if failed:
        runs = "1 run" if len(failed) == 1 else f"{len(failed)} runs"
        print(f"{runs} failed; `oneclock status {plan.path}` says why, `oneclock retry` tries again")
        raise typer.Exit(1)


def _answer(study: Path, with_report: bool) -> None:
    """The first lines of the study's analysis, and its page where the parts for it are installed."""
    from oneclock.report import folder
    from oneclock.report.brief import in_words

    subject = folder.subject_of(study)  # one analysis for these lines and for the report
    print("\n" + in_words(subject.analysis, shutil.get_terminal_size().columns))
    if with_report and all(find_spec(name) for name in ("jinja2", "matplotlib")):
        out = folder.default_folder(study)
        typed = shlex.join(["oneclock", "report", study.resolve().name, "--out", out.name])
        try:
            print(f"\n{folder.write_subject(subject, out, typed)}")
        except OSError as error:  # the runs are safe; a page can be drawn at any time
            print(f"\nno report was written ({error.strerror}); `oneclock report {study}` draws it", file=sys.stderr)
