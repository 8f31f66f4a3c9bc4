"""The page in a real browser: what it shows and what it sends are the numbers of the Python API.

Without Chromium, all but the first test are skipped. The slow ones, which are every interaction, long
sentences and accessibility, run with

    python -m pytest -m slow tests/serve/test_live_page.py

axe-core comes from seq2seq_attn/serve/frontend/node_modules (`npm ci`); without it, its test is skipped.
"""

import hashlib
import json
import math
import re
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, quote

import pytest
from students import STUDENTS

import seq2seq_attn as s2s
from seq2seq_attn import export, report
from seq2seq_attn.analysis.sentence_vector import sentence_vector
from seq2seq_attn.analysis.stepwise import continuations
from seq2seq_attn.serve import Settings, app, tasks
from seq2seq_attn.serve.app import create_app
from seq2seq_attn.serve.tasks import ServedModel

FRONTEND = Path(app.__file__).parent / "frontend"
AXE = FRONTEND / "node_modules" / "axe-core" / "axe.min.js"
SOURCE = "a b c"


def searching(model, **search):
    """The model as if its run had these options of a search."""
    config = model.config.model_copy(update={"search": model.search_options(**search)})
    return replace(model, trained=replace(model.trained, config=config))


@pytest.fixture(scope="module")
def model(model):
    """It searches greedily, and so does the page."""
    return searching(model, beam_size=1)


@pytest.fixture(scope="module")
def served(model):
    return ServedModel.load("backwards", model, ("en", "zh"), print)


def test_the_bundles_are_built_from_these_sources():
    """As `sourcesHash` of vite.config.ts computes it. If this fails: make page."""
    configured = ("onnxruntime.LICENSE", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts")
    tops = ("index.html", "src", *configured)
    paths = [path for top in tops for path in (FRONTEND / top, *(FRONTEND / top).rglob("*")) if path.is_file()]
    content = hashlib.sha256()
    for name, path in sorted((path.relative_to(FRONTEND).as_posix(), path) for path in paths):
        content.update(name.encode() + b"\0" + path.read_bytes())
    assert f'<meta name="sources" content="{content.hexdigest()}">' in (app.PAGE / "index.html").read_text()
    live = Path(export.__file__).parent / "page" / "live.js"
    for script in (live, Path(report.__file__).parent / "page" / "report.js"):
        assert script.read_text().startswith(f"/* sources: {content.hexdigest()} */")


def start(source=SOURCE, **more):
    return f"translate?source={quote(source)}" + "".join(f"&{name}={quote(str(text))}" for name, text in more.items())


def edits(**edit):
    return json.dumps({"backwards": {"prefix": [], "interventions": []} | edit})


def tokens(page, kind="base", model="backwards"):
    return page.locator(f'tr[data-kind="{kind}"][data-model="{model}"] button').all_text_contents()


def wait_for_tokens(page, wanted, kind="base", model="backwards"):
    """Waits until this translation is the one that is shown."""
    row = f'tr[data-kind="{kind}"][data-model="{model}"] button'
    page.wait_for_function(
        "([row, wanted]) => [...document.querySelectorAll(row)].map((e) => e.textContent).join() === wanted",
        arg=[row, ",".join(wanted)],
    )


def values(page, selector):
    return [float(text) for text in page.locator(selector).evaluate_all("all => all.map((each) => each.value)")]


def state(page):
    """What the address holds, once it has been written: by a timer of the page, which fires before this later one."""
    page.evaluate("() => new Promise((done) => setTimeout(done, 150))")
    return {name: found[0] for name, found in parse_qs(page.url.partition("?")[2]).items()}


def edit_of(page, model="backwards"):
    return json.loads(state(page)["edits"])[model]


def shows(page, steps, number):
    """Whether the step that is shown in detail is this one."""
    step = steps.steps[number]
    likely = page.locator(".likely button").all_text_contents()
    assert likely == [token for token, _ in step.likely]
    assert values(page, ".likely data") == pytest.approx([p for _, p in step.likely], rel=1e-5, abs=1e-9)
    if step.layers:
        assert values(page, ".step .numbers data") == pytest.approx(step.weights, rel=1e-5, abs=1e-9)


def is_the_intervention(page, model, number):
    """Whether the page shows the translation and the probabilities of the intervention that its address holds."""
    edit = edit_of(page)
    wanted = model.steps(SOURCE, prefix=edit["prefix"], interventions=edit["interventions"], beam_size=1)
    wait_for_tokens(page, wanted.tokens, "changed")
    page.wait_for_function("() => document.querySelector('.pane').getAttribute('aria-busy') === 'false'")
    shows(page, wanted, number)
    total = values(page, 'tr[data-kind="changed"] .total data')
    assert total == pytest.approx([wanted.log_probability], rel=1e-5)
    return wanted


def drag(page, selector, token, weight, scale=1.0):
    """Drags the bar of a source token to a weight, where the figure is drawn at this scale."""
    bar = page.locator(f'{selector} [data-token="{token}"] .touch')
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + box["height"] - 1)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] - 0.5 * weight * 96 * scale, steps=3)
    page.mouse.move(x, box["y"] + box["height"] - weight * 96 * scale, steps=3)
    page.mouse.up()


def test_a_typed_sentence_is_translated_with_its_weights(visit, model):
    page = visit()
    page.locator("#source").fill("c a b")
    page.keyboard.press("Enter")
    wanted = model.steps("c a b", beam_size=1)
    wait_for_tokens(page, wanted.tokens)
    page.locator("tr[data-kind=base] button").nth(1).click()
    shows(page, wanted, 1)
    scores = page.locator(".step .numbers tbody td:nth-child(2)").all_text_contents()
    assert [float(text.replace("−", "-")) for text in scores] == pytest.approx(
        wanted.steps[1].layers[0].scores[0], abs=6e-3
    )
    shares = [weight for step in wanted.steps for weight in step.weights]
    drawn = page.locator(".heat-map .cell").evaluate_all(
        "all => all.flatMap((path) => [...path.getAttribute('d').matchAll(/h(\\d+)v/g)].flatMap(([, cells]) => "
        "Array(Number(cells)).fill(Number(path.getAttribute('fill-opacity')))))"
    )
    assert sorted(drawn) == pytest.approx(sorted(each for each in shares if each >= 0.005), abs=0.00501)
    assert page.locator(".link").count() == sum(each >= 0.03 for each in shares)
    assert state(page) == {"source": "c a b", "step": "1@backwards"}


