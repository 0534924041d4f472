"""A page opened in a browser, and what it did there."""

from pathlib import Path
from typing import Any

ARTIFACTS = Path(__file__).parents[1] / "test-artifacts"


class Opened:
    """A page opened from disk, with everything its console said and every request it made."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        self.context = browser.new_context(offline=True, **settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("h1")

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.text_content())

    def close(self) -> None:
        self.context.close()
