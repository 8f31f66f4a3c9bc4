"""The page in Chromium: tooltips, sorting, search, keyboard, URL and downloads, without any request."""

import csv
import io
import re
from pathlib import Path

import pytest

from seq2seq_attn import serve
from seq2seq_attn.report.html_page import html_page
from seq2seq_attn.report.write import read_contents

pytestmark = pytest.mark.slow
AXE = Path(serve.__file__).parent / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def opened(browser, all_values, corpus, write, tmp_path):
    """A function that opens the page at a URL in a new window; errors on the page fail the test."""
    file = tmp_path / "report.html"
    said, asked, pages = [], [], []

    def opened(address="", **options):
        contents = read_contents(write(all_values | {"corpus_attention.json": corpus}))
        file.write_text(html_page(contents), encoding="utf-8")
        page = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options)).new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{file}{address}")
        page.wait_for_selector("html[data-shown]", state="attached")
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def middle(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_tooltip_shows_only_the_mark_under_the_pointer(opened):
    page = opened()
    marks = page.locator("#length .point")
    assert marks.count() == 6
    for index in range(marks.count()):
        mark = marks.nth(index)
        mark.scroll_into_view_if_needed()
        page.mouse.move(*middle(mark.locator(".mark")))
        own = mark.get_attribute("data-text")
        # 40.0 and 38.0 BLEU are 6 pixels apart: each has its own tooltip.
        assert page.locator("#tip").inner_text() == own
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_arrow_keys_move_between_marks_and_show_their_values(opened):
    page = opened()
    page.locator("#length svg").first.focus()
    texts = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        texts.append(page.locator("#tip").inner_text().partition(":")[0])
    assert texts == ["注意力, 1-10", "注意力, 11+", "distracted (C at every step), 11+"]


def test_headings_sort_by_mouse_and_keyboard_and_a_checkbox_shows_all_columns(opened):
    page = opened("#results")
    table = page.locator("#results table").first

    def arms():
        return table.locator("tbody th bdi").all_inner_texts()

    def heading(name):
        return table.locator("thead th").filter(has_text=name).first

    before = arms()
    folded = table.locator("thead .optional").first
    assert folded.is_hidden()
    page.locator("#results .unfold").first.check()
    assert folded.is_visible()
    heading("Parameters").locator("button").click()
    assert arms() == ["注意力", "distracted (C at every step)", "mean of states"]
    assert heading("Parameters").get_attribute("aria-sort") == "descending"
    heading("Parameters").locator("button").focus()
    page.keyboard.press("Enter")
    assert arms() == ["mean of states", "distracted (C at every step)", "注意力"]
    heading("AER").locator("button").click()
    assert arms()[-1] == "distracted (C at every step)", "a value that is not known is last"
    assert sorted(arms()) == sorted(before)


def found(page):
    return [text.partition(" ")[0] for text in page.locator("#sentence option").all_inner_texts()]


def test_sentences_are_filtered_by_text_length_and_score(opened):
    page = opened()
    assert found(page) == ["2", "4", "7"]
    page.fill("#search", "杰瑞")  # of a translation only
    assert found(page) == ["7"]
    assert page.locator("#count").inner_text() == "1 of 3 sentences."
    page.fill("#search", "of no sentence")
    assert page.locator("#sentence").is_hidden()
    assert re.match(
        r"0 of 3 sentences\. No sentence fits .*; sentence \d is still shown", page.locator("#count").inner_text()
    )
    page.fill("#search", "")
    page.fill("#shortest", "3")
    assert found(page) == ["2", "7"]
    page.fill("#shortest", "")
    page.select_option("#scored", "mean of states")
    page.fill("#lowest", "20")
    assert found(page) == ["2", "4"]
    page.select_option("#order", "up")
    assert found(page) == ["4", "2"]


def weights(page, panel=0):
    """The weights of all cells as the map says them, row by row, by pointing at each."""
    heat = page.locator(".panel").nth(panel).locator("heat-map")
    heat.scroll_into_view_if_needed()
    rows, columns = (heat.locator(f".heat-map .{side} text").count() for side in ("rows", "columns"))
    row = heat.locator("rect.now").bounding_box()
    width, height = row["width"] / columns, row["height"]
    top = row["y"] - height * heat.evaluate("map => map.focusStep")
    found = []
    for y in range(rows):
        for x in range(columns):
            page.mouse.move(row["x"] + width * (x + 0.5), top + height * (y + 0.5))
            found.append(float(heat.locator(".readout").inner_text().rpartition(" ")[2]))
    return found


def test_word_weights_are_summed_over_source_pieces_and_averaged_over_target_pieces(opened):
    page = opened("#attention?line=2&arm1=注意力")
    assert page.locator(".panel .heat-map .columns text").all_text_contents()[:4] == ["Spike", "is", "asleep", "</s>"]
    by_word = weights(page)
    # Of the rows 0.2 0.4 0.2 0.2 0 and 0 0.2 0.2 0.4 0.2 of 睡 着, with "asleep" of two pieces.
    assert by_word[4:8] == pytest.approx([0.1, 0.3, 0.5, 0.1], abs=0.004)
    page.locator("#pieces").check()
    assert weights(page)[5:15] == pytest.approx([0.2, 0.4, 0.2, 0.2, 0, 0, 0.2, 0.2, 0.4, 0.2], abs=0.004)
    assert "pieces=1" in page.url


def test_word_weights_of_an_example_equal_those_of_the_static_page(opened):
    page = opened("#attention?line=4&arm1=注意力")
    static = page.locator(".static .heat").first.locator("tbody td").all_text_contents()
    assert weights(page) == pytest.approx([float(text) for text in static], abs=0.001)


def test_the_url_restores_sentence_arms_filters_and_step(opened):
    page = opened()
    page.fill("#search", "spike")
    page.select_option("#sentence", label=page.locator("#sentence option").first.inner_text())
    page.wait_for_url(re.compile("line=2"))
    page.locator(".panel").nth(1).locator("select").first.select_option(label="distracted (C at every step)")
    page.locator("#on").click()
    address = page.url.partition("#")[2]
    again = opened(f"#{address}")
    assert found(again) == found(page) == ["2", "7"]
    assert again.locator("#source").inner_text() == "Spike is asleep"
    assert again.locator(".panel h4").first.text_content().startswith("睡着 is row 2 of 3")
    chosen = again.locator(".panel").nth(1).locator("select").first
    assert chosen.evaluate("s => s.selectedOptions[0].text") == "distracted (C at every step)"
    assert "no weights" in again.locator(".panel").nth(1).inner_text()


def test_a_link_into_a_collapsed_section_opens_it(opened):
    assert opened("#reproduction").locator("#reproduction pre").first.is_hidden()  # a configuration stays folded
    page = opened()
    assert page.locator("#curves figure").first.is_hidden()
    page.locator('nav a[href="#curves"]').click()
    page.wait_for_selector("#curves figure", state="visible")


def test_arrow_keys_move_in_the_tree_and_enter_shows_the_attention_of_a_step(opened):
    page = opened("#attention?line=4&arm1=注意力")
    page.locator("#beam summary").click()
    width = page.locator("#beam .scroll").bounding_box()["width"]
    assert width > 0.85 * 1200
    page.locator('#beam [role="treeitem"]').first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText").split()[0] == "看"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.innerText").split()[0] == "看"
    assert page.locator(".panel h4").first.text_content().startswith("看 is row 2 of 3")


