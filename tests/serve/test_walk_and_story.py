"""The walk and the story in a real browser."""

import math
import re

import pytest

import seq2seq_attn as s2s
from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.app import create_app
from seq2seq_attn.serve.tasks import ServedModel

SCORES, WEIGHTS = (f"table:has(th:text-is('{each}'))" for each in ("score e", "weight a"))
LABELS = """() => [...document.querySelectorAll("svg.plane text")].map((each) => {
  const {x, y, width, height} = each.getBBox(); return [x, y, x + width, y + height] })"""


def numbers(page, selector):
    return page.locator(selector).evaluate_all("all => all.map((each) => Number(each.value))")


def number(page, selector):
    return numbers(page, selector)[-1]


@pytest.mark.slow
def test_the_plane_of_the_walk_is_legible_and_adds_its_arrows_up_to_c(visit):
    """With C at the place of a word, and all words close together at the edge of the plane."""
    page = visit("walk?normalizer=hard&keys=3,3;2.95,3;3,2.9;2.8,3", reduced_motion="reduce")
    plane = page.locator("svg.plane")
    plane.wait_for()
    assert plane.locator(".lattice").evaluate("each => getComputedStyle(each).stroke") != "none"
    boxes = page.evaluate(LABELS)
    assert len(boxes) == 6  # C, q and four words
    assert all(left >= 0 and top >= 0 and right <= 380 and bottom <= 380 for left, top, right, bottom in boxes)
    crossing = [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
    assert crossing == []
    assert plane.locator("circle").last.get_attribute("class") == "context"  # above the handle that it covers
    page.get_by_role("button", name="Add the arrows").click()
    page.wait_for_function("() => document.querySelectorAll('svg.plane .term').length === 4")
    end = re.match(r"M.*L([\d.]+),([\d.]+)", plane.locator(".term").last.get_attribute("d"))
    dot = plane.locator("circle.context")
    assert [float(each) for each in end.groups()] == pytest.approx(
        [float(dot.get_attribute(name)) for name in ("cx", "cy")]
    )


def test_the_walk_says_where_weights_do_not_sum_to_one(visit):
    page = visit("walk?normalizer=sigmoid")
    page.locator(f"{WEIGHTS} tfoot").wait_for()
    shares = numbers(page, f"{WEIGHTS} tbody data")
    assert number(page, f"{WEIGHTS} tfoot data") == pytest.approx(sum(shares)) == pytest.approx(2.018, abs=1e-3)
    page.get_by_text("no weighted mean").wait_for()
    page.locator("#normalizer").select_option("softmax")
    page.get_by_text("no weighted mean").wait_for(state="detached")
    assert number(page, f"{WEIGHTS} tfoot data") == pytest.approx(1)


@pytest.mark.slow
def test_a_field_of_the_walk_shows_the_number_that_is_used(visit):
    """A temperature of 0 would divide by 0, and no number is none."""
    page = visit("walk?scorer=cosine")
    temperature = page.get_by_label("τ, row 1, column 1")
    for typed, used in (("0", "0.05"), ("0", "0.05"), ("", "0.05"), ("2", "2")):
        temperature.fill(typed)
        temperature.press("Tab")
        assert temperature.input_value() == used


def test_the_walk_goes_on_with_the_numbers_of_a_step(visit, model):
    page = visit("translate?source=a%20b%20c&step=1@backwards")
    page.get_by_role("heading", name="Step 2").wait_for()  # until it is decoded, the last step before it is shown
    page.get_by_role("button", name="Walk with these numbers").click()
    page.locator("walk-page .given").wait_for()
    steps, plane = model.steps("a b c", beam_size=1), model.value_plane("a b c")
    assert page.locator("walk-page .given").text_content() == steps.tokens[1]
    (reading,) = steps.steps[1].layers
    for table, wanted in ((SCORES, reading.scores[0]), (WEIGHTS, reading.weights[0])):
        assert numbers(page, f"{table} tbody data") == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    context = numbers(page, "data.c")
    wanted = [sum(a * p[i] for a, p in zip(reading.weights[0], plane.points, strict=True)) for i in (0, 1)]
    assert context == pytest.approx(wanted, rel=1e-3, abs=1e-3)
    page.get_by_text(f"{100 * plane.share:.0f} % of the variance").wait_for()
    page.get_by_label("score of b").press("End")
    assert number(page, f"{WEIGHTS} tbody tr:nth-child(2) data") > 0.5
    page.get_by_role("button", name="The model's scores").click()
    assert numbers(page, "data.c") == pytest.approx(wanted, rel=1e-3, abs=1e-3)
    page.get_by_role("link", name="a step of backwards").click()
    page.locator(".step h4").first.wait_for()
    assert re.search("#translate.*step=1", page.url)


@pytest.fixture(scope="module")
def shipped():
    return {name: s2s.load(f"demo/{name}") for name in ("attention", "distracted", "transformer")}


@pytest.fixture(scope="module")
def theater(shipped, listening):
    served = [ServedModel.load(name, model, ("en", "zh"), print) for name, model in shipped.items()]
    with listening(create_app(served, Settings())) as address:
        yield address


def softmax(scores):
    parts = [math.exp(score - max(scores)) for score in scores]
    return [part / sum(parts) for part in parts]


@pytest.mark.slow
def test_the_story_is_scrolled_and_each_screen_does_its_one_thing(visit, theater, shipped):
    page = visit("story", at=theater, locale="en-US", reduced_motion="reduce")
    source = "Tom chases Jerry ."

    def screen(name):
        found = page.locator(f"section[data-screen={name}]")
        found.scroll_into_view_if_needed()
        return found

    vector = screen("vector")
    vector.get_by_role("button", name="Jerry chases Tom .").click()
    wanted = shipped["distracted"].steps("Jerry chases Tom .", beam_size=1).tokens
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('.funnel text.target')].map((e) => e.textContent).join() === wanted",
        arg=",".join(["C", *wanted]),
    )

    breaks = screen("breaks")
    breaks.get_by_role("slider").press("End")
    breaks.get_by_text("Sentence of 49 words").or_(breaks.get_by_text("Sentence of 50 words")).wait_for()
    breaks.locator(".same").nth(1).wait_for()
    one, many = (int(text.split()[0]) for text in breaks.locator(".same").all_text_contents())
    assert one < many
    page.emulate_media(media="print")  # forms are hidden, and the sentence that was translated is not
    assert breaks.locator(".example").is_visible()
    page.emulate_media(media="screen")

    attended = shipped["attention"].steps(source, beam_size=1)
    score = screen("score")
    score.get_by_role("button", name=attended.tokens[2]).click()
    scores = attended.steps[2].layers[0].scores[0]
    assert numbers(page, "[data-screen=score] data") == pytest.approx(scores, rel=1e-3)
    assert score.locator(".highest th").text_content() == attended.source[scores.index(max(scores))]

    softened = screen("softmax")
    shares = "[data-screen=softmax] tbody data"
    assert numbers(page, shares) == pytest.approx(attended.steps[2].weights, abs=1e-3)
    softened.get_by_role("slider").press("End")
    assert numbers(page, shares) == pytest.approx(softmax([score / 10 for score in scores]), abs=1e-3)
    assert number(page, "[data-screen=softmax] tfoot data") == pytest.approx(1)

    context = screen("context")
    context.get_by_role("button", name="Add the arrows").click()
    page.wait_for_function("count => document.querySelectorAll('.term').length === count", arg=len(attended.source))
    share = shipped["attention"].value_plane(source).share
    context.get_by_text(f"{100 * share:.0f} % of the variance").wait_for()

    inside = screen("self")
    inside.get_by_role("button", name="Jerry").click()
    encoder = shipped["transformer"].attention_maps(source).encoder
    row = [sum(head[2][j] for head in encoder.layers[0]) / len(encoder.layers[0]) for j in range(len(attended.source))]
    most = row.index(max(row))
    inside.get_by_text(f"Jerry reads {attended.source[most]} most: {max(row):.3f}").wait_for()

    heads = screen("heads")
    heads.get_by_role("button", name="Layer 2, head 3").click()
    steps = shipped["transformer"].steps(source, beam_size=1).steps
    drawn = heads.locator(".values text").all_text_contents()
    weights = [weight for step in steps for weight in step.layers[1].weights[2]]
    assert [float(text) for text in drawn] == pytest.approx([each for each in weights if each >= 0.005], abs=0.0051)

    page.evaluate("document.activeElement.blur()")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function("() => document.querySelector('.dots [aria-current=step]').textContent === '1'")
    for name in ("vector", "breaks"):  # below the opening, and the next one
        page.keyboard.press("PageDown")
        page.wait_for_function("name => document.activeElement.id === `story-${name}`", arg=name)
        page.wait_for_function("() => document.activeElement.closest('.screen').getBoundingClientRect().top < 60")
    page.get_by_role("button", name="中文").click()
    page.get_by_role("heading", name="它在哪里失败").wait_for()
    page.wait_for_function("() => location.hash === '#story?language=zh'")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    screen("score").get_by_role("link").click()
    page.locator(".step h4").first.wait_for()
    assert f"source={source.replace(' ', '+')}" in page.url
    assert "step=2" in page.url
