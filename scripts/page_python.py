"""Python for the calculator's page, which reads a log in the browser with oneclock's own code.

The interpreter is Pyodide, from npm, kept in `.cache` and never committed: `python scripts/page_python.py` fetches it.
Without it the site is built all the same, and its page says what is left out.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = "314.0.7"
ARCHIVE = ROOT / ".cache" / f"pyodide-{VERSION}.tgz"
"""Where npm puts it."""

READS = (
    "*.py",
    "evidence/*.py",
    "evidence/data/ranges.csv",
    "advise/*.py",
    "horizon/*.py",
    "logs/**/*.py",
    "runs/*.py",
)
"""The part of the package that `advise` imports; it needs nothing but Python's own library."""


def script() -> str:
    """`python.js`: Pyodide's loader, and packed what it loads, so that a page opened from disk needs no server."""
    with tarfile.open(ARCHIVE) as archive:
        inside = {Path(one.name).name: archive.extractfile(one) for one in archive.getmembers() if one.isfile()}
        loader, lock, module, wasm, library = (
            inside[name].read()
            for name in ("pyodide.js", "pyodide-lock.json", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
        )
    packed = {"module": module, "wasm": wasm, "library": library, "package": package()}
    parts = {name: base64.b64encode(gzip.compress(data, mtime=0)).decode() for name, data in packed.items()}
    parts["lock"] = json.dumps({**json.loads(lock), "packages": {}})
    text = loader.decode().replace("//# sourceMappingURL=pyodide.js.map", "")
    return f"{text}\nconst ONECLOCK_PYTHON = {json.dumps(parts)};\n"


def package() -> bytes:
    """What reads logs, as a zip."""
    source, held = ROOT / "src" / "oneclock", io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for path in sorted({path for pattern in READS for path in source.glob(pattern)}):
            file.writestr(zipfile.ZipInfo(f"oneclock/{path.relative_to(source).as_posix()}"), path.read_bytes())
    return held.getvalue()


def main() -> None:
    """Fetch Pyodide where it is not there; a line, and no error, where npm cannot."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    fetch = ["npm", "pack", f"pyodide@{VERSION}", "--silent", "--fetch-retries=1", "--pack-destination", ARCHIVE.parent]
    try:
        if not ARCHIVE.exists():
            subprocess.run(fetch, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        print(f"the site's page will not read logs: npm did not bring Pyodide ({said[-1] if said else error})")
    else:
        print(f"Pyodide {VERSION}: {ARCHIVE.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
