"""Measures the page of a server in Chromium: first paint, first token, and from a dragged weight to its translation.

    seq2seq-attn serve &
    python benchmarks/serve/page.py [--address http://127.0.0.1:5000] [--rounds 20]

Times are taken in the page itself, and printed as a line of JSON: median and maximum in milliseconds.

- first paint: from the start of the navigation, as the browser reports it
- first token: from the click on Translate until the first token is on the page
- dragged weight: from the last move of the pointer until the changed translation is on the page
"""

import argparse
import json
import shutil
from statistics import median

from playwright.sync_api import sync_playwright

# Of 20 words, from the demo's test set.
SENTENCE = "there is a letter outside the garden but Butch 's horse is pushing five teachers that were hugged by Tom ."
# Resolves with the milliseconds from the last event of this type until something matches the selector and changes.
WATCH = """([event, selector]) => { window.taken = new Promise((found) => {
    let began = null;
    addEventListener(event, () => { began = performance.now(); }, true);
    const text = () => [...document.querySelectorAll(selector)].map((each) => each.textContent).join(" ");
    const before = text();
    const look = () => {
        if (began !== null && text() !== before && text() !== "") found(performance.now() - began);
        else requestAnimationFrame(look);
    };
    look();
}); }"""


def watched(page, event, selector, act):
    page.evaluate(WATCH, [event, selector])
    act()
    return page.evaluate("window.taken")


def paint(page, address):
    page.goto(address)
    page.wait_for_selector("tr[data-kind=base] button")
    entries = "performance.getEntriesByName('first-contentful-paint').map((each) => each.startTime)"
    return page.evaluate(entries)[0]


def first_token(page):
    page.locator("#source").fill(SENTENCE)
    button = page.get_by_role("button", name="Translate", exact=True)
    return watched(page, "click", "tr[data-kind=base] button", button.click)


def drag(page, token, weight):
    box = page.locator(f'row-editor [data-token="{token}"] .touch').bounding_box()
    x, bottom = box["x"] + box["width"] / 2, box["y"] + box["height"]
    page.mouse.move(x, bottom - 1)
    page.mouse.down()
    page.mouse.move(x, bottom - weight * 96)
    page.mouse.up()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default="http://127.0.0.1:5000")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    times = {"first paint": [], "first token": [], "dragged weight": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 1200})
        for _ in range(arguments.rounds):
            times["first paint"].append(paint(page, arguments.address))
            times["first token"].append(first_token(page))
            page.wait_for_selector(".pane[aria-busy=false]")
            page.locator("tr[data-kind=base] button").nth(1).click()
            page.wait_for_selector("row-editor .touch")
            changed = "tr[data-kind=changed] button"
            times["dragged weight"].append(watched(page, "pointermove", changed, lambda: drag(page, 4, 0.9)))
        browser.close()
    print(json.dumps({name: [round(median(each), 1), round(max(each), 1)] for name, each in times.items()}))


if __name__ == "__main__":
    main()
