"""A fingerprint of the user's own code: what a run's loss depends on and no setting says.

Code is hashed as it means, without comments, docstrings or layout, file by file, so that a change can be named. Of a
function in a file, the file and the modules beside it that it imports count; of a callable, its compiled code, what it
closes over and the user's own code it refers to; of a command, the files it names. Installed packages do not: their
versions are in the record.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shlex
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

Fingerprint = Mapping[str, str]
"""What was hashed, by name, with its hash."""

_LARGEST = 64 * 2**20  # a larger file that a command names is data, and its size stands for it


def of_file(file: Path) -> Fingerprint:
    """A Python file and the modules of the user's own that it imports, wherever it does so.

    >>> list(of_file(Path(__file__)))
    ['code.py']
    """
    return {path.name: _of_source(path) for path in _with_imports(file.resolve())}


def of_callable(function: Callable[..., Any]) -> Fingerprint:
    """The code behind a callable of this process, and the user's own code it refers to.

    >>> of_callable(lambda beta: beta + 1) == of_callable(lambda beta: beta + 1)
    True
    >>> of_callable(lambda beta: beta + 1) == of_callable(lambda beta: beta + 2)
    False
    """
    found: dict[str, str] = {}
    if isinstance(function, FunctionType):
        _function(function, found, {id(function)}, own=True)
    else:
        _callable(function, found, set())
    return dict(sorted(found.items()))


def of_command(command: str) -> Fingerprint:
    """The files that a command line names: scripts with what they import, anything else as it is."""
    found: dict[str, str] = {}
    with suppress(ValueError):  # a line that only a shell understands
        for word in shlex.split(command):
            path = Path(word)
            if "{" not in word and path.suffix and path.is_file():
                found |= of_file(path) if path.suffix == ".py" else {path.name: _of_bytes(path)}
    return found


def changed(before: Fingerprint, after: Fingerprint) -> list[str]:
    """The names whose code is not the same.

    >>> changed({"train.py": "a", "data.py": "b"}, {"train.py": "c", "data.py": "b"})
    ['train.py']
    """
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _of_source(path: Path) -> str:
    source = path.read_text(encoding="utf-8")
    with suppress(SyntaxError, ValueError):
        return _hash(ast.unparse(_Bare().visit(ast.parse(source))))
    return _hash(source)


def _of_bytes(path: Path) -> str:
    size = path.stat().st_size
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if size <= _LARGEST else f"{size} bytes"


class _Bare(ast.NodeTransformer):
    """Takes docstrings out: they are words."""

    def _visit(self, node: Any) -> Any:
        self.generic_visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _visit


def _with_imports(file: Path) -> list[Path]:
    """The file and every module of the user's own that it leads to, each once."""
    found, waiting = {file: None}, [file]
    while waiting:
        for path in _imported(waiting.pop()):
            if path not in found:
                found[path] = None
                waiting.append(path)
    return list(found)


def _imported(file: Path) -> Iterator[Path]:
    with suppress(SyntaxError, ValueError, OSError):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                dots = "../" * max(node.level - 1, 0)
                stem = dots + (node.module or "").replace(".", "/")
                names = [stem, *(f"{stem}/{alias.name}" for alias in node.names)]
            for name in names:
                yield from _beside(file.parent, name.replace(".", "/") if not name.startswith("..") else name)


def _beside(folder: Path, name: str) -> Iterator[Path]:
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if name and path.is_file():
            yield path.resolve()


def _callable(function: Any, found: dict[str, str], seen: set[int]) -> None:
    """Add what a callable is made of; `seen` keeps it from going round."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, ModuleType):
        if (file := _own_file(function)) is not None:
            found |= of_file(file)
    elif isinstance(function, type):
        _class(function, found, seen)
    elif isinstance(function, FunctionType):
        _function(function, found, seen)
    elif callable(function) and not isinstance(function, type(len)):
        inner = getattr(function, "func", None) or vars(type(function)).get("__call__")
        found[type(function).__qualname__] = _hash(_plain(getattr(function, "__dict__", None)))
        for part in (inner, *(getattr(function, "args", ()) or ())):
            _callable(part, found, seen)


def _class(made: type, found: dict[str, str], seen: set[int]) -> None:
    if (file := _own_file(sys.modules.get(made.__module__))) is not None:
        found[f"{made.__qualname__} ({file.name})"] = _of_source(file)
    elif made.__module__ == "__main__":
        for value in vars(made).values():
            _callable(getattr(value, "__func__", value), found, seen)


def _function(function: FunctionType, found: dict[str, str], seen: set[int], own: bool = False) -> None:
    """Add a function that is the user's own; an installed one's version is in the record."""
    if not (own or function.__module__ == "__main__" or _own_file(sys.modules.get(function.__module__))):
        return
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    values = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    held = [function.__defaults__, function.__kwdefaults__, cells, {name: _plain(one) for name, one in values.items()}]
    found[function.__qualname__] = _hash(f"{_code(function.__code__, function.__doc__)}{_plain(held)}")
    for value in (*values.values(), *cells):
        if callable(value) or isinstance(value, ModuleType):
            _callable(value, found, seen)


def _own_file(module: ModuleType | None) -> Path | None:
    """The file of a module that is the user's own and neither installed nor the script that runs."""
    file = getattr(module, "__file__", None)
    if module is None or not file or not file.endswith(".py") or module.__name__ in ("__main__", "oneclock"):
        return None
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    path = Path(file).resolve()
    ours = str(Path(__file__).resolve().parents[1])
    return None if any(path.is_relative_to(one) for one in [*installed, ours]) else path


def _code(code: CodeType, docstring: str | None = None) -> str:
    """A code object as text: instructions, names, constants but the docstring, and what is nested in it."""
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    if constants and docstring is not None and code.co_consts[0] == docstring:
        constants[0] = ""
    return _hash(f"{code.co_code.hex()}{code.co_names}{code.co_varnames}{constants}")


def _names(code: CodeType) -> set[str]:
    nested = (one for one in code.co_consts if isinstance(one, CodeType))
    return {*code.co_names}.union(*map(_names, nested))


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _plain(value: Any) -> str:
    """Plain data as text; of anything else its type, for its address would change with every start."""
    try:
        return json.dumps(value, sort_keys=True, default=lambda one: f"<{type(one).__qualname__}>")
    except (TypeError, ValueError):
        return f"<{type(value).__qualname__}>"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