def test_the_heat_map_has_glosses_and_gold_links_and_moves_by_mouse_and_keyboard(opened, corpus):
    corpus["pairs"][0]["reference"] = "汤姆 追逐"  # all words of all references have glosses
    page = opened("#attention?line=2&arm1=注意力")
    heat = page.locator(".panel heat-map").first
    gold = heat.locator(".gold").get_attribute("d")
    assert gold.count("M") == 2
    page.fill("#search", "tom chases")
    page.locator("#sentence").select_option(label=page.locator("#sentence option").first.inner_text())
    page.wait_for_url(re.compile("line=4"))
    rows = heat.locator(".rows text")
    assert [row.text_content() for row in rows.all()] == ["汤姆Tom", "追逐chase", "</s>"]
    assert rows.nth(1).locator("tspan").get_attribute("lang") == "en"
    box = rows.nth(1).bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    assert page.locator(".panel h4").first.text_content().startswith("追逐 is row 2 of 3")
    heat.locator(".scroll").focus()
    for key, row in (("End", 3), ("ArrowUp", 2), ("Home", 1), ("ArrowUp", 1), ("ArrowDown", 2)):
        page.keyboard.press(key)
        assert f"is row {row} of 3" in page.locator(".panel h4").first.text_content()
        assert f"step={row}" in page.url


