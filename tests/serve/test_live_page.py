"""The page in a real browser: what it shows and what it sends are the numbers of the Python API.

Without playwright or Chromium, all but the first test are skipped. The slow ones, which are every interaction, long
sentences and accessibility, run with

    python -m pytest -m slow tests/serve/test_live_page.py

axe-core comes from seq2seq_attn/serve/frontend/node_modules (`npm ci`); without it, its test is skipped.
"""

import hashlib
import json
import math
import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs, quote

import pytest
import torch

from seq2seq_attn.attention import normaliser_class, scorer_class
from seq2seq_attn.serve import Settings, app
from seq2seq_attn.serve.app import create_app

FRONTEND = Path(app.__file__).parent / "frontend"
AXE = FRONTEND / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SOURCE = "a b c"


def test_the_bundle_is_built_from_these_sources():
    """As `sourcesHash` of vite.config.ts computes it. If this fails: make page."""
    tops = ("index.html", "package-lock.json", "package.json", "src", "tsconfig.json", "vite.config.ts")
    paths = [path for top in tops for path in (FRONTEND / top, *(FRONTEND / top).rglob("*")) if path.is_file()]
    content = hashlib.sha256()
    for name, path in sorted((path.relative_to(FRONTEND).as_posix(), path) for path in paths):
        content.update(name.encode() + b"\0" + path.read_bytes())
    assert f'<meta name="sources" content="{content.hexdigest()}">' in (app.PAGE / "index.html").read_text()


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(served, listening):
    with listening(create_app([served], Settings())) as address:
        yield address


@pytest.fixture
def visit(browser, address):
    """Opens the page at a fragment: nothing but its server can be reached, and its console stays empty."""
    contexts, problems = [], []

    def open_page(fragment="", at=address, **options):
        context = browser.new_context(**options)
        contexts.append(context)

        def only_the_server(route):
            if route.request.url.startswith((at, "data:", "blob:")):
                route.continue_()
            else:
                problems.append(route.request.url)
                route.abort()

        context.route("**/*", only_the_server)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("response", lambda answer: answer.ok or problems.append(answer.text()))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{at}/#{fragment}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


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
    """What the address holds, once it has been written."""
    page.wait_for_timeout(200)
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
    page.wait_for_function("document.querySelector('.pane').getAttribute('aria-busy') === 'false'")
    shows(page, wanted, number)
    total = values(page, 'tr[data-kind="changed"] .total data')
    assert total == pytest.approx([wanted.log_probability], rel=1e-5)
    return wanted


def drag(page, selector, token, weight):
    """Drags the bar of a source token to a weight."""
    box = page.locator(f'{selector} [data-token="{token}"] .touch').bounding_box()
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + box["height"] - 1)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] - 0.5 * weight * 96, steps=3)
    page.mouse.move(x, box["y"] + box["height"] - weight * 96, steps=3)
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
        "all => all.flatMap(({attributes: {d}, attributes}) => "
        "Array(d.value.split('z').length - 1).fill(Number(attributes['fill-opacity'].value)))"
    )
    assert sorted(drawn) == pytest.approx(sorted(each for each in shares if each >= 0.005), abs=0.00501)
    assert page.locator(".link").count() == sum(each >= 0.03 for each in shares)
    assert state(page) == {"source": "c a b", "step": "1@backwards"}


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


def test_another_word_is_gone_on_from_and_the_link_holds_it(visit, model):
    page = visit(start(step="1@backwards"))
    before = model.steps(SOURCE, beam_size=1)
    wait_for_tokens(page, before.tokens)
    refused = (before.tokens[1], "</s>", "<pad>", "<s>")
    other = next(token for token, _ in before.steps[1].likely if token not in refused)
    page.locator(".likely button", has_text=re.compile(f"^{re.escape(other)}$")).click()
    assert edit_of(page) == {"prefix": [before.tokens[0], other], "interventions": []}
    wanted = is_the_intervention(page, model, 1)
    assert page.locator("tr[data-kind=changed] .forced").first.text_content() == other
    differs = page.locator("tr[data-kind=changed] .differs").all_text_contents()
    assert other in differs
    again = visit(page.url.partition("#")[2])
    wait_for_tokens(again, wanted.tokens, "changed")
    shows(again, wanted, 1)