@pytest.mark.slow
def test_spaces_and_the_caret_stay_while_a_sentence_is_typed(visit, model):
    """A pause at the end of a word translates what is there; what is typed next begins after the space."""
    page = visit()
    page.locator("#source").fill("")
    page.locator("#source").press_sequentially("c ")
    wait_for_tokens(page, model.steps("c", beam_size=1).tokens)
    page.locator("#source").press_sequentially("b")
    wait_for_tokens(page, model.steps("c b", beam_size=1).tokens)
    page.locator("#source").press("Home")
    page.locator("#source").press_sequentially("a ")
    wait_for_tokens(page, model.steps("a c b", beam_size=1).tokens)
    page.locator("#source").press_sequentially("c ")
    wait_for_tokens(page, model.steps("a c c b", beam_size=1).tokens)
    assert page.locator("#source").input_value() == "a c c b"


@pytest.mark.slow
def test_what_failed_is_said_in_a_line_and_asked_for_again_while_the_figures_stay(visit, model):
    page = visit(start("a b"))
    wait_for_tokens(page, model.steps("a b", beam_size=1).tokens)
    fail, error = [], page.locator(".pane .error")
    page.route("**/v1/stream", lambda route: fail.pop()(route) if fail else route.continue_())

    def type_sentence(text, failure):
        fail.append(failure)
        page.locator("#source").fill(text)
        page.keyboard.press("Enter")
        error.wait_for()
        assert page.locator(".pane .stale .heat-map").count() == 1
        assert page.locator("tr[data-kind=base].stale button").count() > 0

    busy = {"error": "too many lines wait; try again in a moment"}
    type_sentence("c a", lambda route: route.fulfill(status=429, json=busy, headers={"Retry-After": "2"}))
    assert error.inner_text().startswith(
        "Too many lines wait; try again in a moment. The next attempt is in 2 seconds."
    )
    wait_for_tokens(page, model.steps("c a", beam_size=1).tokens)  # by itself
    assert page.locator(".error, .stale").count() == 0

    type_sentence("c b", lambda route: route.abort())
    assert error.inner_text().startswith(
        "The server does not answer; is it still running? The next attempt is in 1 sec"
    )
    error.get_by_role("button", name="Try again").click()
    wait_for_tokens(page, model.steps("c b", beam_size=1).tokens)

    events = 'event: start\ndata: {"source": ["b", "</s>"]}\n\n'
    type_sentence("b", lambda route: route.fulfill(body=events, content_type="text/event-stream"))
    assert error.inner_text().startswith("The connection to the server broke off.")
    wait_for_tokens(page, model.steps("b", beam_size=1).tokens)
    page.wait_for_selector(".error", state="detached")

    fail.append(lambda route: route.fulfill(status=500, json={"error": "an error of the server"}))
    page.route("**/v1/models", lambda route: fail.pop()(route) if fail else route.continue_())
    page.reload()
    assert page.locator("main .error").inner_text().startswith("An error of the server.")
    page.get_by_role("button", name="Try again").click()
    wait_for_tokens(page, model.steps("b", beam_size=1).tokens)
    visit.problems.clear()  # the browser notes the failures


@pytest.mark.slow
def test_what_a_link_says_is_kept_as_far_as_it_can_be_read(visit, model):
    broken = {"backwards": {"prefix": "b", "interventions": [None, 7]}, "other": {"prefix": "c", "interventions": []}}
    page = visit(start("c a", beam="0", edits=json.dumps(broken), model="unknown"))
    wait_for_tokens(page, model.steps("c a", prefix="b", beam_size=1).tokens, "changed")
    left_out = (
        "beam=0; edits of backwards: 2 of 2 interventions; model unknown, which is not served here; model other, "
    )
    assert left_out in page.locator("main [role=status]").first.inner_text()
    page.locator("#source").fill("b a")
    page.keyboard.press("Enter")
    wait_for_tokens(page, model.steps("b a", prefix="b", beam_size=1).tokens, "changed")
    assert "Left out" not in page.inner_text("main")


@pytest.mark.slow
def test_another_sentence_or_search_keeps_settings_and_what_is_typed_while_the_server_is_slow(visit, model):
    page = visit(start(step="1@backwards"))
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    unfold(page, "Options")
    page.get_by_label("Normalizer").select_option("sparsemax")
    page.locator("#prefix").fill("b")
    page.keyboard.press("Enter")
    is_the_intervention(page, model, 1)
    page.get_by_label("so that the row sums to 1").uncheck()
    page.locator("[name=what]").select_option("sentence")
    page.locator("[name=other]").fill("c c")
    held, may_go = [], threading.Event()
    page.route("**/v1/*", lambda route: route.continue_() if may_go.is_set() else held.append(route))
    page.locator("#beam").fill("3")
    page.wait_for_timeout(300)
    assert page.locator(".pane .stale[inert] .heat-map").count() == 1
    may_go.set()
    for route in held:
        route.continue_()
    page.wait_for_selector(".stale", state="detached")
    assert not page.get_by_label("so that the row sums to 1").is_checked()
    assert page.locator("[name=other]").input_value() == "c c"

    drag(page, "row-editor", 0, 0.9)
    page.locator("#source").fill("c a")
    page.keyboard.press("Enter")
    setting = {"replace": "normalizer", "normalizer": "sparsemax", "step": None, "layer": None, "head": None}
    assert edit_of(page)["interventions"] == [setting]
    wait_for_tokens(page, model.steps("c a", interventions=[setting], beam_size=3).tokens, "changed")