def test_weights_of_a_report_cannot_be_dragged(opened):
    page = opened("#attention?line=4&arm1=注意力")
    before = weights(page)
    x, y = middle(page.locator(".panel rect.now").first)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 60, steps=4)
    page.mouse.up()
    assert weights(page) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, scheme):
    if not AXE.exists():
        pytest.skip("needs axe-core: npm ci in seq2seq_attn/serve/frontend")
    page = opened(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run()).violations")
    assert [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")] == []


def test_figures_and_their_numbers_can_be_downloaded(opened):
    page = opened()

    def download(name, kind, section):
        with page.expect_download() as loading:
            page.locator(f'{section} [data-name="{name}"] [data-kind="{kind}"]').first.click()
        assert loading.value.suggested_filename == f"{name}.{kind}"
        return open(loading.value.path(), "rb").read()

    rows = list(csv.reader(io.StringIO(download("by_source_length", "csv", "#length").decode())))
    assert rows[0] == ["arm", "group", "value", "low", "high", "sentences"]
    assert [row[2] for row in rows if row[:2] == ["注意力", "11+"]] == ["44.4"]
    assert download("by_source_length", "png", "#length").startswith(b"\x89PNG")
    svg = download("by_source_length", "svg", "#length").decode()
    assert "var(" not in svg
    assert "distracted" not in svg or "<svg" in svg
    name = "attention_4"
    heat = list(csv.reader(io.StringIO(download(name, "csv", "#attention").decode())))
    assert heat[0] == ["target", "Tom", "chases", "</s>"]
    assert b"<rect" in download(name, "svg", "#attention")
    assert download(name, "png", "#attention").startswith(b"\x89PNG")


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_window(opened, width):
    page = opened(viewport={"width": width, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def wait(element, condition):
    """The page allows no `wait_for_function`, which compiles text."""
    for _ in range(500):
        if element.evaluate(condition):
            return
        element.page.wait_for_timeout(20)
    raise AssertionError(condition)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_step_plays_the_shortest_part_of_the_sound_with_half_of_its_weight(opened, seen_values, width):
    page = opened("#attention?line=2&arm1=注意力", viewport={"width": width, "height": 900})
    choices, audio = page.locator("source-picture button"), page.locator("audio")
    choices.nth(1).click()  # the third of four states of two seconds
    wait(audio, "each => each.currentTime > 1.01")
    wait(audio, "each => each.paused")
    assert 1.5 <= audio.evaluate("each => each.currentTime") < 1.8
    assert choices.nth(1).get_attribute("aria-pressed") == "true"
    outlined = {name: page.locator(f".large rect.{name}") for name in ("span", "gold")}
    found = {
        name: [float(each.get_attribute(side)) for side in ("x", "width")] for name, each in outlined.items()
    }  # of a picture of eight columns
    assert found == {"span": [4, 2], "gold": [2, 1]}
    page.keyboard.press("ArrowUp")
    assert choices.nth(0).get_attribute("aria-pressed") == "true"
    assert choices.nth(0).evaluate("each => each === document.activeElement")
    assert audio.evaluate("each => each.paused"), "arrows choose, and do not play"
    page.keyboard.press("Enter")
    wait(audio, "each => !each.paused")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_fog_over_an_image_is_that_of_the_chosen_step(opened, seen_values):
    page = opened("#attention?line=4&arm1=注意力")
    fog = page.locator(".large .fog")
    assert [each.get_attribute("fill-opacity") for each in fog.all()] == ["0.42", "0.84"]
    page.locator(".tiles button").nth(1).click()
    assert [each.get_attribute("d") for each in fog.all()] == ["M0 0h2v1h-2zM0 1h1v1h-1z"]
    assert page.locator("audio:visible").count() == 0
