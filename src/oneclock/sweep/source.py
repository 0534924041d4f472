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
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

_PLACES = [*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), str(Path(__file__).parents[1])]
_INSTALLED = [Path(one).resolve() for one in _PLACES]


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
    """The function's parameters, read from its text; a default is `...`, and an annotation is its text.

    None if the text does not show them: decorated, imported, or defined twice.

    >>> str(signature(f"{__file__}:check_reference"))
    "(reference: 'str')"
    """
    file, function = source_of(reference) if ":" in reference else None, reference.rpartition(":")[2]
    if file is None or not file.is_file():
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bound = [node for node in ast.walk(tree) if function in _bound(node)]
    node = bound[0] if len(bound) == 1 else None
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or node not in tree.body:
        return None
    dots, scope = ast.Constant(...), dict[str, Any]()
    node.body, node.returns = [ast.Pass()], None
    node.args.defaults = [dots for _ in node.args.defaults]
    node.args.kw_defaults = [one and dots for one in node.args.kw_defaults]
    bare = ast.fix_missing_locations(ast.Module([node], []))
    exec(compile(bare, str(file), "exec", annotations.compiler_flag), scope)  # nothing of the user's code runs
    return inspect.signature(scope[function])


def _bound(node: ast.AST) -> tuple[str | None, ...]:
    """The names that a piece of code assigns."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias(name=name, asname=asname):
            return (asname or name,)
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return (name,)
    return ()


def load_function(reference: str) -> Callable[..., Any]:
    """The function, its module imported; a file is imported like a script: its folder comes first on the path."""
    location, _, function = reference.rpartition(":")
    if not location.endswith(".py"):
        return getattr(importlib.import_module(location), function)
    file = Path(location)
    sys.path.insert(0, str(file.resolve().parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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


def installed_imports(source: Path) -> list[str]:
    """What a file imports from installed packages at its top, in its order; code of the user's own is left out.

    A name that comes from a module is part of it, as `module:name`: packages such as transformers load what a name
    stands for only when it is imported, and that takes a second or more.

    >>> installed_imports(Path(__file__))[:2]
    ['__future__:annotations', 'ast']
    """
    names: list[str] = []
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        match node:
            case ast.Import(names=aliases):
                names += [alias.name for alias in aliases]
            case ast.ImportFrom(module=module, names=aliases, level=0):
                names += [f"{module}:{alias.name}" for alias in aliases]
    beside = [import_root(source.resolve()), Path.cwd()]
    found = [name for name in names if not modules_named([name.partition(":")[0]], beside)]
    if any(name.partition(":")[0] == "torch" for name in found):
        found.append("torch._dynamo")  # the first step of an optimizer imports it, which takes a second
    return list(dict.fromkeys(found))


def own_files(file: Path, search: Sequence[str | Path] = ()) -> list[Path]:
    """The file and every file of the user's own that it imports, directly or not.

    Absolute imports are looked up in `search` before `sys.path`.

    >>> own_files(Path(__file__))[0].name
    'source.py'
    """
    file = file.resolve()
    paths = [str(import_root(file)), *map(str, search), *sys.path]
    files, waiting = {file: None}, [file]
    while waiting:
        for path in _imports_of(waiting.pop(), paths):
            if path not in files:
                files[path] = None
                waiting.append(path)
    return [*files]


def by_name(files: Iterable[Path], first: Path | None = None) -> dict[str, Path]:
    """Files by their path below `first` if they are in it, else below the folder from which they are imported.

    If two files would share a name, the folder's name is put before it.
    """
    named: dict[str, Path] = {}
    for path in dict.fromkeys(files):
        root = first if first and path.is_relative_to(first) else import_root(path)
        name = path.relative_to(root).as_posix()
        while name in named:
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


def _imports_of(file: Path, paths: list[str]) -> Iterator[Path]:
    """The user's own files that a file imports; what it adds to `sys.path` is added to `paths`."""
    with suppress(SyntaxError, ValueError, OSError):
        nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
        paths += [one for node in nodes for one in _added_to_path(file, node) if one not in paths]
        for name, level in (imported for node in nodes for imported in _imported_names(node)):
            if level < len(file.parts):
                yield from _files_of(name, paths, file.parents[level - 1] if level else None)


def _added_to_path(file: Path, node: ast.AST) -> list[str]:
    """Where a call that changes `sys.path` may find more: folders that it names, below the file or a parent of it."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="path"))):
            texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
            names = [*(one for one in texts if isinstance(one, str)), ""]
            bases = [Path.cwd(), *list(file.parents)[:4]]
            return [str(base / name) for name in names for base in bases if (base / name).is_dir()]
    return []


def _imported_names(node: ast.AST) -> list[tuple[str, int]]:
    """(module, dots before it) that a piece of code imports; a name imported from a module may be a module too."""
    match node:
        case ast.Import(names=aliases):
            return [(alias.name, 0) for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases, level=level):
            stem = f"{module}." if module else ""
            return [(module or "", level), *((stem + alias.name, level) for alias in aliases)]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module" | "__import__"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [(name.lstrip("."), len(name) - len(name.lstrip(".")))]
    return []


def _files_of(name: str, paths: Sequence[str], folder: Path | None = None) -> Iterator[Path]:
    """The user's own files that the import of a dotted name loads; a relative import looks in `folder` alone."""
    if folder is not None:
        paths = [str(folder)]
        if (package := folder / "__init__.py").is_file():
            yield package.resolve()
    top = folder is None
    for part in name.split(".") if name else []:
        spec, top = _spec(part, paths, top), False
        if spec is None:
            return
        if spec.origin and spec.origin.endswith(".py"):
            path = Path(spec.origin).resolve()
            if not is_own(path):
                return
            yield path
        paths = [*(spec.submodule_search_locations or ())]


def _spec(name: str, paths: Sequence[str], top: bool) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):
        if top and name in sys.stdlib_module_names:
            return PathFinder.find_spec(name, paths[:1])  # a file beside a script comes before the standard library
        # `find_spec` also calls the hooks of editable installs.
        return PathFinder.find_spec(name, paths) or (importlib.util.find_spec(name) if top else None)
    return None


def is_own(path: Path) -> bool:
    """Whether a file is the user's own: not part of Python, an installed package, or oneclock.

    >>> is_own(Path(ast.__file__)), is_own(Path("train.py"))
    (False, True)
    """
    path = path.resolve()
    if {"site-packages", "dist-packages"} & {*path.parts} or any(path.is_relative_to(one) for one in _INSTALLED):
        return False
    return not _holds_distributions(import_root(path))  # as in `pip install --target` and in a cluster's modules


@cache
def _holds_distributions(root: Path) -> bool:
    with suppress(OSError):
        return any(entry.suffix == ".dist-info" for entry in root.iterdir())
    return False
