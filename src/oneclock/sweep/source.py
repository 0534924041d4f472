"""Finds, checks and loads the user's Python code. As much as possible is read from its text, without running it.

`own_files` follows imports as Python would: absolute ones along the search path, relative ones inside their package.
Only the user's own files count; the standard library and installed packages do not, wherever they are installed.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


def check_reference(reference: str) -> None:
    """ValueError if `file.py:function` or `module:function` clearly does not exist: better now than in every run."""
    location, _, function = reference.rpartition(":")
    try:
        source = source_of(reference)
    except (ImportError, ValueError) as error:
        raise ValueError(f"there is no module {location!r}: {error}") from None
    if source is None or not source.is_file():
        hint = "the target reads file.py:function, module:function or an experiment's name"
        raise ValueError(f"{location} does not exist; {hint}")
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ValueError(f"{source} does not parse: {error}") from None
    names = {getattr(node, key, None) for node in ast.walk(tree) for key in ("name", "asname", "id")}
    if function not in names and "*" not in names:
        raise ValueError(f"{source} defines no {function!r}; the target reads {location}:FUNCTION")


def signature(reference: str) -> inspect.Signature | None:
    """The function's parameters, read from its text.

    None if the text does not show them: decorated, imported, or defined twice.

    A default is `...`; an annotation is its text.

    >>> str(signature(f"{__file__}:check_reference"))
    "(reference: 'str')"
    """
    file, function = source_of(reference) if ":" in reference else None, reference.rpartition(":")[2]
    if file is None or not file.is_file():
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bound = [node for node in ast.walk(tree) if function in _bound(node)]
    if len(bound) != 1 or bound[0] not in tree.body:
        return None
    (node,) = bound
    return _signature(node.args) if isinstance(node, ast.FunctionDef) and not node.decorator_list else None


def _bound(node: ast.AST) -> tuple[str | None, ...]:
    """The names that a piece of code assigns."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.alias):
        return (node.asname or node.name,)
    return (node.id,) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else ()


