"""Fixtures shared by the browser tests of `classify serve`: models, servers, a browser and checks.

Run `pip install pytest playwright axe-playwright-python`, then
`CLASSIFY=target/release/classify pytest tests/browser`. The browser is /usr/bin/chromium, unless
CHROMIUM names another browser. If SCREENSHOTS names a folder, screenshots of the pages are saved
there.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import axe_playwright_python.sync_playwright as axe
import playwright.sync_api as playwright
import pytest

ROOT = pathlib.Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
CLASSIFY = os.environ.get("CLASSIFY", str(ROOT / "target/release/classify"))
TOKEN = "a token of the tests".replace(" ", "-")
MILK = "Whisk the milk, the eggs and the sugar in a pan, and bake the cake until golden."


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Return a tuned model that stores its texts."""
    path = tmp_path_factory.mktemp("model") / "sample.model"
    train = [CLASSIFY, "train", str(ROOT / "corpora/sample/train.jsonl"), "--keep-text", "--tune", "-q"]
    subprocess.run([*train, "-o", str(path)], check=True)
    return path


def start(folder, *flags):
    """Start a server of the model in a folder. Return its process and its address."""
    token = folder / "token"
    token.write_text(TOKEN)
    command = [CLASSIFY, "serve", str(folder / "a.model"), "--listen", "127.0.0.1:0", "--token-file", str(token), *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.match("listening on (http://.*)", line):
            return process, found[1]
    raise AssertionError("".join(lines))


def stop(process):
    process.terminate()
    process.stderr.close()
    assert process.wait(20) == 0


@pytest.fixture
def server(model, tmp_path):
    shutil.copy(model, tmp_path / "a.model")
    process, address = start(tmp_path)
    yield address
    stop(process)


@pytest.fixture(scope="session")
def browser():
    if not pathlib.Path(CHROMIUM).exists():
        pytest.skip("no Chromium")
    flags = [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@contextlib.contextmanager
def open_page(browser, server, path=""):
    """Open a page in a separate browser context, and check that no problem occurred."""
    page = browser.new_context().new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    # The page asks for confirmation before it adds a label.
    page.on("dialog", lambda dialog: dialog.accept())
    page.on("console", lambda message: problems.append(message.text) if "Content Security" in message.text else None)
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith((server, "data:", "blob:")) else None)
    page.goto(server + path)
    yield page
    page.context.close()
    # No script failed, no request was blocked, and no other host was contacted.
    assert problems == []


@pytest.fixture
def page(browser, server):
    with open_page(browser, server) as page:
        wait_for_text(page, "#about", "documents")
        yield page


def wait_for_text(page, selector, text):
    """Wait until an element contains a text."""
    playwright.expect(page.locator(selector)).to_contain_text(text)


def save_screenshot(page, name):
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def check_axe(page):
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
