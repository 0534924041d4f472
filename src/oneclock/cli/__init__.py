"""The command line: one file per command, each with heavy imports inside its function so that all start at once."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from oneclock.cli import (
    advise,
    analyse,
    beta,
    data,
    experiments,
    export,
    pack,
    paper,
    report,
    retry,
    status,
    study,
    sweep,
    train,
    work,
)
from oneclock.plain_text import printable

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="oneclock",
    help="Set the one memory of balanced Adam: choose beta, train, sweep, analyse.",
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)
app.command("beta")(beta.command)
app.command("advise")(advise.command)
app.command("experiments")(experiments.command)
app.add_typer(data.app, name="data")
app.command("train")(train.command)
app.command("study")(study.command)
app.command("sweep")(sweep.command)
app.command("work")(work.command)
app.command("status")(status.command)
app.command("retry")(retry.command)
app.command("analyse")(analyse.command)
app.command("paper")(paper.command)
app.command("report")(report.command)
app.command("pack")(pack.pack)
app.command("unpack")(pack.unpack)
app.command("export")(export.command)

# Typer carries click inside or beside it, depending on its version; this is its base class of usage errors in both.
_UsageProblem: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def _print_version(wanted: bool) -> None:
    if wanted:
        import oneclock

        print(f"oneclock {oneclock.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Bad input is one line on stderr and exit code 2; ONECLOCK_DEBUG=1 shows the traceback."""
    try:
        code = _command()(arguments, prog_name="oneclock", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted", 130)
    except (_UsageProblem, ValueError, OSError, ImportError) as error:
        if os.environ.get("ONECLOCK_DEBUG"):
            raise
        message = getattr(error, "format_message", error.__str__)()
        if getattr(error, "name", None) == "torch":
            message = "this needs torch: pip install 'oneclock[torch]'"
        code = _complain(" ".join(message.split()), 2)
    sys.exit(code)


def _command() -> Any:
    """The command line, its flags without the `<bool>` that newer versions of Typer put behind them."""
    whole = typer.main.get_command(app)
    left: list[Any] = [whole]
    while left:
        one = left.pop()
        left += getattr(one, "commands", {}).values()
        for parameter in one.get_params(typer.Context(one, **_SETTINGS)):  # with --help, which it adds
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
    return whole


def _complain(message: str, code: int) -> int:
    print(f"oneclock: {printable(message)}", file=sys.stderr)
    return code
