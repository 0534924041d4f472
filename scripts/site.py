"""The documentation's pages that mkdocs does not make: the reports of the committed studies, as studies/NAME.html."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

STUDIES = Path(__file__).parents[1] / "studies"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A hook of mkdocs."""
    for page in sorted(STUDIES.glob("*/report/report.html")):
        name = page.parents[1].name
        files.append(File.generated(config, f"studies/{name}.html", abs_src_path=str(page)))
    return files
