"""A fingerprint of the user's own code, which decides a run's loss but is not in its settings.

Files count by their meaning (without comments, docstrings and layout), with the user's own modules that they import. A
callable counts by its compiled code, the content of the values that it holds or uses, and the modules behind them; a
command by the files and variables that it names. Installed packages do not count: their versions are in the record.
"""

from __future__ import annotations

import ast
import copyreg
import dis
import functools
import hashlib
import os
import re
import shlex
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from oneclock.sweep import source

_OF_THE_PLACE = ("HOME", "PWD", "USER", "HOSTNAME", "TMPDIR", "SLURM_TMPDIR", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES")
_LARGEST = 64 * 2**20  # of a larger file that a command names, only the size is hashed


class Code(NamedTuple):
    """The hashes by name, and time and size of the files behind them, by absolute path."""

    parts: Mapping[str, str]
    stamps: Mapping[str, tuple[int, int]]


class Opaque(ValueError):
    """A value whose content cannot be compared between two calls."""


def of_file(*files: Path) -> Code:
    """Python files and the modules of the user's own that they import, by path below the first one's import root.

    >>> list(of_file(Path(__file__)).parts)
    ['oneclock/sweep/fingerprint.py']
    """
    found = [path for file in files for path in source.own_files(file)]
    return _of_files(source.by_name(found, source.import_root(files[0].resolve())), {})


def of_callable(function: Callable[..., Any]) -> Code:
    """The code and the values behind a callable of this process. ValueError if a value cannot be compared.

    >>> of_callable(lambda beta: beta + 1) == of_callable(lambda beta: beta + 1)
    True
    >>> of_callable(functools.partial(pow, 2)) == of_callable(functools.partial(pow, 3))
    False
    """
    content, name = _Content(), getattr(function, "__qualname__", type(function).__qualname__)
    try:
        parts = {name: content.of(function, name)}
    except Opaque as error:
        raise ValueError(
            f"{error}, so a later call could not tell whether it is the same; make it inside the function, or put the "
            "function into a file and name it: file.py:function"
        ) from None
    return _of_files(source.by_name(content.files), parts)


def of_command(command: str) -> Code:
    """What a command line names: scripts and modules with their imports, other files unchanged, `$VARIABLES`.

    >>> of_command("python -m json.tool {beta}").parts
    {}
    """
    files: dict[Path, None] = {}
    _add_named_files(command, Path(), files)
    scripts = source.by_name(path for path in files if path.suffix == ".py")
    plain = {path.as_posix(): path for path in files if path.suffix != ".py"}
    values = {f"${name}": _hash(os.environ.get(name, "")) for name in _variables(command)}
    return _of_files(scripts | plain, values)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The names whose code differs.

    >>> changed({"train.py": "a", "data.py": "b"}, {"train.py": "c", "data.py": "b"})
    ['train.py']
    """
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def is_untouched(stamps: Mapping[str, tuple[int, int]]) -> bool:
    """Whether every file still has the time and size from when it was hashed."""
    with suppress(OSError):
        return all(_stamp(Path(path)) == tuple(stamp) for path, stamp in stamps.items())
    return False


def _of_files(files: Mapping[str, Path], more: Mapping[str, str]) -> Code:
    parts = {name: _of_source(path) for name, path in files.items()}
    return Code(
        dict(sorted({**parts, **more}.items())), {str(path.absolute()): _stamp(path) for path in files.values()}
    )


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _add_named_files(command: str, folder: Path, files: dict[Path, None]) -> None:
    """Add the files that a command line names, relative to `folder`; the lines of a shell script are read too."""
    search: list[Path] = []
    for before, word in pairwise(["", *_words(command)]):
        name, _, value = word.rpartition("=")
        path = folder / value.removeprefix("@")
        if before == "cd":
            folder = folder / word
        elif before == "-c" and " " in word:  # a line for another shell
            _add_named_files(word, folder, files)
        elif before in ("-m", "--module"):
            here = [folder.resolve(), *search]  # the import system keeps what it knows of "." after a change of folder
            for module in source.modules_named([word, f"{word}.__main__"], here):
                files |= dict.fromkeys(source.own_files(module, here))
        elif name == "PYTHONPATH":
            search = [folder / one for one in value.split(os.pathsep) if one and "$" not in one]
        elif "{" in word or not value or path in files or not _is_code(path):
            continue
        elif path.suffix == ".py":
            files |= dict.fromkeys(source.own_files(path, search))
        else:
            files[path] = None
            if path.suffix in (".sh", ".bash", ""):
                text = path.read_text(encoding="utf-8", errors="replace")
                _add_named_files(text.replace("\\\n", " "), folder, files)


def _words(command: str) -> Iterator[str]:
    """The words of a command, or of a script's lines; of a line that only a shell understands, those between spaces.

    >>> list(_words("cd a; python 'b c.py'|tee d"))
    ['cd', 'a', ';', 'python', 'b c.py', '|', 'tee', 'd']
    """
    for line in command.splitlines():
        reader = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        reader.whitespace_split = True
        try:
            yield from list(reader)
        except ValueError:
            yield from line.split()


def _variables(command: str) -> set[str]:
    """The environment variables whose values a command line takes, without those of the place where it runs.

    >>> sorted(_variables("for i in 1 2; do python $HOME/a.py --width ${WIDTH} $i; done"))
    ['WIDTH']
    """
    own = re.findall(r"\b(\w+)=|\b(?:for|read) +(\w+)", command)
    return {*re.findall(r"\$\{?([A-Za-z_]\w*)", command)} - {*_OF_THE_PLACE, *(name for names in own for name in names)}


def _is_code(path: Path) -> bool:
    """Whether a file has a suffix, or says which program reads it; what an environment installed does not count."""
    with suppress(OSError):
        if path.suffix or not path.is_file():
            return path.is_file()
        with path.open("rb") as file:
            return file.read(2) == b"#!" and not (path.parent.parent / "pyvenv.cfg").exists()
    return False


def _of_source(path: Path) -> str:
    """The hash of a file: of Python by its meaning, of others by their bytes, of a very large one by its size."""
    if path.suffix != ".py":
        size = path.stat().st_size
        return _hash(path.read_bytes()) if size <= _LARGEST else f"{size} bytes"
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    with suppress(SyntaxError, ValueError):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]  # a docstring changes no loss
        return _hash(ast.unparse(tree))
    return _hash(text)


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class _Content:
    """Hashes values by their content, so that equal values have one hash in every process.

    `files` are the user's own modules behind the values that were met.
    """

    def __init__(self) -> None:
        self.files: dict[Path, None] = {}
        self._known: dict[int, tuple[Any, str]] = {}  # keeps the value alive, so that its id stays unique
        self._open: list[int] = []

    def of(self, value: Any, where: str) -> str:
        """The hash of a value; `where` says for people where it was met. `Opaque` where it has none."""
        if type(value) in _PLAIN:
            return _hash(f"{type(value).__name__} {value!r}")
        if id(value) in self._open:  # a value that contains itself
            return f"<{self._open[::-1].index(id(value))}>"
        if id(value) not in self._known:
            self._open.append(id(value))
            try:
                self._known[id(value)] = value, _hash(self._text(value, where))
            finally:
                self._open.pop()
        return self._known[id(value)][1]

    def _text(self, value: Any, where: str) -> str | bytes:
        if value is os.environ:
            return "environment"
        if type(value) in (list, tuple):
            return self._all(type(value).__qualname__, value, where)
        if type(value) in (dict, MappingProxyType):
            pairs = [(self.of(key, where), self.of(one, f"{where}[{key!r}]")) for key, one in value.items()]
            return f"mapping  {sorted(pairs)}"
        if isinstance(value, ModuleType):
            self._is_own(value.__name__)
            return f"module {value.__name__}"
        if isinstance(value, CodeType):
            return self._code(value, where)
        if isinstance(value, type):
            return self._class(value, where)
        if isinstance(value, FunctionType):
            return self._function(value, where)
        package, kind = type(value).__module__.partition(".")[0], type(value).__name__
        if package == "torch" and (kind == "Generator" or hasattr(value, "untyped_storage")):
            return self._tensor(value.get_state() if kind == "Generator" else value, where)
        inside = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
        if inside is not None and package in ("functools", "numba"):  # a cache; numba's pickle has a new name each time
            return self._all("wrapped", [inside, getattr(value, "targetoptions", None)], where)
        if isinstance(value, staticmethod | classmethod | property | functools.cached_property):
            inner = [getattr(value, name, None) for name in ("__func__", "fget", "fset", "fdel", "func")]
            return self._all("member", inner, where)
        if kind in ("member_descriptor", "getset_descriptor", "wrapper_descriptor"):
            return kind
        return self._reduced(value, where)

    def _all(self, kind: str, values: Any, where: str) -> str:
        return f"{kind} {[self.of(value, where) for value in values]}"

    def _tensor(self, value: Any, where: str) -> bytes:
        import torch

        if value.is_meta or value.layout != torch.strided:
            raise Opaque(f"{where} is a {value.layout} tensor on {value.device}, whose content is not compared")
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return f"tensor {value.dtype} {tuple(value.shape)} ".encode() + flat.numpy().tobytes()

    def _is_own(self, module_name: str) -> bool:
        """Whether a module is the user's own, so that its file counts. The running script itself does not."""
        if module_name == "__main__":
            return True
        file = getattr(sys.modules.get(module_name), "__file__", None)
        if not file or not file.endswith(".py") or not source.is_own(Path(file)):
            return False
        if (path := Path(file).resolve()) not in self.files:
            self.files |= dict.fromkeys(source.own_files(path))
        return True

    def _class(self, made: type, where: str) -> str:
        named = f"class {made.__module__}.{made.__qualname__}"
        if not self._is_own(made.__module__) and _is_importable(made):
            return named
        held = {name: value for name, value in vars(made).items() if name not in _NOT_CONTENT}
        members = [f"{name} {self._or_file(held[name], f'{named}.{name}', made.__module__)}" for name in sorted(held)]
        return f"{named} {self._all('bases', (*made.__bases__, type(made)), where)} {members}"

    def _function(self, function: FunctionType, where: str) -> str:
        named, module = f"function {function.__module__}.{function.__qualname__}", function.__module__
        defaults = {"": function.__defaults__, "*": function.__kwdefaults__}
        if len(self._open) > 1 and not self._is_own(module):  # the target itself counts wherever it is
            if _is_importable(function):
                return named
            made_with = self._all("made with", [*defaults.values(), *_cells(function)], where)
            return f"{named} {self._code(function.__code__, where)} {made_with}"
        uses, imports = _uses(function.__code__)
        self.files |= dict.fromkeys(source.modules_named(imports))
        held = {name: function.__globals__[name] for name in sorted(uses & function.__globals__.keys())}
        held |= defaults | {f"{name}'": content for name, content in _cells(function)} | vars(function)
        wrapped = held.pop("__wrapped__", None)
        values = [f"{name} {self._or_file(one, name.strip(_MARKS) or where, module)}" for name, one in held.items()]
        last = "" if wrapped is None else self.of(wrapped, where)
        return f"{named} {self._code(function.__code__, where)} {values} {last}"

    def _or_file(self, value: Any, where: str, module: str) -> str:
        """The content of a value that a function or class uses, or if it has none, the file that makes it."""
        try:
            return self.of(value, where)
        except Opaque:
            if module == "__main__" or not getattr(sys.modules.get(module), "__file__", None):
                raise
            return "made in its module"

    def _code(self, code: CodeType, where: str) -> str:
        """Compiled code by its instructions: names and constants count, a docstring and line numbers do not."""
        steps = [(one.opname, self.of(one.argval, where)) for one in dis.get_instructions(code)]
        takes = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 0xC
        table = getattr(code, "co_exceptiontable", b"").hex()
        return _hash(f"code {takes} {code.co_varnames} {steps} {table}")

    def _reduced(self, value: Any, where: str) -> str:
        """Any other object, by what pickle would store: how it is made, and its state."""
        try:
            reducer = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
        except Exception:
            raise Opaque(f"{where} holds a {type(value).__qualname__}, whose content cannot be read") from None
        if isinstance(reduced, str):
            return f"named {getattr(value, '__module__', type(value).__module__)}.{reduced}"
        function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(value, set | frozenset):  # a subclass: its items are an argument, in any order
            arguments = sorted(self.of(item, where) for item in value)
        paired = list(pairs or ()) if isinstance(value, OrderedDict) else dict(pairs or ())
        inside = [function, type(value), arguments, state, list(items or ()), paired]
        return self._all("object", inside, f"{where} ({type(value).__qualname__})")


_MARKS = "'*"  # which set a closed-over name and the keyword defaults apart from globals
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice, type(Path()))
_NOT_CONTENT = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__"),
    *("__static_attributes__", "__match_args__", "__dataclass_params__", "__dataclass_fields__"),
    *("__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__annotate_func__", "__annotate__"),
}


def _is_importable(value: Any) -> bool:
    """Whether a function or a class is what its module has under its name, and was not made by a call."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _uses(code: CodeType) -> tuple[set[str], list[str]]:
    """The globals that compiled code uses, nested code included, and the modules that it imports when it runs."""
    names, modules = set[str](), list[str]()
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(one.argval)
        elif one.opname == "IMPORT_NAME":
            modules.append(one.argval)
            package = one.argval
        elif one.opname == "IMPORT_FROM":  # which may be a module too
            modules.append(f"{package}.{one.argval}")
        elif isinstance(one.argval, CodeType):
            inner_names, inner_modules = _uses(one.argval)
            names |= inner_names
            modules += inner_modules
    return names, modules


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # a name that has no value yet
            yield name, cell.cell_contents


def _hash(data: str | bytes) -> str:
    return hashlib.sha256(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data).hexdigest()[:16]