def test_a_dragged_weight_gives_what_the_same_intervention_gives_in_python(visit, model):
    page = visit(start(step="0@backwards"))
    before = model.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, before.tokens)
    drag(page, "row-editor", 0, 0.9)
    (change,) = edit_of(page)["interventions"]
    assert (change["replace"], change["step"], change["layer"], change["head"]) == ("weights", 0, None, None)
    assert change["weights"][0] == pytest.approx(0.9, abs=0.02)
    assert sum(change["weights"]) == pytest.approx(1, abs=1e-3)
    wanted = is_the_intervention(page, model, 0)
    assert wanted.steps[0].likely != before.steps[0].likely
    assert page.locator(".heat-map .changed").get_attribute("d").count("M") >= 2
    assert tokens(page) == before.tokens  # the baseline stays beside it
    page.get_by_role("button", name="Reset this step").click()
    page.wait_for_selector("tr[data-kind=changed]", state="detached")
    shows(page, before, 0)


def test_a_link_without_a_sentence_keeps_the_one_that_is_shown(visit, model):
    page = visit("walk")
    page.evaluate("location.hash = '#" + start() + "'")
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    page.evaluate("location.hash = '#translate?beam=2'")
    page.wait_for_function("document.querySelector('#beam').value === '2'")
    assert page.locator("#source").input_value() == SOURCE
    wait_for_tokens(page, model.steps(SOURCE, beam_size=2).tokens)


@pytest.mark.slow
def test_changes_are_undone_and_redone_by_the_browser_by_keys_and_from_a_list(visit, model):
    page = visit(start(step="0@backwards"))
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    drag(page, "row-editor", 0, 0.9)
    is_the_intervention(page, model, 0)
    changed = page.locator("tr[data-kind=changed]")
    undo, redo = (page.get_by_role("button", name=name, exact=True) for name in ("Undo", "Redo"))
    for back, forward in (
        (page.go_back, page.go_forward),
        (lambda: page.keyboard.press("Control+z"), lambda: page.keyboard.press("Control+Shift+Z")),
        (undo.click, redo.click),
    ):
        back()
        changed.wait_for(state="detached")
        forward()
        is_the_intervention(page, model, 0)
    assert redo.is_disabled()
    unfold(page, "Options")
    decoding = page.locator("#decoding")
    decoding.select_option("sampling")
    for press, shown in ((undo, "search"), (redo, "sampling"), (undo, "search")):  # as the form shows it
        press.click()
        page.wait_for_function("shown => document.querySelector('#decoding').value === shown", arg=shown)
    page.locator("#beam").fill("3")
    assert state(page)["beam"] == "3"
    page.get_by_role("button", name="Changes", exact=True).click()
    listed = page.locator("#changes li button")
    assert listed.all_text_contents() == ["start", "weights of step 1", "beam 3"]
    listed.first.click()
    changed.wait_for(state="detached")
    assert state(page).keys() == {"source", "step"}
    page.keyboard.press("Escape")
    page.locator("#source").press_sequentially(" b")
    page.keyboard.press("Control+z")  # of the field alone
    assert page.locator("#source").input_value() == SOURCE
    assert listed.count() == 3


