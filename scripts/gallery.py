"""The pictures of the docs and the reports of the committed studies, all from committed data.

python scripts/gallery.py                     figures alone, with matplotlib
python scripts/gallery.py --page CHROMIUM     and pictures of the page, with that browser
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from oneclock.lab.paper.published import losses_study
from oneclock.lab.paper.subject import published
from oneclock.lab.protocol import analyse_protocol
from oneclock.lab.protocol.figures import paper_figures
from oneclock.report import folder, plot
from oneclock.report.folder import Subject, subject_of
from oneclock.report.sweeps import curve_figures

ROOT = Path(__file__).parents[1]
DOCS, STUDIES = ROOT / "docs", ROOT / "studies"
IMAGES = DOCS / "images"
QUIET = ("gpu", "quic", "background-networking", "component-update", "sync")


def draw(subject: Subject, prefix: str) -> None:
    """The figures of a subject that some page shows, as prefix-NAME.svg."""
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    for figure in (*folder.figures_of(subject.analysis), *curve_figures(subject.study, subject.analysis)):
        if f"images/{prefix}-{figure.name}.svg" in pages:
            (path,) = plot.save_figure(figure, IMAGES, ("svg",))
            path.replace(IMAGES / f"{prefix}-{figure.name}.svg")


def photograph(subject: Subject, chromium: str) -> None:
    """The first screen of the page on a desk, and on a phone in the dark."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as out, sync_playwright() as playwright:
        page = folder.write_subject(subject, Path(out), "oneclock report demo --out report", formats=())
        arguments = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in QUIET)]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        _picture(browser, page, "report-page.png", {"width": 1080, "height": 640}, "light")
        _picture(browser, page, "report-phone.png", {"width": 390, "height": 844}, "dark")
        browser.close()


def _picture(browser: Any, page: Path, name: str, size: dict[str, int], scheme: str) -> None:
    """The beginning of the page on a screen of this size."""
    context = browser.new_context(offline=True, viewport=size, color_scheme=scheme)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_selector("#summary svg[role=img]")
    opened.screenshot(path=IMAGES / name)
    context.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", metavar="CHROMIUM")
    options = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    digits = subject_of(DOCS / "data" / "digits.csv")
    draw(published(), "paper")
    losses = losses_study()
    for figure in paper_figures(losses, analyse_protocol(losses)):
        plot.save_figure(figure, IMAGES, ("svg",))
    draw(digits, "digits")
    for study in (header.parent for header in STUDIES.glob("*/study.json") if (header.parent / "report").is_dir()):
        subject = subject_of(study)
        draw(subject, study.name)
        command = f"oneclock lab study {study.name} --out {study.name}"
        shutil.rmtree(study / "report", ignore_errors=True)
        folder.write_subject(subject, study / "report", command, formats=())
    if options.page:
        photograph(subject_of(DOCS / "data" / "demo.csv"), options.page)  # the runs of `make demo`
