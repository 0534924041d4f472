"""The command line. Heavy imports are inside the functions, so that all commands start at once."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any

import typer

from oneclock.cli import advise, analyse, beta, evidence, report, schema, study, sweep
from oneclock.lab import cli as lab
from oneclock.plain_text import printable

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="oneclock",
    help="Set the one memory of balanced Adam: choose beta, train, sweep, analyse.",
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)

_PANELS: dict[str, dict[str, Any]] = {
    "Choose beta": {"beta": beta.command, "evidence": evidence.command, "advise": advise.command},
    "Sweep over beta": {"sweep": sweep.command, "status": study.status, "retry": study.retry, "work": study.work},
    "Results of a sweep": {"analyse": analyse.command, "report": report.command, "export": study.export},
    "For scripts": {"schema": schema.command},
}
for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
app.add_typer(lab.app(_SETTINGS), name="lab", rich_help_panel="Reproduce the paper")

# Typer carries click inside or beside it, depending on its version; this is its base class of usage errors in both.
_UsageProblem: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        import oneclock

        print(f"oneclock {oneclock.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Bad input is one line on stderr and exit code 2; ONECLOCK_DEBUG=1 shows the traceback."""
    try:
        code = _without_metavar_of_flags(typer.main.get_command(app))(
            arguments, prog_name="oneclock", standalone_mode=False
        )
        print(end="", flush=True)
    except BrokenPipeError:
        code = _reader_left()
    except SystemExit as ended:  # Typer's, after such an error, with the code 1
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        code = _reader_left()
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted", 130)
    except (_UsageProblem, ValueError, OSError, ImportError) as error:
        if os.environ.get("ONECLOCK_DEBUG"):
            raise
        message = _about_negative(arguments, error) or getattr(error, "format_message", error.__str__)()
        if isinstance(error, OSError) and error.filename and error.strerror:
            message = f"{error.filename}: {error.strerror}"
        if getattr(error, "name", None) == "torch":
            message = "this needs torch: pip install 'oneclock[torch]'"
        code = _complain(" ".join(message.replace(": Value error, ", ": ").split()), 2)
    sys.exit(code)


def _about_negative(arguments: list[str] | None, error: Exception) -> str | None:
    """The message for a negative number, which looks like an option; None for other problems."""
    if type(error).__name__ != "NoSuchOption":
        return None
    typed = sys.argv[1:] if arguments is None else arguments
    negative = next((word for word in typed if re.fullmatch(r"-[\d.][\w.,]*", word)), None)
    return None if negative is None else f"{negative} is a negative number; give a number above 0"


def _without_metavar_of_flags(command: Any) -> Any:
    """The command line, its flags without the `<bool>` that newer versions of Typer put behind them."""
    for parameter in command.get_params(typer.Context(command, **_SETTINGS)):  # with --help, which it adds
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for one in getattr(command, "commands", {}).values():
        _without_metavar_of_flags(one)
    return command


def _reader_left() -> int:
    """The exit code after `oneclock analyse STUDY | head`, as of a program that SIGPIPE ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still to be flushed
    return 128 + 13


def _complain(message: str, code: int) -> int:
    print(f"oneclock: {printable(message)}", file=sys.stderr)
    return code
