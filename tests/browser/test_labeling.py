"""Browser tests of the labeling page of `classify serve --pool`. See conftest.py."""

import json
import random
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import CLASSIFY, ROOT, TOKEN, check_axe, open_page, playwright, save_screenshot, start, stop, wait_for_text

WORDS = {
    "garden": "soil seed plant water root leaf prune compost mulch bed flower hedge".split(),
    "kitchen": "bake bread flour butter oven whisk simmer garlic onion sauce pan sugar".split(),
    "music": "guitar chord string melody choir violin tempo rhythm band bass drum note".split(),
}


def texts(seed, count):
    """Yield labels and texts of random words. Most words belong to the label, some to any label."""
    draw = random.Random(seed)
    everything = [word for words in WORDS.values() for word in words]
    for number in range(count):
        label = list(WORDS)[number % len(WORDS)]
        yield label, " ".join(draw.choices(WORDS[label], k=14) + draw.choices(everything, k=4))


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return a folder with a pool and a model. Two of its documents have a wrong label, and one is a copy."""
    folder = tmp_path_factory.mktemp("labeling")
    documents = [{"id": f"d{n}", "text": text, "labels": [label]} for n, (label, text) in enumerate(texts(1, 120))]
    documents[3]["labels"] = ["music"]  # kitchen, by its words
    documents[7]["labels"] = ["garden"]
    documents.append({**documents[20], "id": "copy", "labels": ["kitchen"]})
    pool = [{"id": f"p{n}", "text": text} for n, (_, text) in enumerate(texts(2, 30))]
    for name, lines in [("corpus", documents), ("pool", pool)]:
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    train = [CLASSIFY, "train", str(folder / "corpus.jsonl"), "--keep-text", "--tune", "-q"]
    subprocess.run([*train, "-o", str(folder / "a.model")], check=True)
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def server(folder):
    process, address = start(folder, "--pool", str(folder / "pool.jsonl"))
    yield address
    stop(process)


@pytest.fixture
def page(browser, server):
    with LabelingPage(browser, server) as page:
        yield page


class LabelingPage:
    """The labeling page, after the token was entered."""

    def __init__(self, browser, server):
        self.context = open_page(browser, server, "/labeling")

    def __enter__(self):
        page = self.context.__enter__()
        wait_for_text(page, "#about", "Enter the token")
        page.fill("#token", TOKEN)
        page.fill("#reviewer", "Ada")
        page.keyboard.press("Tab")
        wait_for_text(page, "#about", "documents labeled")
        return page

    def __exit__(self, *error):
        return self.context.__exit__(*error)


def api(server, path):
    request = urllib.request.Request(f"{server}{path}", headers={"authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


def labels_of(server, document):
    return json.loads(api(server, f"/v1/documents/{document}"))["labels"]


def wait_until_ready(page):
    page.wait_for_selector("main[aria-busy=false]")


def wait_until_labeled(page, count):
    wait_for_text(page, "#about", f"{count} of 30 documents labeled")
    # The next document is shown.
    wait_until_ready(page)


def press(page, key):
    page.evaluate("document.activeElement.blur()")
    # Keys are ignored for a moment after a document is shown.
    page.wait_for_timeout(300)
    page.keyboard.press(key)


def test_labeling_by_keyboard(page, server):
    first = page.inner_text("#label-id")
    offered = page.inner_text("#choices li >> nth=0 >> button").split()[1]
    assert page.inner_text("#reason").startswith("the model")
    press(page, "1")
    wait_until_labeled(page, 1)
    assert labels_of(server, first) == [offered]
    assert page.inner_text("#label-id") != first
    # Undo shows the same document again.
    press(page, "u")
    wait_until_labeled(page, 0)
    assert page.inner_text("#label-id") == first
    with pytest.raises(urllib.error.HTTPError):
        labels_of(server, first)
    press(page, "ArrowDown")
    press_again = page.evaluate("document.activeElement.closest('#choices') !== null")
    assert press_again
    press(page, "s")
    playwright.expect(page.locator("#label-id")).not_to_have_text(first)
    wait_until_ready(page)
    assert page.evaluate("document.activeElement.id") == "marked"
    # A label that the model does not have is added after a confirmation.
    second = page.inner_text("#label-id")
    page.fill("#other", "theater")
    page.keyboard.press("Enter")
    wait_until_labeled(page, 1)
    assert labels_of(server, second) == ["theater"]
    exported = [json.loads(line) for line in api(server, "/v1/labeling/export").splitlines()]
    assert [(one["id"], one["labels"]) for one in exported] == [(second, ["theater"])]
    assert len(exported[0]["text"].split()) == 18


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_is_accessible(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.wait_for_timeout(500)
    for tab in ["label", "review", "find", "progress"]:
        page.click(f"#{tab}-tab")
        wait_until_ready(page)
        if tab == "find":
            page.fill("#find-text", "guitar chord")
            page.keyboard.press("Enter")
            page.wait_for_selector("#found-list li")
        save_screenshot(page, f"labeling-{tab}-{scheme}")
        check_axe(page)
    page.set_viewport_size({"width": 360, "height": 740})
    for tab in ["label", "review", "find", "progress"]:
        page.click(f"#{tab}-tab")
        wait_until_ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab
        save_screenshot(page, f"labeling-{tab}-phone-{scheme}")


def test_two_people_get_different_documents(browser, server):
    with LabelingPage(browser, server) as ada, LabelingPage(browser, server) as bob:
        seen = set()
        for count in range(1, 9, 2):
            one, other = ada.inner_text("#label-id"), bob.inner_text("#label-id")
            assert one != other
            assert not {one, other} & seen
            seen |= {one, other}
            press(ada, "1")
            wait_until_labeled(ada, count)
            press(bob, "1")
            wait_until_labeled(bob, count + 1)


def test_nothing_is_lost_when_the_server_is_killed(browser, folder):
    pool = ["--pool", str(folder / "pool.jsonl")]
    process, address = start(folder, *pool)
    with LabelingPage(browser, address) as page:
        skipped = page.inner_text("#label-id")
        press(page, "s")
        playwright.expect(page.locator("#label-id")).not_to_have_text(skipped)
        labeled = {}
        for count in range(1, 6):
            wait_until_ready(page)
            document = page.inner_text("#label-id")
            press(page, "1")
            wait_until_labeled(page, count)
            labeled[document] = labels_of(address, document)
        process.kill()
        process.wait()
        process.stderr.close()
        press(page, "1")
        wait_for_text(page, "#message", "The server does not answer.")
    process, address = start(folder, *pool)
    assert {one: labels_of(address, one) for one in labeled} == labeled
    progress = json.loads(api(address, "/v1/labeling"))
    assert (progress["labeled"], progress["skipped"], len(progress["history"])) == (5, 1, 5)
    lines = [json.loads(line) for line in (folder / "a.model.decisions.jsonl").read_text().splitlines()]
    assert [line["decision"] for line in lines] == ["skip"] + ["label"] * 5
    assert {line["reviewer"] for line in lines} == {"Ada"}
    stop(process)


def test_review(page, server):
    page.click("#review-tab")
    wait_for_text(page, "#finding", "The same text several times")
    save_screenshot(page, "labeling-copies")
    # Copies with different labels come first. Both get the label of the first copy.
    assert page.inner_text("#review-choices li >> nth=1").split()[1:] == ["All", "get", "music"]
    press(page, "2")
    wait_until_ready(page)
    assert labels_of(server, "copy") == ["music"]
    seen = []
    for _ in range(2):
        heading = page.inner_text("#finding")
        document = page.inner_text("#reviewed .number")
        seen.append(document)
        right = list(WORDS)[int(document[1:]) % 3]
        assert f"or rather {right}?" in heading
        assert page.locator("#contradictions li").count() > 0
        press(page, "2")
        wait_until_ready(page)
        assert labels_of(server, document) == [right]
    assert sorted(seen) == ["d3", "d7"]
    press(page, "u")
    wait_until_ready(page)
    assert page.inner_text("#reviewed .number") == seen[-1]
    press(page, "3")
    wait_until_ready(page)
    with pytest.raises(urllib.error.HTTPError):
        labels_of(server, seen[-1])
    # Undo restores a removed document.
    press(page, "u")
    wait_until_ready(page)
    assert len(labels_of(server, seen[-1])) == 1


def test_many_documents_at_once(page, server):
    page.click("#find-tab")
    page.fill("#find-text", "guitar chord string")
    page.keyboard.press("Enter")
    page.wait_for_selector("#found-list li")
    count = page.locator("#found-list li").count()
    page.check("#all")
    page.fill("#bulk-label", "music")
    page.keyboard.press("Enter")
    wait_for_text(page, "#preview-text", f"{count} documents get the label music.")
    page.click("#cancel")
    assert not page.is_visible("#preview")
    page.click("#bulk button")
    wait_for_text(page, "#preview-text", f"{count} documents get the label music.")
    for box in range(3, count):
        page.uncheck(f"#found-list input >> nth={box}")
    # The preview is hidden, because the selection has changed.
    assert not page.is_visible("#preview")
    page.click("#bulk button")
    wait_for_text(page, "#preview-text", "3 documents get the label music.")
    save_screenshot(page, "labeling-preview")
    page.click("#apply")
    wait_until_labeled(page, 3)
    wait_for_text(page, "#said", "Labeled: 3 documents.")
    exported = [json.loads(line) for line in api(server, "/v1/labeling/export").splitlines()]
    assert [one["labels"] for one in exported] == [["music"]] * 3
    press(page, "u")
    wait_until_labeled(page, 0)


def test_similar_documents_and_export(page):
    page.click("#similar")
    wait_for_text(page, "#found-title", "similar to p")
    page.click("#find-tab")
    page.fill("#find-text", "")
    page.fill("#find-label", "kitchen")
    page.click("#find-form button[type=submit]")
    wait_for_text(page, "#found-title", "may have the label kitchen")
    page.click("#progress-tab")
    wait_for_text(page, "#facts", "Left")
    with page.expect_download() as download:
        page.click("#export")
    assert download.value.suggested_filename == "labeled.jsonl"


def test_several_labels(browser, model, tmp_path):
    shutil.copy(model, tmp_path / "a.model")
    process, address = start(tmp_path, "--pool", str(ROOT / "corpora/sample/test.jsonl"))
    with LabelingPage(browser, address) as page:
        document = page.inner_text("#label-id")
        before = page.locator("#choices [aria-pressed=true]").count()
        page.locator("#choices [aria-pressed=false]").first.click()
        assert page.locator("#choices [aria-pressed=true]").count() == before + 1
        press(page, "Enter")
        wait_for_text(page, "#about", "1 of")
        assert len(labels_of(address, document)) == before + 1
        save_screenshot(page, "labeling-several")
        check_axe(page)
    stop(process)


def test_without_a_pool(browser, model, tmp_path):
    shutil.copy(model, tmp_path / "a.model")
    process, address = start(tmp_path)
    with open_page(browser, address, "/labeling") as page:
        page.fill("#token", TOKEN)
        page.keyboard.press("Tab")
        wait_for_text(page, "#message", "without documents to label (--pool)")
    with open_page(browser, address) as page:
        wait_for_text(page, "#about", "documents")
        assert not page.is_visible("#labeling-link")
    stop(process)