@pytest.mark.slow
def test_the_page_is_presented_with_a_code_of_its_link_and_help_on_keys(visit, model):
    page = visit(start(step="0@backwards"), permissions=["clipboard-read", "clipboard-write"])
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    page.keyboard.press("?")
    assert "undo" in page.get_by_role("dialog", name="Keys").inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("status").get_by_text("Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == page.url
    page.get_by_role("button", name="QR code").click()
    code = page.get_by_role("img", name=f"QR code of {page.url}")
    assert code.is_visible()
    page.keyboard.press("Escape")

    size = page.locator("tr[data-kind=base] button").first.bounding_box()["height"]
    page.keyboard.press("p")
    page.locator("#source").wait_for(state="hidden")
    assert page.get_by_text(SOURCE, exact=True).is_visible()
    assert page.locator("tr[data-kind=base] button").first.bounding_box()["height"] == pytest.approx(
        1.5 * size, rel=0.1
    )
    drag(page, "row-editor", 0, 0.9, scale=1.5)
    assert edit_of(page)["interventions"][0]["weights"][0] == pytest.approx(0.9, abs=0.02)
    page.keyboard.press("Escape")
    page.locator("#source").wait_for()
    page.get_by_role("button", name="Present").click()
    page.get_by_role("button", name="Leave").click()
    assert page.locator("#source").is_visible()


@pytest.mark.slow
def test_the_first_printed_page_has_the_figures_with_their_words(visit, model):
    page = visit(start(step="0@backwards"), viewport={"width": 794, "height": 1123})  # A4
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    page.emulate_media(media="print")
    assert page.get_by_text(SOURCE, exact=True).is_visible()
    assert page.locator("form, .tools, .controls, .downloads").filter(visible=True).count() == 0
    for figure in ("svg.bands", "svg.heat-map", "svg.row-editor", ".likely"):
        box = page.locator(figure).bounding_box()
        assert 0 < box["x"] + box["width"] <= 794
        assert 0 < box["y"] + box["height"] <= 1123
    bars, words = (
        page.locator(f".row-editor {part}").evaluate_all(
            "all => all.map((each) => each.getBoundingClientRect().toJSON())"
        )
        for part in ("rect.bar", "text")
    )
    assert max(bar["bottom"] for bar in bars) <= min(word["top"] for word in words)


@pytest.fixture(scope="module")
def demo(listening):
    """A server of the trained models of the package."""
    models = {name: s2s.load(f"demo/{name}") for name in ("attention", "distracted", "transformer")}
    served = [ServedModel.load(name, each, ("en", "zh"), print) for name, each in models.items()]
    with listening(create_app(served, Settings())) as address:
        yield address, models


# The share of the window that the visible ones of these elements cover, by their rectangles.
USED = """selector => {
  const boxes = [...document.querySelectorAll(selector)]
    .filter((each) => each.checkVisibility({contentVisibilityAuto: true})).map((each) => each.getBoundingClientRect());
  let [used, all] = [0, 0];
  for (let x = 4; x < innerWidth; x += 8) for (let y = 4; y < innerHeight; y += 8) {
    all += 1;
    used += boxes.some(({left, right, top, bottom}) => left <= x && x < right && top <= y && y < bottom);
  }
  return used / all;
}"""
CONTENT = "header, textarea, button, label, summary, .translations, p, figure, step-panel"


def is_in_window(page, box):
    size = page.viewport_size
    return (
        box["x"] >= 0 <= box["y"]
        and box["x"] + box["width"] <= size["width"]
        and box["y"] + box["height"] <= size["height"]
    )


def test_the_first_screen_invites_to_a_drag_that_changes_the_sentence(visit, demo):
    address, models = demo
    page = visit(at=address, viewport={"width": 1280, "height": 720})
    page.set_default_timeout(30_000)
    page.locator(".invite").wait_for()
    plain = models["attention"].steps("Tom chases Jerry .", beam_size=1)
    wait_for_tokens(page, plain.tokens, model="attention")
    assert page.locator(".translations .gloss").all_text_contents() == ["Tom", "chase", "Jerry", "", ""]
    assert [each.text_content() for each in page.locator(".invite b").all()] == ["chases", "Jerry", "Jerry"]
    assert page.locator(".token[aria-pressed=true]").text_content() == "追逐"  # a step is chosen
    assert page.evaluate(USED, CONTENT) >= 0.8
    bands, matrix = (page.locator(each).bounding_box() for each in ("svg.bands", "svg.heat-map"))
    assert is_in_window(page, bands)
    assert is_in_window(page, matrix)
    assert bands["x"] + bands["width"] <= matrix["x"]  # side by side
    source, target = (page.locator(f".bands .source[data-place='{place}']").bounding_box() for place in (1, 2))
    page.mouse.move(source["x"] + 5, source["y"] + 5)
    page.mouse.down()
    page.mouse.move(target["x"] + 5, target["y"] + 5, steps=3)
    page.mouse.up()
    (change,) = edit_of(page, "attention")["interventions"]
    weights = plain.steps[1].weights
    moved = [weights[0], 0, weights[1] + weights[2], *weights[3:]]
    assert change["step"] == 1
    assert change["weights"] == pytest.approx(moved, abs=1e-4)
    wanted = models["attention"].steps("Tom chases Jerry .", interventions=[change], beam_size=1)
    assert wanted.tokens != plain.tokens
    wait_for_tokens(page, wanted.tokens, "changed", "attention")
    assert page.locator(".invite").count() == 0


@pytest.mark.slow
def test_a_long_sentence_is_scrolled_to_its_step_and_nothing_is_cut_without_a_sign(visit, demo):
    address, models = demo
    page = visit(at=address, viewport={"width": 1280, "height": 720})
    page.set_default_timeout(30_000)
    page.get_by_role("button", name="50 words").click()
    source = page.locator("#source").input_value()
    steps = models["attention"].steps(source, beam_size=1)
    wait_for_tokens(page, steps.tokens, model="attention")
    page.goto(f"{address}/#{start(source, step='40@attention')}")
    page.reload()
    wait_for_tokens(page, steps.tokens, model="attention")
    row = page.locator("scroll-box:has(.translations)")
    token, frame = page.locator(".token[aria-pressed=true]").bounding_box(), row.bounding_box()
    assert frame["x"] + page.locator(".translations th").first.bounding_box()["width"] <= token["x"]
    assert token["x"] + token["width"] <= frame["x"] + frame["width"]
    hidden = "all => all.filter((each) => each.scrollWidth > each.clientWidth + 1)"
    unmarked = page.locator("scroll-box").evaluate_all(
        f"{hidden}.filter((each) => !each.matches('[more-before], [more-after]')).length"
    )
    assert page.locator("scroll-box").evaluate_all(f"{hidden}.length") >= 2
    assert unmarked == 0
    labels = page.locator(".heat-map .columns")
    labels.evaluate("each => each.scrollIntoView()")
    box = labels.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + box["height"] + 20)  # over a cell of a map that ends below the window
    page.locator(".readout bdi").first.wait_for()
    assert is_in_window(page, page.locator(".readout").bounding_box())
    page.set_viewport_size({"width": 390, "height": 844})  # figures are stacked, and bars fit a short sentence
    page.get_by_role("button", name="Passive").click()
    page.locator(".token[aria-pressed=true]").wait_for()
    bands, matrix = (page.locator(each).bounding_box() for each in ("figure:has(.bands)", "figure:has(.heat-map)"))
    assert bands["y"] + bands["height"] <= matrix["y"]
    page.locator(".options > summary").click()
    page.locator("#example").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    bars = page.locator("row-editor scroll-box")
    assert bars.evaluate("each => each.scrollWidth <= each.clientWidth + 1")
    assert page.locator("row-editor [role=slider]").count() == 11
    page.evaluate("location.hash = '#' + 'W'.repeat(40)")  # a word that is in the line that names it
    assert page.locator(".error").evaluate("each => each.scrollWidth <= each.clientWidth")


@pytest.mark.slow
def test_a_model_without_attention_has_its_one_vector_and_heads_are_thumbnails(visit, demo):
    address, models = demo
    source = "Tom chases Jerry ."
    page = visit(start(source) + "&model=distracted&model=transformer", at=address)
    page.set_default_timeout(30_000)
    page.locator("svg.vector").wait_for()
    found = sentence_vector(models["distracted"].trained, source)
    bands = page.locator(".vector .link")
    widths = [float(text) for text in bands.evaluate_all("all => all.map((each) => each.getAttribute('stroke-width'))")]
    assert [width**2 for width in widths] == pytest.approx([14**2 * each for each in found.changes], rel=1e-3)
    assert page.locator(".vector .read").count() == len(models["distracted"].steps(source, beam_size=1).tokens)
    note = page.locator("one-vector .note").inner_text()
    assert f"{100 * sum(found.changes[:3]) / 3:.0f} % of its length on average" in note

    heads = page.locator("head-grid button")
    assert heads.count() == 1 + 4 + 4
    heads.filter(has_text="layer 2, head 3").click()
    assert state(page)["head"] == "1.2"
    wanted = models["transformer"].steps(source, beam_size=1).steps[1].layers[1].weights[2]
    assert values(page, "model-pane:has(head-grid button) .numbers data") == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.slow
