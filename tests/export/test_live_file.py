"""The page in one file: it decodes in a browser what the Python API decodes, offline.

The tests in Chromium are slow, and so are the exports:

    python -m pytest -m slow tests/export/test_live_file.py
"""

import base64
import gzip
import json
import re
import sys
from types import SimpleNamespace

import pytest
import torch
from small_models import GRAPHS, LETTERS
from students import STUDENTS

from seq2seq_attn import load
from seq2seq_attn.analysis.step_interventions import Intervention
from seq2seq_attn.analysis.stepwise import continuations, decode_steps, decoded, source_item
from seq2seq_attn.api.comparison import Comparison
from seq2seq_attn.corpora.codec import Codec
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.tokenizers import Character, SentencePiece
from seq2seq_attn.corpora.vocabulary import Vocabulary
from seq2seq_attn.errors import UserError
from seq2seq_attn.export import export_model, html
from seq2seq_attn.export.html import live_page
from seq2seq_attn.files.plain import plain
from seq2seq_attn.models.intervened import Changes, IntervenedModel
from seq2seq_attn.runs.model import TrainedModel

PAGES = ("page", "page_layers", "page_sigmoid", "page_fixed")
SOURCE, OTHER = "c a k e", "b e"
ROW = [0.1, 0.0, 0.6, 0.0, 0.2]


def parts(page):
    """The texts of the page's elements with an id."""
    return dict(re.findall(r'<script type="[\w/]+" id="([\w-]+)">(.*?)</script>', page, flags=re.DOTALL))


