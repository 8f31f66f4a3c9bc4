"""The matrix that a notebook shows for decoded steps: without scripts, and in Chromium."""

import html
import re

import pytest

import seq2seq_attn as s2s

SENTENCE = "the lazy girl was kicked by Spike ."


@pytest.fixture(scope="module")
def found():
    return {
        name: s2s.load(f"demo/{name}", "cpu").steps(SENTENCE) for name in ("attention", "distracted", "transformer")
    }


def test_the_matrix_is_there_without_scripts(found):
    steps = found["attention"]
    text = steps._repr_html_().partition("<script>")[0]
    assert [html.unescape(word) for word in re.findall(r"<bdi>([^<]+)</bdi>", text)] == [*steps.source, *steps.tokens]
    weights = [float(weight) for weight in re.findall(r"--w:([\d.e-]+)\"", text)]
    assert weights == pytest.approx([weight for step in steps.steps for weight in step.weights], abs=1e-3)
    assert found["distracted"]._repr_html_().count("reads no single word") == len(found["distracted"].steps)


def test_what_a_sentence_contains_is_text(found):
    odd = s2s.load("demo", "cpu").steps('<script>alert("x")</script> & Tom\'s')
    text = odd._repr_html_()
    assert text.count("<script>") == 1
    assert 'alert("' not in text


@pytest.mark.slow
def test_rows_and_heads_are_chosen_by_mouse_and_keyboard(browser, found, tmp_path):
    """In a page with two of them, as in a notebook; `python -m pytest -m slow tests/report`."""
    page_file, said = tmp_path / "notebook.html", []
    shown = "".join(steps._repr_html_() for steps in found.values())
    page_file.write_text(f"<!doctype html><meta charset=utf-8><body>{shown}", encoding="utf-8")
    page = browser.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"file://{page_file}")
    attention, distracted, transformer = page.locator(".s2s-steps").all()
    for root, steps in zip((attention, distracted, transformer), found.values(), strict=True):
        assert root.locator("[aria-current]").count() == 1
        token, probability = root.locator(".panel table").last.locator("tr").nth(1).locator("td").all_text_contents()
        assert (token, float(probability)) == pytest.approx(steps.steps[0].likely[0], abs=1e-3)
    attention.locator("tbody button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    step = found["attention"].steps[2]
    assert attention.locator("[aria-current] button").text_content() == step.token
    rows = attention.locator(".panel table").first.locator("tr").all()[1:]
    layer = step.layers[0]
    for place, row in enumerate(rows):
        word, *numbers = row.locator("td").all_text_contents()
        assert word == found["attention"].source[place]
        share = layer.contributions[0][place] / sum(layer.contributions[0])
        values = [float(number.replace("\u2212", "-")) for number in numbers]
        assert values == pytest.approx([layer.scores[0][place], step.weights[place], share], abs=1e-3)
    assert not attention.locator("select").is_visible()
    transformer.locator("select").select_option("layer 1, head 3")
    weight = found["transformer"].steps[1].layers[1].weights[3][4]
    cell = transformer.locator("tbody tr").nth(1).locator("td").nth(4)
    assert float(cell.get_attribute("title")) == pytest.approx(weight, abs=1e-3)
    assert distracted.locator(".panel table").count() == 1
    page.close()
    assert said == []
