"""The user's Python code: found, checked and loaded. Whatever need not run it does not."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any


def check(reference: str) -> None:
    """ValueError where `file.py:function` or `module:function` plainly is not there: better now than in every run."""
    place, _, function = reference.rpartition(":")
    try:
        source = source_of(reference)
    except (ImportError, ValueError) as error:
        raise ValueError(f"there is no module {place!r}: {error}") from None
    if source is None or not source.is_file():
        hint = "the target reads file.py:function, module:function or an experiment's name"
        raise ValueError(f"{place} does not exist; {hint}")
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise ValueError(f"{source} does not parse: {error}") from None
    names = {getattr(node, key, None) for node in ast.walk(tree) for key in ("name", "asname", "id")}
    if function not in names and "*" not in names:
        raise ValueError(f"{source} defines no {function!r}; the target reads {place}:FUNCTION")


def takes_float(reference: str) -> bool:
    """Whether the function's first argument is annotated as a float, and so cannot be a pair; read, not run."""
    file, function = source_of(reference), reference.rpartition(":")[2]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if file is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == function and node.args.args:
            return ast.unparse(node.args.args[0].annotation or ast.Constant(None)) in ("float", "'float'")
    return False


def signature(reference: str) -> inspect.Signature | None:
    """What the function takes; read, not run. None where its file does not tell: decorated, imported, bound twice.

    >>> str(signature(f"{__file__}:check"))
    '(reference)'
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
    """The names that a piece of code gives a value."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.alias):
        return (node.asname or node.name,)
    return (node.id,) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else ()


def _signature(taken: ast.arguments) -> inspect.Signature:
    kinds, none = inspect.Parameter, inspect.Parameter.empty
    first, plain = len(taken.posonlyargs), [*taken.posonlyargs, *taken.args]
    needed = len(plain) - len(taken.defaults)
    found = [
        kinds(
            one.arg,
            kinds.POSITIONAL_ONLY if place < first else kinds.POSITIONAL_OR_KEYWORD,
            default=none if place < needed else ...,
        )
        for place, one in enumerate(plain)
    ]
    found += [kinds(taken.vararg.arg, kinds.VAR_POSITIONAL)] if taken.vararg else []
    for one, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
        found.append(kinds(one.arg, kinds.KEYWORD_ONLY, default=none if default is None else ...))
    found += [kinds(taken.kwarg.arg, kinds.VAR_KEYWORD)] if taken.kwarg else []
    return inspect.Signature(found)


def load(reference: str) -> Callable[..., Any]:
    """The function, its module imported."""
    place, _, function = reference.rpartition(":")
    module = _module_of(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    return getattr(module, function)


def source_of(reference: str) -> Path | None:
    """The file that defines the function, or None where it is not Python."""
    place, _, _ = reference.rpartition(":")
    if place.endswith(".py"):
        return Path(place)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    spec = importlib.util.find_spec(place)
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def installed_imports(source: Path) -> list[str]:
    """The installed packages that a file imports at its top; code of the user's own is left out.

    >>> installed_imports(Path(__file__))[:2]
    ['__future__', 'ast']
    """
    found = {name for name in _imports(source) if _is_installed(name)}
    if "torch" in found:
        found.add("torch._dynamo")  # the first step of an optimizer imports it, and that takes a second
    return sorted(found)


def _imports(source: Path) -> Iterator[str]:
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_installed(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "oneclock":
        return True
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        return spec is not None and spec.origin is not None and "site-packages" in Path(spec.origin).parts
    return False


def _module_of(file: Path) -> ModuleType:
    """The module in a file, imported as a script's would be: its folder comes first on the path."""
    sys.path.insert(0, str(file.resolve().parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
