"""Browser tests of the main page of `classify serve`. See conftest.py."""

import json
import urllib.request

import pytest

from conftest import MILK, TOKEN, check_axe, playwright, save_screenshot, wait_for_text


def classify(page, text):
    page.fill("#text", text)
    page.click("#go")
    page.wait_for_selector("#go:enabled")


def predicted_labels(page):
    return page.eval_on_selector_all("#scores .given .name", "all => all.map(one => one.textContent)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_and_marks(page, scheme):
    page.emulate_media(color_scheme=scheme)
    check_axe(page)
    classify(page, MILK)
    assert predicted_labels(page) == ["cooking"]
    assert page.inner_text("#marked") == MILK
    marked = page.eval_on_selector_all("#marked mark", "all => all.map(one => one.textContent)")
    assert "milk" in marked and "sugar" in marked
    page.hover("#marked mark:text('milk')")
    assert page.inner_text("#part").startswith("milk: contribution 0.")
    page.click("#neighbors summary >> nth=0")
    assert page.locator("#neighbors li >> nth=0").locator("mark").count() > 0
    page.click("#terms summary >> nth=0")
    assert "sugar" in page.inner_text("#terms")
    save_screenshot(page, scheme)
    check_axe(page)


def test_phone(page):
    page.set_viewport_size({"width": 360, "height": 740})
    classify(page, MILK)
    save_screenshot(page, "phone")
    # No element is wider than the screen.
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    check_axe(page)


def test_a_correction_changes_the_next_answer(page, server):
    odd = "zyzzyva zyzzyva quokka"
    classify(page, odd)
    assert predicted_labels(page) != ["animals"]
    page.fill("#right", "animals")
    page.fill("#token", TOKEN)
    page.click("#correct button[type=submit]")
    wait_for_text(page, "#learned", "Learned")
    # All words are unknown to the model, so the document has no neighbors.
    assert "Learned: animals" in page.inner_text("#learned")
    text = MILK + " Quokka."
    classify(page, text)
    assert predicted_labels(page) == ["cooking"]
    page.fill("#right", "animals")
    page.click("#correct button[type=submit]")
    playwright.expect(page.locator("#neighbors li >> nth=0")).to_contain_text("animals")
    classify(page, text)
    nearest = page.inner_text("#neighbors li >> nth=0")
    assert "animals" in nearest and "similarity 1.000" in nearest
    assert page.locator("#scores .name:text-is('animals')").count() == 1
    page.click("#undo")
    wait_for_text(page, "#learned", "Undone")
    classify(page, text)
    assert page.locator("#scores .name:text-is('animals')").count() == 0


def test_a_wrong_token(page, server):
    classify(page, MILK)
    page.fill("#right", "animals")
    page.fill("#token", "not the token of this server")
    page.click("#correct button[type=submit]")
    page.wait_for_selector("#learned:not(:empty)")
    assert "token" in page.inner_text("#learned")
    with urllib.request.urlopen(f"{server}/v1/model") as answer:
        assert "animals" not in json.dumps(json.load(answer))


def test_markup_is_text(page, server):
    evil = "milk <script>document.title = 'evil'</script> <img src=x onerror=\"document.title='evil'\"> sugar"
    classify(page, evil)
    assert page.inner_text("#marked") == evil
    page.fill("#right", "<img src=x onerror=document.title='evil'>")
    page.fill("#token", TOKEN)
    page.click("#correct button[type=submit]")
    wait_for_text(page, "#learned", "Learned")
    page.fill("#find", "<img")
    page.click("#label-list button")
    page.wait_for_selector("#browse:not([hidden])")
    assert "<img" in page.inner_text("#browse-title")
    page.wait_for_timeout(200)
    assert page.title() == "classify"
    assert page.locator("main img, main script").count() == 0


def test_ten_megabytes(page):
    text = (MILK + "\n") * (10_000_000 // (len(MILK) + 1))
    page.evaluate("text => { document.getElementById('text').value = text; }", text)
    page.click("#go")
    page.wait_for_selector("#go:enabled", timeout=60_000)
    assert predicted_labels(page) == ["cooking"]
    # The text exceeds the limit of the server.
    page.evaluate("text => { document.getElementById('text').value = text + text; }", text)
    page.click("#go")
    page.wait_for_selector("#message:not(:empty)", timeout=60_000)
    assert "longer than" in page.inner_text("#message") or "does not answer" in page.inner_text("#message")


def test_a_file_that_is_dropped(page):
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "a.txt", { type: "text/plain" }));
            document.getElementById("text").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        MILK,
    )
    page.wait_for_selector("#scores .given")
    assert predicted_labels(page) == ["cooking"]


def test_keyboard(page):
    page.keyboard.press("Tab")
    for _ in range(20):
        if page.evaluate("document.activeElement.id") == "text":
            break
        page.keyboard.press("Tab")
    page.keyboard.type(MILK)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#scores .given")
    # The result has the focus, so that screen readers announce it.
    assert page.evaluate("document.activeElement.id") == "result-title"


def test_labels_and_their_documents(page):
    page.fill("#find", "music")
    page.click("#label-list button")
    page.wait_for_selector("#documents li")
    assert "1 to 20 of" in page.inner_text("#browse-title")
    page.click("#after")
    wait_for_text(page, "#browse-title", "21 to")
    save_screenshot(page, "labels")
    check_axe(page)


def test_the_model(page):
    card = page.inner_text("#card")
    assert "Micro F1" in card and "Weights" in card
    assert page.locator("#curve svg").count() == 1


def test_the_api_page(page, server):
    page.goto(f"{server}/api")
    page.wait_for_selector("#operations section")
    assert "POST /v1/predict" in page.inner_text("#operations")
    save_screenshot(page, "api")
    check_axe(page)