def test_the_file_holds_everything_and_loads_nothing(untrained, monkeypatch):
    graph = SimpleNamespace(description=lambda file: {"file": file, "inputs": [], "outputs": []})
    monkeypatch.setattr(html, "graphs_of", lambda model, with_interventions: {"encoder": graph, "step": graph})
    program = SimpleNamespace(model_proto=SimpleNamespace(SerializeToString=lambda: b"weights"))
    monkeypatch.setattr(html, "program_of", lambda graph: program)
    monkeypatch.setattr(html, "need_packages", lambda to: None)
    models = {name: untrained(GRAPHS[name][1]) for name in ("page", "page_fixed")}
    page = live_page(models).decode()
    held = parts(page)
    assert held.keys() == {"models", "runtime"} | {f"model-{n}-{kind}" for n in (0, 1) for kind in ("encoder", "step")}
    unpacked = {name: gzip.decompress(base64.b64decode(held[name])) for name in held.keys() - {"models"}}
    assert unpacked.pop("runtime").startswith(b"\0asm")
    assert set(unpacked.values()) == {b"weights"}
    assert len(page) < 6e6  # models are added to this
    assert "<" not in held["models"]  # not even <unk>: it would be HTML
    attending, fixed = json.loads(held["models"])
    assert attending["codecs"]["source"]["tokens"] == ["<unk>", "<pad>", "<s>", "</s>", *LETTERS]
    assert [(each["about"]["name"], each["about"]["heads"]) for each in (attending, fixed)] == [
        ("page", [1]),
        ("page_fixed", []),
    ]
    assert fixed["graphs"]["step"]["file"] == "model-1-step"
    document = re.sub(r"<script.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="([^"]*)"', document) == ["data:,"]
    assert "default-src 'none'" in document
    for holder in ("Copyright (c) Microsoft Corporation", "Copyright (c) 2017 Google LLC", "Mike Bostock"):
        assert holder in document


@pytest.mark.parametrize("name", ["page", "page_layers", "page_sigmoid"])
@pytest.mark.parametrize(
    "intervention",
    [
        None,
        {"replace": "weights", "weights": ROW},
        {"replace": "mean"},
        {"replace": "mean", "layer": 0, "head": 0},
        {"replace": "sentence", "other": OTHER},
    ],
)
def test_inputs_of_a_step_are_the_interventions_of_python(untrained, name, intervention):
    """At the first step of SOURCE; OTHER is decoded beside it."""
    model = untrained(GRAPHS[name][1])
    interventions = [] if intervention is None else [Intervention(**intervention)]
    wanted = next(decode_steps(model, SOURCE, interventions=interventions))
    opened = IntervenedModel(model.translator)
    heads, layers = sum(opened.heads), len(opened.heads)
    given = torch.zeros(2, heads, 5)
    is_given, is_uniform = torch.zeros(2, 2, heads, dtype=torch.bool)
    reads = torch.arange(2)[:, None].repeat(1, layers)
    for each in interventions:
        own = slice(None) if each.head is None else slice(1)
        is_uniform[0, own] = each.replace == "mean"
        is_given[0] = each.replace == "weights"
        given[0] = torch.tensor(ROW)
        reads[0] = each.replace == "sentence"
    with torch.inference_mode():
        memory = opened.model.encode(pad([source_item(model, SOURCE), source_item(model, OTHER)]))
        state = opened.model.start(memory)
        changes = Changes(given, is_given, is_uniform, reads)
        step, attended = opened.step(torch.full((2,), opened.model.start_token), state, memory, changes)
        found = {name: getattr(attended, name)[:, :, 0] for name in ("weights", "scores", "contributions")}
    likely = step.logits[0].softmax(dim=0).topk(10).values.tolist()
    assert likely == pytest.approx([probability for _, probability in wanted.likely], abs=1e-6)
    if wanted.weights is None:
        assert intervention["replace"] == "sentence"
        return
    assert step.weights[0].tolist() == pytest.approx(wanted.weights, abs=1e-6)
    for key, rows in found.items():
        expected = [row for layer in wanted.layers for row in layer._asdict()[key]]
        for row, values in zip(rows[0].tolist(), expected, strict=True):
            known = [None if abs(value) == float("inf") else value for value in row]
            assert known == [value if value is None else pytest.approx(value, abs=1e-5) for value in values], key


def test_a_learned_tokenizer_is_refused_in_one_line(untrained):
    model = untrained(GRAPHS["page"][1])
    pieces = SentencePiece.train(["a b c d e"] * 5, 12)
    learned = model.__class__(model.config, Codec(pieces, Vocabulary(LETTERS)), model.target, model.translator)
    with pytest.raises(UserError, match=r"^mine: its tokenizer is sentencepiece, .*seq2seq-attn serve"):
        live_page({"mine": learned})


def test_hard_attention_is_refused_in_one_line(untrained):
    """The page replaces what a step reads, also by nothing and by what another sentence reads."""
    with pytest.raises(UserError, match=r"^mine: .*model\.decoder\.kind=hard.*seq2seq-attn serve"):
        live_page({"mine": untrained(GRAPHS["hard"][1])})


def test_without_the_extra_the_way_to_install_it_is_named(untrained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"^export to html needs onnxscript .*seq2seq_attn\[export\]"):
        export_model(untrained(GRAPHS["page"][1]), "html", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


BLEU = {"fixed": 20.0, "additive": 40.0, "general": 30.0}


def test_the_page_of_a_comparison_has_its_best_arm_and_the_baseline(tmp_path, untrained, monkeypatch):
    arms = {name: SimpleNamespace(name=name, seeds=(7,)) for name in BLEU}
    results = SimpleNamespace(arms=[*arms.values()], best=arms[max(BLEU, key=BLEU.__getitem__)], baseline="fixed")
    found = Comparison(results, tmp_path)
    with pytest.raises(UserError, match=r"needs the model of arm 'additive', which is not here"):
        found.write_live()
    for arm in BLEU:
        found.run(arm).mkdir(parents=True)
    monkeypatch.setattr(TrainedModel, "load", lambda run, device: f"model of {run.relative_to(tmp_path)}")
    monkeypatch.setattr(html, "live_page", lambda models, say: json.dumps(models).encode())
    assert json.loads(found.write_live().read_bytes()) == {
        arm: f"model of runs/{arm}/seed-7" for arm in ("additive", "fixed")
    }
    assert list(json.loads(found.write_live(["general"]).read_bytes())) == ["general"]
    with pytest.raises(UserError, match="no run of arm 'dot'"):
        found.write_live(["dot"])


# In a browser


@pytest.fixture
def visit(browser, graphs):
    """Opens the file of a model from the disk: it can make no request, and its console stays empty."""
    contexts, problems = [], []

    def open_file(name, **options):
        file = graphs(*PAGES)[0] / name / "live.html"
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("request", lambda sent: sent.url == file.as_uri() or problems.append(sent.url))
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert problems == []


def ask(page, question, **request):
    """The page's own answer, as its parts get it, and the milliseconds that it took."""
    script = """async ([question, request]) => {
        const { api } = document.querySelector("attention-page"), start = performance.now();
        const answer = await api[question](request, new AbortController().signal);
        return [answer, performance.now() - start];
    }"""
    return page.evaluate(script, [question, {"model": "model", "source": SOURCE} | request])


LINES = [
    *STUDENTS,
    "  the\u00a0dogs</s> <unk> <unk>.  chaseing\u2028mices ☃!! ☃. ",
    "TOM'S dog...and ÉLÉPHANTS,",
    "懒女孩在图书馆里追逐杰瑞。 汤姆喜欢猫 他们的懒",
    "I like to see you, my friend ! " * 6,
]


@pytest.mark.slow
def test_the_page_reads_words_as_python_does(visit):
    """In the vocabularies of the demo, and in characters; what is read for unknown words, and what is suggested."""
    demo = load("demo").trained
    lowered = Codec(Character(), Vocabulary(["▁", "t", "o", "m", "▁▁"]), lowercase=True)
    page = visit("page")
    script = """([codec, lines]) => {
        const [{ source: { constructor: Coder } }] = document.querySelector("attention-page").api.byName.values();
        const coder = new Coder(codec);
        return lines.map((line) => [coder.pieces(line), coder.labels(line), coder.readAs(line)]);
    }"""
    for codec in (demo.source, demo.target, lowered):
        codec.match_known_forms = codec is not lowered
        found = page.evaluate(script, [html._codec(codec), LINES])
        for line, (pieces, labels, words) in zip(LINES, found, strict=True):
            assert pieces == codec.pieces(line)
            assert labels == codec.labels(line)[:-1]
            assert words == plain(codec.read_as(line))


def same_steps(found, wanted):
    assert [step["token"] for step in found["steps"]] == wanted.tokens
    assert found["source"] == list(wanted.source)
    assert found["read_as"] == plain(wanted.read_as)
    assert found["text"] == wanted.text
    for own, step in zip(found["steps"], wanted.steps, strict=True):
        assert own["log_probability"] == pytest.approx(step.log_probability, abs=1e-4)
        assert own["weights"] == (None if step.weights is None else pytest.approx(step.weights, abs=1e-4))
        assert [each["probability"] for each in own["likely"]] == pytest.approx([p for _, p in step.likely], abs=1e-4)
        for layer, expected in zip(own["layers"], step.layers, strict=True):
            for name, rows in expected._asdict().items():
                for row, values in zip(layer[name], rows, strict=True):
                    assert row == pytest.approx(values, abs=1e-4), name


EDITS = {
    "nothing": [],
    "weights": [{"replace": "weights", "step": 1, "layer": 0, "head": 0, "weights": ROW}],
    "mean": [{"replace": "mean", "step": None, "layer": None, "head": None}],
    "none": [{"replace": "nothing", "step": 0, "layer": None, "head": None}],
    "sentences": [
        {"replace": "sentence", "step": 1, "layer": 0, "head": None, "other": OTHER},
        {"replace": "sentence", "step": 2, "layer": None, "head": None, "other": "k j i h g f e"},
        {"replace": "weights", "step": 0, "layer": None, "head": None, "weights": ROW},
        {"replace": "mean", "step": 0, "layer": None, "head": None},
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["page", "page_layers", "page_sigmoid", "page_fixed"])
def test_the_page_decodes_what_python_decodes(visit, untrained, name):
    model, page = untrained(GRAPHS[name][1]), visit(name)
    for edit in ["nothing"] if name == "page_fixed" else EDITS:
        changes = [Intervention(**each) for each in EDITS[edit]]
        for beam, prefix in ((1, []), (1, ["d", "."]), (4, []), (3, ["k"])):
            options = model.config.search.model_copy(update={"beam_size": beam, "n_best": beam})
            request = {"interventions": EDITS[edit], "prefix": prefix, "beam_size": beam}
            steps = decode_steps(model, SOURCE, prefix=prefix, interventions=changes, options=options)
            same_steps(ask(page, "steps", **request)[0], decoded(model, SOURCE, steps))
            found, _ = ask(page, "hypotheses", **request, n_best=beam)
            wanted = continuations(model, SOURCE, prefix=prefix, interventions=changes, options=options)
            assert [each["tokens"] for each in found] == [each.tokens for each in wanted]
            assert [each["score"] for each in found] == pytest.approx([each.score for each in wanted], abs=1e-4)
