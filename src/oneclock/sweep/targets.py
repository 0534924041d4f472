"""What a run executes: an experiment of the project, a Python function of the user's, or a command of the user's.

A target is plain data that travels to any worker; `execute` trains one run in the folder it is given, goes on from
what an earlier attempt left there, and returns how it ended. Each kind has a module of its own; here are the words in
which a person asks for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oneclock.sweep import code as fingerprint
from oneclock.sweep import commands, source
from oneclock.sweep.commands import Command
from oneclock.sweep.functions import Function
from oneclock.sweep.named import Named
from oneclock.sweep.ranks import under_torchrun

Target = Named | Function | Command


def target_from(
    target: str | Callable[..., Any] | None,
    budget: float | None,
    command: str | None = None,
    log: str = "{folder}",
    name: str | None = None,
    settings: tuple[str, ...] = (),
    processes: int = 1,
) -> Target:
    """The target a person means: an experiment's name, `module:function`, `file.py:function`, a callable, a command.

    >>> target_from("train.py:train", 100, name="mine").name
    Traceback (most recent call last):
    ValueError: train.py does not exist; the target reads file.py:function, module:function or an experiment's name
    """
    if (target is None) == (command is None):
        raise ValueError("give one target: an experiment, a function (file.py:train), or --command")
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    budget = None if budget is None else _whole(budget)
    if isinstance(target, str) and target.endswith(".py"):
        raise ValueError(f"{target} is a file; name its function too: {target}:FUNCTION, or run it with --command")
    if isinstance(target, str) and ":" not in target:
        return replace(_experiment(target, budget, settings), processes=processes)
    if budget is None:
        raise ValueError("give the budget of a run in steps (--budget): a function or a command does not say it")
    if settings:
        raise ValueError("settings (--set) belong to an experiment of oneclock; a function or a command has its own")
    if command is not None:
        commands.check_places(command)
        if processes > 1:
            under_torchrun(command, processes)  # which refuses what it cannot start
        return Command(name or "command", budget, command, log, fingerprint.of_command(command), processes)
    assert target is not None
    if processes > 1 and not isinstance(target, str):
        raise ValueError("a function given in Python runs in one process: name it (file.py:train) for several")
    return replace(_function(target, budget, name), processes=processes)


def with_data(targets: Sequence[Target], data_dir: Path | None) -> list[Target]:
    """The targets with a folder for the data of the experiments among them, as an absolute path: workers have others.

    >>> with_data([Named("vit-digits", 100)], Path("/data"))[0].data_dir
    '/data'
    """
    if data_dir is None:
        return [*targets]
    if not any(isinstance(target, Named) for target in targets):
        raise ValueError("a data folder (--data-dir) belongs to an experiment of oneclock; nothing else here reads it")
    folder = str(data_dir.expanduser().absolute())
    return [replace(target, data_dir=folder) if isinstance(target, Named) else target for target in targets]


def afresh(target: Target) -> Target:
    """The target of a recorded study as it is today: the same words, the code that is there now."""
    if isinstance(target, Command):
        return replace(target, code=fingerprint.of_command(target.command))
    if isinstance(target, Function):
        if ":" not in target.reference:
            raise ValueError(f"{target.reference} was given in Python; go on with the script that swept it")
        return replace(_function(target.reference, target.budget, target.name), processes=target.processes)
    return target


def _whole(budget: float) -> int:
    if not (budget >= 1 and float(budget).is_integer()):
        raise ValueError(f"the budget must be a whole number of steps, at least one, got {budget:g}")
    return int(budget)


def _function(target: str | Callable[..., Any], budget: int, name: str | None) -> Function:
    if not isinstance(target, str):
        import cloudpickle

        label = getattr(target, "__qualname__", type(target).__qualname__)
        return Function(name or label, budget, label, cloudpickle.dumps(target), fingerprint.of_callable(target))
    source.check(target)
    place, _, function = target.rpartition(":")
    label = f"{Path(place).stem if place.endswith('.py') else place}.{function}"
    file = source.source_of(target)
    return Function(name or label, budget, target, code={} if file is None else fingerprint.of_file(file))


def _experiment(name: str, budget: int | None, settings: tuple[str, ...]) -> Named:
    from oneclock.experiments import find, override

    spec = override(find(name), settings)
    return Named(name, spec.budget if budget is None else budget, settings)
