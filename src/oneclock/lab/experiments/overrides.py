"""Dotted overrides of a spec from the command line, each checked against the type of the field it names."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from oneclock.lab.experiments.checks import check_experiment
from oneclock.lab.experiments.spec import Experiment

Spec = TypeVar("Spec")


def override(spec: Experiment, settings: Iterable[str]) -> Experiment:
    """The experiment with each `name.of.field=value` replaced; a ValueError says what is wrong with a setting.

    Numbers as in Python, `true` and `false`, `none` where a field may be absent, and commas between the values of a
    tuple.

    >>> from oneclock.lab.experiments import find
    >>> override(find("llama60m-c4"), ["optimizer.lr=1e-4", "model.layers=2", "seeds=1,2"]).model.layers
    2
    """
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting reads name=value, got {setting!r}; for example optimizer.lr=1e-4")
        spec = _replaced(spec, spec, key.strip(), key.strip(), text.strip())
    return check_experiment(spec)


def settings_of(spec: Any, prefix: str = "") -> dict[str, Any]:
    """Every setting of a spec by its dotted name, in the order of the fields.

    >>> from oneclock.lab.experiments import find
    >>> settings_of(find("llama60m-c4"))["optimizer.lr"]
    0.001
    """
    settings: dict[str, Any] = {}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if is_dataclass(value):
            settings |= settings_of(value, f"{prefix}{field.name}.")
        else:
            settings[prefix + field.name] = value
    return settings


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """`; did you mean 'x'?` for the closest of `names`, or nothing if none is close.

    >>> did_you_mean("lama60m-c4", ["llama60m-c4", "vitb16-cifar100"])
    "; did you mean 'llama60m-c4'?"
    """
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _replaced(part: Spec, whole: Experiment, path: str, key: str, text: str) -> Spec:
    name, _, rest = path.partition(".")
    values: dict[str, Any] = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
    inside = is_dataclass(values.get(name))
    if name not in values or (rest and not inside):
        raise ValueError(f"{whole.name} has no setting {key!r}" + did_you_mean(key, list(settings_of(whole))))
    if rest:
        value = _replaced(values[name], whole, rest, key, text)
    elif inside and text.lower() != "none":
        members = ", ".join(f"{key}.{field.name}" for field in fields(values[name]))
        raise ValueError(f"{key!r} is a group of settings; give one of {members}")
    else:
        value = _parsed(text, get_type_hints(type(part))[name], key)
    return replace(part, **{name: value})  # type: ignore[type-var]


def _parsed(text: str, kind: Any, key: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if NoneType in arguments and text.lower() == "none":
            return None
        plain = [argument for argument in arguments if argument is not NoneType and not is_dataclass(argument)]
        if not plain:
            raise ValueError(f"{key} cannot be {text!r}: it is a group of settings, absent in this experiment")
        return _parsed(text, plain[0], key)
    if origin is Literal:
        if text not in arguments:
            raise ValueError(f"{key} must be {_either(arguments)}, got {text!r}" + did_you_mean(text, arguments))
        return text
    if origin is tuple:
        return _parsed_tuple(text, arguments, key)
    return _parsed_value(text, kind, key)


def _parsed_tuple(text: str, kinds: tuple[Any, ...], key: str) -> tuple[Any, ...]:
    parts = [part.strip() for part in text.strip("()").rstrip(",").split(",") if part.strip()]
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * (len(parts) or kinds[0] is not str)  # names may be none at all
    if len(parts) != len(kinds):
        raise ValueError(f"{key} needs {len(kinds)} value{'s' * (len(kinds) > 1)} with commas between, got {text!r}")
    return tuple(_parsed(part, kind, key) for part, kind in zip(parts, kinds, strict=True))


def _parsed_value(text: str, kind: Any, key: str) -> Any:
    if kind is str:
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{key} must be true or false, got {text!r}")
        return text.lower() == "true"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{key} must be a {'whole ' * (kind is int)}number, got {text!r}")
    if kind is int and number != int(number):
        raise ValueError(f"{key} must be a whole number, got {text!r}")
    return int(number) if kind is int else number


def _either(choices: Sequence[Any]) -> str:
    return " or ".join(repr(choice) for choice in choices)