def test_words_that_are_not_read_as_they_are_written_are_marked_and_known_ones_offered(visit, listening):
    """Of a student's sentences; then pasted lines, a beginning without spaces, and the search of the run."""
    own = ServedModel.load("demo", searching(s2s.load("demo"), beam_size=3, length_penalty=0.5), ("en", "zh"), print)
    with listening(create_app([own], Settings())) as address:
        page = visit(at=address, viewport={"width": 1280, "height": 900})
        page.locator("summary", has_text="Options").click()
        for source, read in STUDENTS.items():
            page.locator("#source").fill(source)
            page.keyboard.press("Enter")
            found = own.model.steps(source)
            wait_for_tokens(page, found.tokens, model="demo")
            unknown = [word for word, tokens in read.items() if "<unk>" in tokens]
            assert page.locator(".words-read.unknown mark").all_text_contents() == unknown
            others = " ".join(page.locator(".words-read.note .word").all_text_contents()).split()
            known = {word: tokens for word, tokens in read.items() if word not in unknown}
            assert others == [part for word, tokens in known.items() for part in (word, "as", *tokens)]
            assert [text.strip() for text in page.locator(".bands .source").all_text_contents()] == list(found.source)
        page.get_by_role("button", name="Write kitchen in place of kichen").click()
        found = own.model.steps("The cat is in the kitchen .")
        wait_for_tokens(page, found.tokens, model="demo")
        assert page.locator(".words-read.unknown").count() == 0
        assert page.locator("#beam").input_value() == "3"
        assert page.locator("#penalty").input_value() == "0.5"
        assert values(page, "tr[data-kind=base] .total data") == pytest.approx([found.log_probability], rel=1e-5)

        page.locator("#source").evaluate(
            "(field, text) => { field.value = text; "
            "field.dispatchEvent(new InputEvent('input', {bubbles: true, inputType: 'insertFromPaste'})); }",
            "Tom runs .\nthe lazy girl works .",
        )
        wait_for_tokens(page, own.model.steps("Tom runs .").tokens, model="demo")
        page.get_by_label("2 lines, of which one is read").select_option(index=1)
        wait_for_tokens(page, own.model.steps("the lazy girl works .").tokens, model="demo")
        page.locator("#prefix").fill("懒女孩")
        page.keyboard.press("Enter")
        begun = own.model.steps("the lazy girl works .", prefix="懒女孩")
        wait_for_tokens(page, begun.tokens, "changed", "demo")
        page.locator(".words-read", has_text="begins with the tokens 懒 女孩").wait_for()


@pytest.mark.slow
def test_models_are_compared_on_one_scale_step_by_step(visit, demo):
    address, models = demo
    source = "Tom chases Jerry ."
    page = visit(start(source) + "&model=attention&model=distracted&model=transformer", at=address)
    page.set_default_timeout(30_000)
    page.locator("svg.difference").wait_for()
    found = {name: model.steps(source, beam_size=1) for name, model in models.items()}
    bars = page.locator(".probabilities .bar")
    page.wait_for_function(
        "count => document.querySelectorAll('.probabilities .bar').length === count",
        arg=sum(len(each.steps) for each in found.values()),
    )
    drawn = sorted(bars.evaluate_all("all => all.map((each) => Number(each.getAttribute('height')))"))
    wanted = sorted(110 * math.exp(step.log_probability) for each in found.values() for step in each.steps)
    assert drawn == pytest.approx(wanted, abs=0.01)
    page.locator("svg.difference").scroll_into_view_if_needed()
    box = page.locator(".difference .ground").bounding_box()
    page.mouse.move(box["x"] + 1.5 * box["width"] / 5, box["y"] + 1.5 * box["height"] / 5)
    first, second = (found[name].steps[1].weights[1] for name in ("attention", "transformer"))
    assert page.locator("model-comparison .readout").inner_text() == f"追逐, chases: {first - second:+.3f}"


@pytest.mark.slow
def test_a_token_appears_before_the_next_one_is_decoded(visit, model, monkeypatch):
    wanted = model.steps("c c a", beam_size=1).tokens
    may_go, decode = threading.Event(), tasks.decode_steps

    def waiting(*arguments, **options):
        for number, step in enumerate(decode(*arguments, **options)):
            assert number < 2 or may_go.wait(10)
            yield step

    monkeypatch.setattr(tasks, "decode_steps", waiting)
    page = visit(start("c c a"))
    wait_for_tokens(page, wanted[:2])
    assert page.locator(".heat-map .rows text").count() == 2
    may_go.set()
    wait_for_tokens(page, wanted)


