"""Words with factors, and several sources: learned where a word alone says too little, and used as any source."""

import itertools
import json
import re

import numpy as np
import pytest
from plain_recipe import NO_DROPOUT, constant

import seq2seq_attn as s2s
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs import MODEL
from seq2seq_attn.strict import override, parse

ENCODER = {"kind": "recurrent", "hidden_size": 12}
SOURCES = {
    "words alone": ("word", None, ENCODER),
    "sum": ("factored", {"kind": "factored"}, {"kind": "factored", "encoder": ENCODER}),
    "concat": (
        ["word", "case"],
        {"kind": "factored"},
        {"kind": "factored", "combine": "concat", "sizes": [6], "encoder": ENCODER},
    ),
    "two sources": (
        ["word", "case"],
        {"kind": "multi_source"},
        {"kind": "multi_source", "encoders": [ENCODER, ENCODER]},
    ),
    "two sources, one encoder": (
        ["word", "case"],
        {"kind": "multi_source", "shared": True},
        {"kind": "multi_source", "encoders": [ENCODER]},
    ),
}
SLOW = "concat", "two sources, one encoder"  # whose parts are tested in tests/models
KINDS = [
    pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in SOURCES if kind != "words alone"
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Every sentence of one or two words: what is beside a word says whether its translation is in capitals."""
    folder, words = tmp_path_factory.mktemp("data"), list(itertools.product("ab", "UL"))
    sentences = [each for length in (1, 2) for each in itertools.product(words, repeat=length)]
    lines = {
        "word": (" ".join(word for word, _ in each) for each in sentences),
        "case": (" ".join(case for _, case in each) for each in sentences),
        "factored": (" ".join(f"{word}|{case}" for word, case in each) for each in sentences),
        "target": (" ".join(word.upper() if case == "U" else word for word, case in each) for each in sentences),
        "align": (" ".join(f"{place}-{place}" for place in range(len(each))) for each in sentences),
    }
    for side, text in lines.items():
        (folder / side).write_text("".join(f"{line}\n" for line in text))
    return folder


def values_of(data, kind, *changes):
    sides, source, encoder = SOURCES[kind]
    paths = [f"{data}/{side}" for side in sides] if isinstance(sides, list) else f"{data}/{sides}"
    files = {"source": paths, "target": f"{data}/target"}
    values = {
        "data": {"train": files, "validation": files, "test": files | {"alignments": f"{data}/align"}},
        "source": source,
        "text": {"tokenizer": "word"},
        "model": {
            "embedding_size": 16,
            "encoder": encoder,
            "decoder": {"kind": "bahdanau", "hidden_size": 24},
            "dropout": NO_DROPOUT,
        },
        "training": {
            "max_epochs": 60,
            "validate_every": 60,
            "batch_size": 20,
            "monitor": "loss",
            "accelerator": "cpu",
            **constant(0.03),
        },
        "search": {"beam_size": 2},
        "evaluation": {"tokenize": "none"},
    }
    return override(values, changes)


def lines_of(data, kind):
    sides, _, _ = SOURCES[kind]
    files = sides if isinstance(sides, list) else [sides]
    return ["\t".join(lines) for lines in zip(*((data / side).read_text().splitlines() for side in files), strict=True)]


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """The model of each kind, trained when a test first asks for it."""
    known = {}

    def model(kind):
        if kind not in known:
            folder = tmp_path_factory.mktemp("runs") / "run"
            known[kind] = s2s.train(parse(Config, values_of(data, kind)), folder, silent=True)
        return known[kind]

    return model


@pytest.mark.parametrize("kind", ["words alone", *KINDS])
def test_the_task_is_learned_with_what_is_beside_the_words_and_not_without(data, trained, kind):
    targets = (data / "target").read_text().splitlines()
    found = trained(kind).translate([*lines_of(data, kind), ""]).sentences
    right = np.mean([ours == theirs for ours, theirs in zip(found, targets, strict=False)])
    assert right <= 0.3 if kind == "words alone" else right == 1
    assert found[-1] == ""


@pytest.mark.parametrize("kind", ["concat", "two sources"])
def test_a_resumed_training_ends_with_the_same_weights(data, kind, tmp_path):
    for run, epochs in ("whole", 4), ("parts", 2), ("parts", 4):
        changes = f"training.max_epochs={epochs}", "training.validate_every=2", "training.batch_size=10"
        config = parse(Config, values_of(data, kind, *changes))
        s2s.train(config, tmp_path / run, if_exists="resume" if (tmp_path / run).exists() else "refuse", silent=True)
    assert (tmp_path / "parts" / MODEL).read_bytes() == (tmp_path / "whole" / MODEL).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_teacher_forcing_and_the_other_sentences_of_a_batch_change_nothing(data, trained, kind):
    model = trained(kind)
    lines, targets = lines_of(data, kind), (data / "target").read_text().splitlines()
    chosen = [0, 3, 7, 19]
    scores = model.score([(lines[each], targets[each]) for each in chosen])
    for each, score in zip(chosen, scores, strict=True):
        alone = model.steps(lines[each], targets[each])
        assert alone.log_probability == pytest.approx(score.log_probability, abs=1e-5)
        assert model.translate([lines[each]]).sentences == [targets[each]]
        assert alone.source == model.attention(lines[each], targets[each]).source


@pytest.mark.parametrize(
    ("kind", "line", "labels"),
    [
        ("sum", "a|U b|L", ("a|U", "b|L", "</s>")),
        ("sum", "a b\tU L", ("a|U", "b|L", "</s>")),
        ("two sources", "a b\tU L", ("a", "b", "</s>", "U", "L", "</s>")),
    ],
)
def test_the_weights_are_those_of_words_with_factors_or_of_all_sources(trained, kind, line, labels):
    model = trained(kind)
    found = model.attention(line)
    assert found.source == labels
    assert found.target == ("A", "b", "</s>")
    assert found.weights.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-3)
    assert model.attention_maps(line, "A b").cross.layers[0].shape[-1] == len(labels)
    read = model.steps(line, interventions=[{"replace": "weights", "weights": [1, *[0] * (len(labels) - 1)]}])
    assert read.steps[0].weights == [1, *[0] * (len(labels) - 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_alignments_count_the_words_and_the_weights_are_measured_on_the_test_set(data, trained, kind):
    model = trained(kind)
    pairs = list(zip(lines_of(data, kind), (data / "target").read_text().splitlines(), strict=True))
    assert model.align(pairs).agreement(data / "align").error_rate == pytest.approx(model.metrics["test"]["aer"])
    words = {word for each in model.align(pairs) for word, _ in each.words}
    assert words <= ({"a", "b"} if "sources" not in kind else {"a", "b", "U", "L", "</s>"})
    effects = model.faithfulness(pairs).interventions.effects
    assert effects["uniform"].perplexity > 1


@pytest.mark.parametrize("kind", ["sum", "two sources"])
def test_runs_are_ensembles_and_are_loaded_verified_and_sampled(data, trained, kind):
    model, lines = trained(kind), lines_of(data, kind)[:6]
    again = s2s.load(model.folder)
    assert again.translate(lines, ensemble=[model]).sentences == model.translate(lines).sentences
    alone = [again.translate([line], temperature=1, seed=2).sentences[0] for line in lines]
    assert again.translate(lines, temperature=1, seed=2).sentences == alone
    assert not s2s.verify(model.folder).is_wrong
    other = trained("sum" if kind == "two sources" else "two sources")
    with pytest.raises(UserError, match="front ends that differ"):
        model.translate(lines, ensemble=[other])


def test_a_factor_in_a_file_of_its_own_or_after_a_bar_is_the_same(data, trained):
    model = trained("sum")
    barred, columns = lines_of(data, "sum"), lines_of(data, "concat")
    assert model.translate(barred).sentences == model.translate(columns).sentences


def test_the_command_line_reads_bars_and_tabs(data, trained, program, refused):
    for kind in ("sum", "two sources"):
        model, lines = trained(kind), lines_of(data, kind)[:9]
        answer = program("translate", model.folder, stdin="\n".join(lines).encode())
        assert answer.out.splitlines() == model.translate(lines).sentences
        record = json.loads(program("translate", model.folder, "--json", stdin=b"a\tU").out)
        assert record["tokens"] == (["a|U", "</s>"] if kind == "sum" else ["a", "</s>", "U", "</s>"])
        assert "--prefix FILE" in refused("translate", model.folder, "--tabs", "prefix", stdin=b"a\tU")
        assert "line 1: 'b" in refused("translate", model.folder, stdin=b"b\t\tU")
        with pytest.raises(UserError, match="line 2: 'b"):
            model.score([("a\tU", "A"), ("b\t\tU", "B")])


def test_words_and_factors_that_are_unknown_are_named(trained):
    found = trained("sum").translate(["a|U x|L b|?", "a|L"])
    assert [each.unknown for each in found] == [("x|L", "b|?"), ()]
    assert trained("two sources").translate(["a x\tU ?"])[0].unknown == ("x", "?")
    assert trained("two sources").translate(["a\t"]).sentences != [""]


@pytest.mark.parametrize("kind", ["concat", "two sources"])
def test_links_between_words_guide_the_weights(data, kind, tmp_path):
    changes = [
        f"training.guided_alignment={{links: {data}/align, weight: 5}}",
        "training.max_epochs=30",
        "training.validate_every=30",
    ]
    model = s2s.train(parse(Config, values_of(data, kind, *changes)), tmp_path / "run", silent=True)
    assert model.metrics["test"]["aer"] < 0.1


def test_vectors_of_another_text_are_not_taken_over(data, trained, tmp_path):
    (tmp_path / "words").write_text("c|U a|L\n")
    (tmp_path / "target").write_text("C a\n")
    values = values_of(data, "sum", f"training.start_from={trained('sum').folder}", "text.lowercase=true")
    files = {"source": str(tmp_path / "words"), "target": str(tmp_path / "target")}
    values["data"] = {"train": files, "validation": files}
    with pytest.raises(UserError, match=r"start_from.*learned from other text"):
        s2s.train(parse(Config, values), tmp_path / "run", silent=True)
    same = values_of(
        data,
        "sum",
        f"training.start_from={trained('sum').folder}",
        "training.max_epochs=1",
        "training.validate_every=1",
    )
    again = s2s.train(parse(Config, same), tmp_path / "again", silent=True)
    assert again.translate(["a|U b|L"]).sentences == ["A b"]


def test_files_columns_and_lines_in_memory_with_tabs_are_the_same_text(data, tmp_path):
    values = values_of(data, "two sources", "training.max_epochs=1", "training.validate_every=1", "data.test=null")
    files = {"source": [data / "word", data / "case"], "target": data / "target"}
    lines = {"source": lines_of(data, "two sources"), "target": (data / "target").read_text().splitlines()}
    rows = zip(lines["source"], lines["target"], strict=True)
    (tmp_path / "table").write_text("".join("{1}\t{2}\t{0}\n".format(*(f"{a}\t{b}".split("\t"))) for a, b in rows))
    table = {"tsv": tmp_path / "table", "columns": [[2, 0], 1]}
    weights = []
    for name, given in ("files", files), ("lines", lines), ("columns", table):
        own = values | {"data": {"train": given, "validation": files}}
        weights.append((s2s.train(own, tmp_path / name, silent=True).folder / MODEL).read_bytes())
    assert weights[0] == weights[1] == weights[2]


@pytest.mark.parametrize(
    ("line", "named"),
    [("a\t|U", r"word, line 2: 'a\\t\|U' has a TAB"), ("a b", "line 2: .*2 words, and 1 values of factor 1")],
)
def test_a_wrong_line_is_refused_with_its_file_its_number_and_its_value(data, line, named, tmp_path):
    for name, lines in {"word": ["a", line], "case": ["U", "U"], "target": ["A", "A"]}.items():
        (tmp_path / name).write_text("".join(f"{each}\n" for each in lines))
    files = {"source": [str(tmp_path / "word"), str(tmp_path / "case")], "target": str(tmp_path / "target")}
    values = values_of(data, "concat") | {"data": dict.fromkeys(("train", "validation"), files)}
    with pytest.raises(UserError, match=named) as refused:
        s2s.train(parse(Config, values), tmp_path / "run", silent=True)
    assert str(tmp_path / "word") in str(refused.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "changes",
    [
        ["model.tie_embeddings=all"],
        ["search.shortlist=5"],
        ["search.replace_unknown=true"],
        ["model.pretrained_embeddings.source=glove.txt"],
        ["text.placeholders=[url]"],
        ["source.text={tokenizer: word, placeholders: [url]}"],
        ["source.separator=' '"],
        ["model.encoder={kind: factored, combine: sum, sizes: [6]}"],
        ["model.encoder={kind: factored, encoder: {kind: multi_source, encoders: [{}]}}"],
        ["data.train.tag=<a>"],
        ["data.train.source=[a, b, c]"],
    ],
)
def test_options_that_do_not_suit_the_source_are_refused_in_one_line(data, changes):
    with pytest.raises(UserError, match=re.escape(changes[-1].partition("=")[0])) as refused:
        parse(Config, values_of(data, "concat", *changes))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        ("words alone", "data.train.source=[a, b]", r"data\.train\.source: 2 files, .* text has one file"),
        (
            "two sources",
            "data.train={source: null, target: null, tsv: a, columns: [[0, 1, 2], 3]}",
            r"data\.train\.columns: 3 columns, .* has one column, or 2",
        ),
        ("words alone", "source={kind: factored}", r"model\.encoder\.kind=recurrent does not read"),
        ("two sources", "source={kind: factored}", r"source\.kind|model\.encoder\.kind=multi_source does not read"),
    ],
)
def test_an_encoder_or_files_for_another_source_are_refused(data, kind, change, named):
    with pytest.raises(UserError, match=named):
        parse(Config, values_of(data, kind, change))


@pytest.mark.parametrize("kind", ["sum", "two sources"])
@pytest.mark.parametrize(
    "use",
    [
        lambda model, line: model.steps([line]),
        lambda model, line: model.neighbors(line),
        lambda model, line: model.export("html", model.folder.parent / "page.html"),
        lambda model, line: model.export("onnx", model.folder.parent / "onnx"),
        lambda model, line: model.translate([line], shortlist=5),
        lambda model, line: model.translate([line], replace_unknown=True),
    ],
    ids=["tokens", "neighbors", "html", "onnx", "shortlist", "replace_unknown"],
)
def test_what_needs_one_sequence_of_tokens_is_refused_in_one_line(trained, kind, use):
    with pytest.raises(UserError, match="needs a source of text alone, and that of this model is") as refused:
        use(trained(kind), "a\tU")
    assert "\n" not in str(refused.value)
