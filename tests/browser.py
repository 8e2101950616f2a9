"""A Chromium for the tests that look at a page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = (
    f"The tests marked 'browser' need a Chromium, and none of {', '.join(NAMES)} was found. "
    "Install one with `sudo apt-get install chromium` or "
    "`python -m playwright install --with-deps chromium`, "
    "or leave these tests out with `pytest -m 'not browser'`."
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium_path(playwright: Playwright) -> str:
    """The system's Chromium, else the one that playwright installed."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    own = playwright.chromium.executable_path
    if Path(own).exists():
        return own
    pytest.fail(MISSING, pytrace=False)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a worker."""
    with sync_playwright() as playwright:
        path = chromium_path(playwright)
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file as a reader would; at the end there was no error and no request but the file.

    ``show(path, width=1280, dark=False)`` returns when all charts are drawn. ``error`` is a text
    that one console message must have.
    """
    contexts, wrong, expected = [], [], []

    def refuse(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            wrong.append(f"request: {route.request.url}")
            route.abort()

    def open_file(path: Path, *, width: int = 1280, dark: bool = False, error: str = "") -> Page:
        expected.extend([error] if error else [])
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        context.route("**/*", refuse)
        tab = context.new_page()
        tab.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-charts=drawn]", timeout=120_000)
        return tab

    yield open_file
    for context in contexts:
        context.close()
    assert len(wrong) == len(expected), wrong
    assert all(text in message for text, message in zip(expected, wrong, strict=True)), wrong
