"""The walk and the story in a real browser."""

import re

import pytest

LABELS = """() => [...document.querySelectorAll("svg.plane text")].map((each) => {
  const {x, y, width, height} = each.getBBox(); return [x, y, x + width, y + height] })"""


def number(page, selector):
    return page.locator(selector).last.evaluate("each => Number(each.value)")


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
    page.wait_for_function("document.querySelectorAll('svg.plane .term').length === 4")
    end = re.match(r"M.*L([\d.]+),([\d.]+)", plane.locator(".term").last.get_attribute("d"))
    dot = plane.locator("circle.context")
    assert [float(each) for each in end.groups()] == pytest.approx(
        [float(dot.get_attribute(name)) for name in ("cx", "cy")]
    )


def test_the_walk_says_where_weights_do_not_sum_to_one(visit):
    page = visit("walk?normalizer=sigmoid")
    page.locator("table[data-name=a] tfoot").wait_for()
    shares = page.locator("table[data-name=a] tbody data").evaluate_all("all => all.map((each) => Number(each.value))")
    assert number(page, "table[data-name=a] tfoot data") == pytest.approx(sum(shares)) == pytest.approx(2.018, abs=1e-3)
    page.get_by_text("no weighted mean").wait_for()
    page.locator("#normalizer").select_option("softmax")
    page.get_by_text("no weighted mean").wait_for(state="detached")
    assert number(page, "table[data-name=a] tfoot data") == pytest.approx(1)
