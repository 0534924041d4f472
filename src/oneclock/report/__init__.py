"""Tables, figures and the page: they draw values, and compute none."""

from importlib.util import find_spec


def check_installed() -> None:
    """ImportError with the install command if a drawing package is missing."""
    if missing := [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]:
        raise ImportError(f"a report needs {' and '.join(missing)}: pip install 'oneclock[report]'")