@pytest.mark.slow
def test_a_row_is_drawn_by_dragging_across_and_a_cell_by_dragging_it(visit, model):
    page = visit(start(step="0@backwards"))
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    page.get_by_label("so that the row sums to 1").uncheck()
    first, last = (page.locator(f"row-editor [data-token='{j}'] .touch").bounding_box() for j in (0, 3))
    floor = first["y"] + first["height"]
    page.mouse.move(first["x"] + 5, floor - 48)
    page.mouse.down()
    page.mouse.move(last["x"] + 5, floor - 24, steps=40)
    page.mouse.up()
    drawn = edit_of(page)["interventions"][0]["weights"]
    leaving = 0.5 - 0.25 * (first["width"] - 5) / (last["x"] - first["x"])  # the height where the pointer left the bar
    assert drawn[0] == pytest.approx(leaving, abs=0.03)
    assert drawn[3] == pytest.approx(0.25, abs=0.03)
    assert drawn == sorted(drawn, reverse=True)
    is_the_intervention(page, model, 0)

    page.get_by_role("button", name="Reset all", exact=True).click()
    page.wait_for_selector("tr[data-kind=changed]", state="detached")
    page.locator(".heat-map rect.now").scroll_into_view_if_needed()
    box = page.locator(".heat-map rect.now").bounding_box()  # the first row, four cells wide
    page.mouse.move(box["x"] + 2.5 * box["width"] / 4, box["y"] + box["height"] / 2)
    shown = page.locator(".step .numbers data").nth(2).text_content()
    assert page.locator(".readout").text_content().split() == [tokens(page)[0], "reads", "c:", *shown.split()]
    page.mouse.down()
    page.mouse.move(box["x"] + 2.5 * box["width"] / 4, box["y"] + box["height"] / 2 - 60, steps=4)
    page.mouse.up()
    before = model.steps(SOURCE, beam_size=1).steps[0].weights
    weights = edit_of(page)["interventions"][0]["weights"]
    assert weights[2] == pytest.approx(min(1, before[2] + 0.5), abs=0.01)
    rest = (1 - weights[2]) / (1 - before[2])  # the others keep their proportions
    assert weights == pytest.approx([w if j == 2 else rest * before[j] for j, w in enumerate(weights)], abs=1e-3)
    is_the_intervention(page, model, 0)


@pytest.mark.slow
def test_the_beam_is_a_tree_of_hypotheses_to_go_on_from(visit, model):
    page = visit(start())
    unfold(page, "Options")
    page.locator("#beam").fill("4")
    search = {"beam_size": 4, "length_penalty": 1.0}
    found = continuations(model.trained, SOURCE, options=model.search_options(n_best=4, **search))
    page.wait_for_selector(".tree")
    scores = page.locator(".tree .score").all_text_contents()
    assert sorted(scores) == sorted(f"{each.score:.3f}".replace("-", "−") for each in found)
    wait_for_tokens(page, found[0].tokens)
    page.locator(".tree .free").last.click()
    prefix = edit_of(page)["prefix"]
    assert [each.tokens for each in found if each.tokens[: len(prefix)] == prefix] != []
    assert found[0].tokens[: len(prefix)] != prefix
    wanted = model.steps(SOURCE, prefix=prefix, **search)
    wait_for_tokens(page, wanted.tokens, "changed")
    page.locator("#penalty").fill("0")
    assert state(page)["penalty"] == "0"
    wait_for_tokens(page, model.steps(SOURCE, beam_size=4, length_penalty=0.0).tokens)


@pytest.mark.slow
def test_a_typed_beginning_is_kept(visit, model):
    page = visit(start())
    unfold(page, "Options")
    page.locator("#prefix").fill("b b")
    page.keyboard.press("Enter")
    wait_for_tokens(page, model.steps(SOURCE, prefix="b b", beam_size=1).tokens, "changed")
    page.locator("#prefix").fill("zzz")
    page.keyboard.press("Tab")
    assert "'zzz' is not in this model's vocabulary" in page.locator(".pane .error").text_content()
    page.wait_for_timeout(200)
    visit.problems.clear()  # the browser notes the answer 400


@pytest.fixture(scope="module")
def family(tmp_path_factory, run):
    """Models beside the first one: without attention, and with two layers of two heads for long sentences."""
    folder = tmp_path_factory.mktemp("family")
    data = run.parent
    pairs = {"source": str(data / "source"), "target": str(data / "target")}
    models = {
        "fixed": {
            "embedding_size": 8,
            "encoder": {"hidden_size": 10},
            "decoder": {"hidden_size": 12},
            "context": {"kind": "fixed"},
        },
        "heads": {
            "kind": "transformer",
            "embedding_size": 8,
            "encoder": {"layers": 1, "heads": 2, "feed_forward_size": 12},
            "decoder": {"layers": 2, "heads": 2, "feed_forward_size": 12},
        },
    }
    for name, values in models.items():
        config = {
            "data": {"train": pairs, "validation": pairs, "max_length": 250},
            "text": {"tokenizer": "word", "source_language": "en", "target_language": "zh"},
            "model": values,
            "search": {"max_length": 230, "beam_size": 1},
            "training": {"batch_size": 13, "max_epochs": 1, "monitor": "loss", "accelerator": "cpu"},
        }
        s2s.train(config, folder / name, silent=True)
    return [ServedModel.load(name, s2s.load(folder / name), ("en", "zh"), print) for name in models]


@pytest.fixture(scope="module")
def several(family, served, listening):
    with listening(create_app([served, *family], Settings())) as address:
        yield address


@pytest.mark.slow
def test_models_stand_side_by_side_in_columns(visit, several, model, family):
    page = visit(start() + "&model=backwards&model=fixed", at=several)
    fixed = family[0].model.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    wait_for_tokens(page, fixed.tokens, model="fixed")
    page.locator("model-pane", has_text="fixed").locator("svg.vector").wait_for()
    own = model.steps(SOURCE, beam_size=1).tokens
    differs = page.locator("tr[data-model=fixed] .differs").count()
    assert differs == len(fixed.tokens) - common(own, fixed.tokens)
    page.locator("tr[data-model=backwards] button").first.click()
    assert page.locator("step-panel").count() == 2
    page.get_by_role("checkbox", name=re.compile("^fixed")).uncheck()
    page.wait_for_selector("tr[data-model=fixed]", state="detached")
    page.get_by_role("checkbox", name=re.compile("^backwards")).click()
    assert page.get_by_role("checkbox", name=re.compile("^backwards")).is_checked()  # one is always shown


def common(first, second):
    """The length of the longest common subsequence."""
    if not first or not second:
        return 0
    if first[0] == second[0]:
        return 1 + common(first[1:], second[1:])
    return max(common(first[1:], second), common(first, second[1:]))


