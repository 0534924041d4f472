"""Where data are: a folder that the user names, or a cache folder; and the message if they are in neither."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

ABSENT = (OSError, ValueError, RuntimeError)
"""What datasets, huggingface_hub and torchvision raise for a source that is not here and cannot be downloaded."""


def data_root(data_dir: Path | None = None) -> Path:
    """The folder of local copies: `data_dir`, else ONECLOCK_DATA, else oneclock's folder in the user's cache.

    >>> data_root(Path("/data"))
    PosixPath('/data')
    """
    named = data_dir or os.environ.get("ONECLOCK_DATA")
    if named:
        root = Path(named).expanduser()
        if root.exists() and not root.is_dir():
            raise ValueError(f"the data folder {root} is a file; give a folder")
        return root
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneclock"


def require(*packages: str, extra: str) -> None:
    """An ImportError with the pip command where one of the packages is missing."""
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    if absent:
        raise ImportError(f"this needs {' and '.join(absent)}: pip install 'oneclock[{extra}]'")


def offline() -> bool:
    """Whether downloads are switched off, by the variable that huggingface_hub reads."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def prepare_hub() -> None:
    """Make Hugging Face's libraries use their cache if the hub's name does not resolve.

    Otherwise they try each request six times, for half a minute and with a line for each, before they use it.
    """
    from datasets import config
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or getproxies():
        return
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443)
    except OSError:
        constants.HF_HUB_OFFLINE = config.HF_HUB_OFFLINE = True


def dataset_loader() -> Callable[..., Any]:
    """datasets' own `load_dataset` without its progress bars and without printing errors that it raises too."""
    import datasets

    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets.load_dataset


def missing(what: str, fetch: str, put: str, error: BaseException | None = None) -> ValueError:
    """The error for a source that is not here and cannot be downloaded: what to fetch, and where to put it."""
    reason = f" ({shortened(error)})" if error else ""
    return ValueError(f"{what} is not here and could not be downloaded{reason}: fetch {fetch} and put it into {put}")


def in_gigabytes(size: float | None) -> str:
    """The size of a download, for people.

    >>> in_gigabytes(24), in_gigabytes(None)
    (' (about 24 GB)', ' (size not known)')
    """
    return " (size not known)" if size is None else f" (about {size:g} GB)"


def shortened(error: BaseException) -> str:
    """The message of another library's error, in one line of readable length.

    >>> shortened(ValueError("two lines\\nof text"))
    'two lines of text'
    """
    return (" ".join(str(error).split()) or type(error).__name__)[:160]
