"""The help of commands where Python was started with -OO (PYTHONOPTIMIZE=2), which removes docstrings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any


def docstring(function: Callable[..., Any]) -> str | None:
    """The docstring of a function, from its source file where Python has removed it; None if there is none.

    >>> def documented():
    ...     '''What it does.'''
    >>> docstring(documented)
    'What it does.'
    """
    if function.__doc__ is not None:
        return inspect.getdoc(function)
    try:
        tree = ast.parse(inspect.getsource(inspect.unwrap(function)))
    except (OSError, SyntaxError, TypeError):
        return None
    definition = tree.body[0]
    return ast.get_docstring(definition) if isinstance(definition, ast.FunctionDef) else None