@pytest.mark.slow
def test_one_head_of_one_layer_is_shown_and_changed(visit, several, family, served):
    heads = family[1].model
    page = visit(start(step="0@heads") + "&model=heads", at=several)
    unfold(page, "Options")
    page.locator("#head").select_option("1.0")
    plain = heads.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, plain.tokens, model="heads")
    assert values(page, ".step .numbers data") == pytest.approx(plain.steps[0].layers[1].weights[0], rel=1e-5)
    drag(page, "row-editor", 1, 0.8)
    (change,) = edit_of(page, "heads")["interventions"]
    assert (change["layer"], change["head"]) == (1, 0)
    wanted = heads.steps(SOURCE, prefix=[], interventions=[change], beam_size=1)
    wait_for_tokens(page, wanted.tokens, "changed", "heads")


@pytest.mark.slow
def test_two_hundred_tokens_stay_legible(visit, several, family):
    source = " ".join("abc"[i * i % 3] for i in range(200))
    prefix = json.dumps({"heads": {"prefix": source, "interventions": []}})
    fragment = start(source, step="3@heads", edits=prefix) + "&model=heads"
    page = visit(fragment, at=several, viewport={"width": 1300, "height": 900})
    page.set_default_timeout(60_000)
    page.locator("model-pane section[aria-busy=false] .heat-map").wait_for()
    assert len(tokens(page, "changed", "heads")) >= 200
    assert page.locator(".heat-map .columns text").count() == 201
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    size = page.locator(".heat-map .columns text").first.evaluate("each => parseFloat(getComputedStyle(each).fontSize)")
    assert size >= 11
    assert page.locator(".heat-map .cell").count() <= 100  # one path for each level of gray


@pytest.fixture(scope="module")
def indices(served, family, tmp_path_factory):
    """The training sentences are read before the page asks for neighbors: a browser notes an answer of 503."""
    pytest.importorskip("usearch", reason="the extra [neighbors] is not installed")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for each in (served, *family):
            each.state_index()
            each.index.result(timeout=60)
        yield


def unfold(page, summary):
    page.locator("summary", has_text=summary).first.click()


def shows_neighbors(page, place, wanted):
    """Whether this table has these training pairs, with the token of their step marked."""
    rows = [each.source for each in wanted]
    page.wait_for_function(
        "([place, rows]) => [...document.querySelectorAll(place + ' .pairs button')]"
        ".map((each) => each.textContent).join() === rows",
        arg=[place, ",".join(rows)],
    )
    assert values(page, f"{place} .pairs data") == pytest.approx(wanted.distances, rel=1e-4, abs=1e-5)
    cells = page.locator(f"{place} .pairs td:last-child").all_text_contents()
    if wanted[0].step is None:
        assert cells == [each.target for each in wanted]
        return
    assert page.locator(f"{place} .pairs mark").all_text_contents() == [each.token for each in wanted]
    for cell, each in zip(cells, wanted, strict=True):
        is_end = each.step == len(each.tokens) - 1
        assert cell.split() == list(each.tokens if is_end else each.tokens[:-1])
    before = (
        "all => all.map((mark) => { const range = new Range(); range.setStart(mark.parentNode, 0); "
        "range.setEndBefore(mark); return range.toString(); })"
    )
    places = [len(text.split()) for text in page.locator(f"{place} .pairs mark").evaluate_all(before)]
    assert places == [each.step for each in wanted]


@pytest.mark.slow
def test_the_nearest_training_sentences_are_those_of_the_model(visit, model, indices):
    page = visit(start(step="1@backwards"))
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "neighbors" in request.url else None)
    plain = model.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, plain.tokens)
    page.locator("#source").press_sequentially(" a")
    longer = model.steps(f"{SOURCE} a", beam_size=1)
    wait_for_tokens(page, longer.tokens)
    page.locator("tr[data-kind=base] button").nth(1).click()
    assert asked == []  # only when a list is opened

    unfold(page, "Nearest training sentences")
    whole, step = ".pane > nearest-pairs", "step-panel nearest-pairs"
    shows_neighbors(page, whole, model.neighbors(f"{SOURCE} a"))
    unfold(page, "Nearest steps of the training text")
    for number in (1, 2, len(longer.tokens) - 1):
        page.locator("tr[data-kind=base] button").nth(number).click()
        shows_neighbors(page, step, model.neighbors(f"{SOURCE} a", longer.tokens[:number], step=number))
    assert len(asked) == 4
    drag(page, "row-editor", 0, 0.9)
    assert "without the changes" in page.locator(step).text_content()
    page.locator("#source").press_sequentially(" b b c")  # typed without a pause: one more question, not one per key
    shows_neighbors(page, whole, model.neighbors(f"{SOURCE} a b b c"))
    assert [each["source"] for each in asked[4:]] == [f"{SOURCE} a b b c"] * 2  # of the sentence, and of the step

    chosen = page.locator(f"{whole} .pairs button").nth(2)
    source = chosen.text_content()
    chosen.click()
    wait_for_tokens(page, model.steps(source, beam_size=1).tokens)
    assert page.locator("#source").input_value() == source
    assert state(page)["source"] == source
    shows_neighbors(page, whole, model.neighbors(source))
    assert values(page, f"{whole} .pairs data")[0] < 1e-3  # a training sentence is nearest to itself


@pytest.mark.slow
def test_the_page_asks_again_until_the_training_text_is_read(visit, model, listening, indices, monkeypatch):
    may_go, prepare = threading.Event(), tasks.StateIndex.of_run
    monkeypatch.setattr(tasks.StateIndex, "of_run", lambda *given: may_go.wait(30) and prepare(*given))
    served = ServedModel.load("backwards", model, ("en", "zh"), print)
    with listening(create_app([served], Settings())) as address:
        page = visit(start(), at=address)
        unfold(page, "Nearest training sentences")
        note = page.locator("nearest-pairs .note")
        waits = "The training sentences are being read, once; ask again in a few seconds."
        assert note.text_content() == f"{waits} The next attempt is in 5 seconds."
        may_go.set()
        shows_neighbors(page, ".pane > nearest-pairs", model.neighbors(SOURCE))
        assert note.count() == 0
        visit.problems.clear()  # the browser notes the answer 503