QUERY, KEYS = [0.7, -1.2], [[-1.0, 1.5], [2.0, 1.0], [1.0, -1.5], [-1.5, -0.25]]
# For each scorer of the lesson: its parameters in the order of the page, by their names in the Python class.
WALKED = {
    "dot": {},
    "scaled_dot": {},
    "general": {"key_layer.weight": (2, 2)},
    "multiplicative": {"query_layer.weight": (2, 2), "key_layer.weight": (2, 2)},
    "biaffine": {"U": (2, 2), "u": (2,), "w": (2,), "b": (1,)},
    "cosine": {"temperature": (1,)},
    "negative_squared_distance": {"temperature": (1,)},
    "additive": {"query_layer.weight": (2, 2), "key_layer.weight": (2, 2), "key_layer.bias": (2,), "v": (2,)},
    "concat": {"layer.weight": (2, 4), "v": (2,)},
    "normalised_additive": {
        "additive.query_layer.weight": (2, 2),
        "additive.key_layer.weight": (2, 2),
        "additive.key_layer.bias": (2,),
        "additive.v": (2,),
        "gain": (),
        "offset": (),
    },
    "mlp": {
        "query_layer.weight": (2, 2),
        "key_layer.weight": (2, 2),
        "key_layer.bias": (2,),
        "deeper_layers.0.weight": (2, 2),
        "deeper_layers.0.bias": (2,),
        "v.weight": (1, 2),
    },
    "location": {"position_layer.weight": (4, 2)},
}  # fmt: skip


def walked(name, numbers):
    """The scores by the scorer of the package with these parameters."""
    shapes = WALKED[name]
    given = {key: torch.tensor(each).reshape(shape) for (key, shape), each in zip(shapes.items(), numbers, strict=True)}
    options = {key: float(given.pop(key)) for key in ("temperature",) if key in given}
    if name == "location":
        options["max_length"] = 4
    scorer = scorer_class(name)(2, 2, **options)
    if name == "biaffine":  # [U; w] is the weight of one layer, [u; b] its bias
        given = {
            "key_layer.weight": torch.cat([given["U"], given["w"][None]]),
            "key_layer.bias": torch.cat([given["u"], given["b"]]),
        }
    scorer.load_state_dict(given)
    keys = torch.tensor([KEYS]).double()
    return scorer.double()(torch.tensor([[QUERY]]).double(), scorer.prepare(keys))[0, 0]


def test_the_lesson_computes_what_the_scorers_and_normalisers_of_the_package_compute(visit):
    page = visit("walk")
    assert set(page.locator("#scorer option").all_text_contents()) == WALKED.keys()
    rows = ";".join(",".join(map(str, key)) for key in KEYS)
    for place, (name, shapes) in enumerate(WALKED.items()):
        numbers = [
            [0.3 * math.sin(3 * i + n) + 0.6 for i in range(math.prod(s))] for n, s in enumerate(shapes.values())
        ]
        own = ";".join(",".join(map(repr, each)) for each in numbers)
        normaliser = ("softmax", "sparsemax", "entmax15", "sigmoid", "hard")[place % 5]
        fragment = f"walk?scorer={name}&normaliser={normaliser}&query={','.join(map(str, QUERY))}&keys={rows}"
        page.evaluate("fragment => { location.hash = fragment }", f"{fragment}&parameters={own}" if own else fragment)
        page.wait_for_function("name => document.querySelector('#scorer').value === name", arg=name)
        scores = walked(name, numbers)
        assert values(page, "[data-name=e] data") == pytest.approx(scores.tolist(), rel=1e-5, abs=1e-6), name
        weights = normaliser_class(normaliser)()(scores)
        assert values(page, "[data-name=a] data") == pytest.approx(weights.tolist(), rel=1e-5, abs=1e-6), normaliser
        context = weights.double() @ torch.tensor(KEYS).double()
        assert values(page, "data.c") == pytest.approx(context.tolist(), rel=1e-5, abs=1e-6)