def _signature(arguments: ast.arguments) -> inspect.Signature:
    kinds = inspect.Parameter
    plain = [*arguments.posonlyargs, *arguments.args]
    needed = len(plain) - len(arguments.defaults)

    def parameter(one: ast.arg, kind: Any, has_default: bool = False) -> inspect.Parameter:
        annotation = kinds.empty if one.annotation is None else ast.unparse(one.annotation)
        return kinds(one.arg, kind, default=... if has_default else kinds.empty, annotation=annotation)

    parameters = [
        parameter(
            one, kinds.POSITIONAL_ONLY if i < len(arguments.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD, i >= needed
        )
        for i, one in enumerate(plain)
    ]
    parameters += [parameter(arguments.vararg, kinds.VAR_POSITIONAL)] if arguments.vararg else []
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(parameter(one, kinds.KEYWORD_ONLY, default is not None))
    parameters += [parameter(arguments.kwarg, kinds.VAR_KEYWORD)] if arguments.kwarg else []
    return inspect.Signature(parameters)


def load_function(reference: str) -> Callable[..., Any]:
    """The function, its module imported."""
    location, _, function = reference.rpartition(":")
    module = _module_of(Path(location)) if location.endswith(".py") else importlib.import_module(location)
    return getattr(module, function)


def source_of(reference: str) -> Path | None:
    """The file that defines the function, or None if it is not Python."""
    location, _, _ = reference.rpartition(":")
    if location.endswith(".py"):
        return Path(location)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    spec = importlib.util.find_spec(location)
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _module_of(file: Path) -> ModuleType:
    """The module in a file, imported like a script: its folder comes first on the path."""
    sys.path.insert(0, str(file.resolve().parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def installed_imports(source: Path) -> list[str]:
    """What a file imports from installed packages at its top, in its order; code of the user's own is left out.

    A name that comes from a module is part of it, as `module:name`: packages such as transformers load what a name
    stands for only when it is imported, and that takes a second or more.

    >>> installed_imports(Path(__file__))[:2]
    ['__future__:annotations', 'ast']
    """
    nodes = ast.parse(source.read_text(encoding="utf-8")).body
    found = [name for node in nodes for name in _top_imports(node) if _is_installed(name.partition(":")[0])]
    if any(name.partition(":")[0] == "torch" for name in found):
        found.append("torch._dynamo")  # the first step of an optimizer imports it, which takes a second
    return list(dict.fromkeys(found))


def _top_imports(node: ast.AST) -> list[str]:
    """The absolute imports of a statement: `module`, or `module:name` for each name that is taken from one.

    >>> _top_imports(ast.parse("from torch.utils import data, model_zoo").body[0])
    ['torch.utils:data', 'torch.utils:model_zoo']
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}:{alias.name}" for alias in node.names]
    return []


def _is_installed(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "oneclock":
        return True
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        return spec is not None and spec.origin is not None and not is_own(Path(spec.origin))
    return False


def own_files(file: Path, search: Sequence[str | Path] = ()) -> dict[str, Path]:
    """The file and every file of the user's own that it imports, directly or not, by path below its import root.

    Absolute imports are looked up in `search` before `sys.path`.

    >>> list(own_files(Path(__file__)))[0]
    'oneclock/sweep/source.py'
    """
    file = file.resolve()
    root = import_root(file)
    paths = [str(root), *map(str, search), *sys.path]
    files, waiting = {file: None}, [file]
    while waiting:
        importing = waiting.pop()
        paths += [one for one in _added_to_path(importing) if one not in paths]
        for path in _imports_of(importing, paths):
            if path not in files:
                files[path] = None
                waiting.append(path)
    return by_name(files, root)


def by_name(files: Iterable[Path], first: Path | None = None) -> dict[str, Path]:
    """Files by their path below the folder from which they are imported.

    That is `first` if they are in it, else one of `sys.path`. If two files would share a name, the folder's name is put
    before it.
    """
    named: dict[str, Path] = {}
    entries = [Path(entry or os.getcwd()).resolve() for entry in sys.path]
    for path in files:
        roots = [first] if first is not None and path.is_relative_to(first) else []
        roots += sorted((one for one in entries if path.is_relative_to(one)), key=lambda one: -len(one.parts))
        root = [*roots, import_root(path)][0]
        name = path.relative_to(root).as_posix()
        while named.get(name, path) != path:
            name, root = f"{root.name or 'root'}/{name}", root.parent
        named[name] = path
    return named


def modules_named(names: Sequence[str], search: Sequence[str | Path] = ()) -> list[Path]:
    """The user's own files that importing modules of these names would load, the files of their packages included."""
    paths = [*map(str, search), *sys.path]
    return [path for name in names for path in _files_of(name, paths)]


def import_root(file: Path) -> Path:
    """The folder from which a file is imported: the first parent folder that is not a package."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _imports_of(file: Path, paths: Sequence[str]) -> Iterator[Path]:
    with suppress(SyntaxError, ValueError, OSError):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for name, level in _imported_names(node):
                if not level:
                    yield from _files_of(name, paths)
                elif level <= len(file.parts) - 1:
                    yield from _files_of(name, [str(file.parents[level - 1])], relative=True)


def _added_to_path(file: Path) -> Iterator[str]:
    """Where a file that changes `sys.path` may find more: folders that it names, below it or one of those above it."""
    with suppress(SyntaxError, ValueError, OSError):
        text = file.read_text(encoding="utf-8")
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)] if "sys.path" in text else []
        calls = [call for call in calls if ast.unparse(call.func).startswith("sys.path.")]
        named = [one.value for call in calls for one in ast.walk(call) if isinstance(one, ast.Constant)]
        names = [one for one in named if isinstance(one, str)]
        bases = [Path.cwd(), *list(file.parents)[:4]] if calls else []
        yield from (str(base / name) for name in [*names, ""] for base in bases if (base / name).is_dir())


def _imported_names(node: ast.AST) -> list[tuple[str, int]]:
    """(module, dots before it) that a piece of code imports; a name imported from a module may be a module too."""
    if isinstance(node, ast.Import):
        return [(alias.name, 0) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        stem = f"{node.module}." if node.module else ""
        return [(node.module or "", node.level), *((stem + alias.name, node.level) for alias in node.names)]
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
        named = [one.value for one in node.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return [(one.lstrip("."), len(one) - len(one.lstrip("."))) for one in named]
    return []


def _files_of(name: str, paths: Sequence[str], relative: bool = False) -> Iterator[Path]:
    """The user's own files that the import of a dotted name loads; none where it is installed or not found."""
    if relative and (package := Path(paths[0]) / "__init__.py").is_file():
        yield package.resolve()
    for depth, part in enumerate(name.split(".") if name else []):
        spec = _spec(part, paths, top=depth == 0 and not relative)
        if spec is None:
            return
        if spec.origin and spec.origin.endswith(".py"):
            path = Path(spec.origin).resolve()
            if not is_own(path):
                return
            yield path
        paths = list(spec.submodule_search_locations or ())


def _spec(name: str, paths: Sequence[str], top: bool) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):
        if top and name in sys.stdlib_module_names:
            return PathFinder.find_spec(name, paths[:1])  # a file beside a script comes before the standard library
        spec = PathFinder.find_spec(name, list(paths))
        return spec or (
            importlib.util.find_spec(name) if top else None
        )  # this also calls the hooks of editable installs
    return None


def is_own(path: Path) -> bool:
    """Whether a file is the user's own: not part of Python, an installed package, or oneclock.

    >>> is_own(Path(ast.__file__)), is_own(Path("train.py"))
    (False, True)
    """
    path = path.resolve()
    if {"site-packages", "dist-packages"} & {*path.parts} or any(path.is_relative_to(one) for one in _installed()):
        return False
    return not _holds_distributions(import_root(path))  # as in `pip install --target` and in a cluster's modules


@cache
def _installed() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE is not None else []
    ours = str(Path(__file__).parents[1])
    return tuple(Path(one).resolve() for one in (*map(sysconfig.get_path, names), *users, ours))


@cache
def _holds_distributions(root: Path) -> bool:
    with suppress(OSError):
        return any(entry.suffix == ".dist-info" for entry in root.iterdir())
    return False