@pytest.mark.slow
def test_the_normalizer_the_temperature_and_the_context_can_be_replaced(visit, model):
    page = visit(start(step="1@backwards"))
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    everywhere = {"step": None, "layer": None, "head": None}
    unfold(page, "Options")
    page.get_by_label("Normalizer").select_option("sparsemax")
    page.locator("#attention-temperature").fill("0.75")
    changes = [{"replace": "normalizer", "normalizer": "sparsemax"} | everywhere]
    changes += [{"replace": "temperature", "temperature": 5.6} | everywhere]
    assert edit_of(page)["interventions"] == changes
    is_the_intervention(page, model, 1)
    page.locator("[name=where]").select_option("here")
    page.locator("[name=what]").select_option("sentence")
    page.locator("[name=other]").fill("c c b")
    page.get_by_role("button", name="Replace").click()
    other = {"replace": "sentence", "step": 1, "layer": None, "head": None, "other": "c c b"}
    assert edit_of(page)["interventions"] == [*changes, other]
    is_the_intervention(page, model, 1)
    again = visit(page.url.partition("#")[2])
    is_the_intervention(again, model, 1)
    page.get_by_role("button", name="Reset all changes").click()
    page.wait_for_selector("tr[data-kind=changed]", state="detached")
    assert "edits" not in state(page)


@pytest.mark.slow
def test_source_tokens_are_chosen_by_hand(visit, model):
    page = visit(start())
    wait_for_tokens(page, model.steps(SOURCE, beam_size=1).tokens)
    unfold(page, "source token")
    field = page.get_by_label("Tokens", exact=True)
    assert field.input_value() == SOURCE
    by_hand = ["a", "<unk>", "c"]
    field.fill(" ".join(by_hand))
    field.press("Enter")
    wait_for_tokens(page, model.steps(by_hand, beam_size=1).tokens, "changed")
    assert edit_of(page) == {"prefix": [], "interventions": [], "source": by_hand}
    page.get_by_role("button", name="Use those of the tokenizer").click()
    page.wait_for_selector("tr[data-kind=changed]", state="detached")


@pytest.mark.slow
def test_the_keyboard_alone_suffices(visit, model):
    page = visit(start(step="0@backwards"))
    plain = model.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, plain.tokens)

    def tab_to(selector):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    page.locator("#source").focus()
    tab_to("tr[data-kind=base] button")
    page.keyboard.press("ArrowRight")
    shows(page, plain, 1)
    tab_to("row-editor [role=slider]")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Weight of b"
    page.keyboard.press("Home")
    page.keyboard.press("PageUp")
    weights = edit_of(page)["interventions"][0]["weights"]
    assert weights[1] == pytest.approx(0.25)
    is_the_intervention(page, model, 1)
    tab_to(".likely button:not([aria-pressed=true])")
    token = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert edit_of(page)["prefix"] == [plain.tokens[0], token]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1300])
@pytest.mark.parametrize("tab", ["translate", "walk", "story"])
def test_axe_finds_nothing_serious_and_the_page_fits_the_window(visit, several, indices, tab, width, scheme):
    if not AXE.exists():
        pytest.skip("needs axe-core: npm ci in seq2seq_attn/serve/frontend")
    changed = edits(interventions=[{"replace": "mean", "step": 1, "layer": None, "head": None}], prefix=["c"])
    models = "&model=backwards&model=fixed&model=heads"
    translate = start(beam=3, step="1@backwards", edits=changed) + models
    fragment = {"translate": translate, "walk": "walk?scorer=mlp", "story": start()}[tab]
    page = visit(fragment, at=several, viewport={"width": width, "height": 900}, color_scheme=scheme)
    if tab == "story":  # of the sentence that was translated
        page.get_by_role("link", name="Story").click()
    page.locator("tr[data-kind=changed] button, walk-page .sum, [data-screen=heads] svg").first.wait_for()
    for summary in page.locator("details.more > summary").all():
        summary.click()
    page.wait_for_timeout(300)
    if tab == "translate":
        page.locator(".pairs mark").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(AXE.read_text())
    found = page.evaluate("async () => (await axe.run()).violations")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []
    if tab == "story":  # its self-attention, or an example in its place if this Transformer writes nothing
        page.locator("[data-screen=self] :is(svg.heat-map, .vector-of)").first.wait_for()
        visit.problems.clear()  # the browser notes the answer 400


@pytest.mark.slow
def test_figures_and_numbers_are_saved(visit, model, tmp_path):
    page = visit(start(step="0@backwards"))
    wanted = model.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, wanted.tokens)
    saved = {}
    for name, button in (
        ("weights-of-backwards.svg", page.locator("[aria-label='Download weights of backwards'] button").first),
        ("weights-of-backwards.png", page.locator("[aria-label='Download weights of backwards'] button").last),
        ("bands-of-backwards.svg", page.locator("[aria-label='Download bands of backwards'] button").first),
        ("translations.json", page.get_by_role("button", name="Save as JSON")),
    ):
        with page.expect_download() as download:
            button.click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
        saved[name] = (tmp_path / name).read_bytes()
    assert b"<svg" in saved["weights-of-backwards.svg"]
    assert b"fill-opacity" in saved["weights-of-backwards.svg"]
    assert b"class=" not in saved["weights-of-backwards.svg"]
    assert saved["weights-of-backwards.png"].startswith(b"\x89PNG")
    (translation,) = json.loads(saved["translations.json"])["translations"]
    assert [step["weights"] for step in translation["translation"]["steps"]] == [step.weights for step in wanted.steps]


@pytest.mark.slow
def test_a_server_with_keys_asks_for_one(visit, served, listening, browser):
    with listening(create_app([served], Settings(api_keys=frozenset({"secret"})))) as address:
        page = browser.new_page()
        page.goto(f"{address}/#{start()}")
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        wait_for_tokens(page, served.model.steps(SOURCE, beam_size=1).tokens)
        page.close()
