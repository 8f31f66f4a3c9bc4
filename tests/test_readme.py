"""What the pages print is what works.

Here commands are parsed, configurations are checked and links are followed. `test_printed_commands.py` runs everything.
"""

import json
import re
import runpy
from statistics import mean
from types import SimpleNamespace

import pytest
import torch
import yaml
from printed import PAGES, ROOT, blocks, check_command, commands, help_examples, needs_files

from seq2seq_attn.attention import Attention, scorer_class
from seq2seq_attn.cli.app import app
from seq2seq_attn.comparison.experiment import Experiment, experiment_grid
from seq2seq_attn.config import Config
from seq2seq_attn.models.recurrent.decoders import DecoderConfig
from seq2seq_attn.results.records import slug
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import SHIPPED
from seq2seq_attn.strict import parse

EVERY = [block for page in PAGES for block in blocks(page)]
RUN = [block for block in EVERY if block.reason is None]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def each(found):
    return pytest.mark.parametrize("block", found, ids=[f"{block.page}:{block.line}" for block in found])


@each(EVERY)
def test_a_block_says_what_it_is(block):
    assert block.language in {"sh", "python", "yaml", "json", "toml", "text"}


@each([block for block in EVERY if block.language == "sh"])
def test_a_printed_command_has_known_options(block):
    for command in commands(block.text):
        check_command(command)


@each([block for block in EVERY if block.language == "yaml"])
def test_a_printed_configuration_is_valid(block):
    values = yaml.safe_load(block.text)
    if values.keys() <= Experiment.model_fields.keys() and "arms" not in values:  # to be added to the experiment before
        before = [
            each for each in EVERY if each.page == block.page and each.line < block.line and "\narms:" in each.text
        ]
        values = yaml.safe_load(before[-1].text) | values
    if "arms" in values:
        base = next(each for each in EVERY if each.language == "yaml" and each.name == values["base"])
        grid = experiment_grid(values | {"base": yaml.safe_load(base.text)})
        assert len(grid.runs) == len(values["arms"]) * len(values["seeds"])
    else:
        parse(Config, values)


@pytest.mark.parametrize("page", sorted({block.page for block in RUN if block.language == "python"}))
def test_printed_python_runs(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some blocks write files
    monkeypatch.setattr(DecoderConfig, "_kinds", dict(DecoderConfig._kinds))  # a decoder of a page ends with its test
    names = {"__name__": "printed"}  # of all blocks of a page: a later one may use what an earlier one has made
    for block in RUN:
        if (block.page, block.language) == (page, "python"):
            code = compile(block.text, f"{page}:{block.line}", "exec")
            if not needs_files(block):  # those that do are run with their files in test_printed_commands.py
                exec(code, names)


@each([block for block in EVERY if block.language == "json"])
def test_printed_json_is_json(block):
    json.loads(block.text)


@pytest.mark.parametrize("example", help_examples())
def test_an_example_of_the_help_has_known_options(example):
    for command in commands(example):
        check_command(command)


def test_the_readme_names_every_command():
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    section = README.partition("## What you can do")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", section)) == known


def test_the_readme_in_chinese_has_the_same_code_links_and_figures():
    chinese = (ROOT / "README.zh.md").read_text(encoding="utf-8")
    for pattern in (r"^```.*?^```$", r"\]\(([^)]*)\)", r"(?:src|srcset)=\"([^\"]*)", r"\d+\.\d+", r"`[^`\n]+`"):
        both = [re.findall(pattern, text, flags=re.DOTALL | re.MULTILINE) for text in (README, chinese)]
        english, translated = ([each for each in found if "README" not in each[:6]] for found in both)
        assert sorted(translated) == sorted(english)


@pytest.mark.parametrize("page", [*PAGES, "README.zh.md"])
def test_what_is_linked_is_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for path, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)]*)\)", text):
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), path
        if anchor:
            linked = target.read_text(encoding="utf-8")
            titles = re.findall(r"^#+ (.*)", linked, flags=re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            anchors += re.findall(r'<a id="([\w-]+)">', linked)
            assert anchor in anchors


def test_the_scorer_of_the_guide_keeps_the_contract():
    (block,) = (each for each in EVERY if "class Gated" in each.text)
    exec(block.text, {"__name__": "printed"})
    attention = Attention(scorer_class("gated")(query_size=3, key_size=5))
    states, query = torch.randn(2, 7, 5), torch.randn(2, 4, 3)
    is_token = torch.arange(7) < torch.tensor([[7], [4]])
    context, weights = attention(query, attention.prepare(states, is_token=is_token))
    torch.testing.assert_close(context, weights @ states)
    assert weights[1, :, 4:].sum() == 0


def test_figures_of_the_demo_are_those_of_its_results():
    results = json.loads((ROOT / "experiments/tom-and-jerry/results/results.json").read_text(encoding="utf-8"))
    rivals = results["aer_rivals"]
    page = (ROOT / "experiments/tom-and-jerry/README.md").read_text(encoding="utf-8")
    assert f"of the diagonal {rivals['diagonal']:.3f}," in page
    assert f"of eflomal {rivals['eflomal']:.3f}." in page
    assert not any(arm.get("unconverged") for arm in results["arms"])  # "until it no longer improved"
    table = [
        (
            arm["name"],
            f"{arm['scores']['bleu']['mean']:.1f}",
            f"{results['by_length']['arms'][arm['name']][-1]['scores']['bleu']['value']:.1f}",
            f"{arm['scores']['aer']['mean']:.3f}" if "aer" in arm["scores"] else "–",
        )
        for arm in results["arms"]
    ]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in README.splitlines()
        if row.startswith(tuple(f"| {arm['name']} |" for arm in results["arms"]))
    ]
    assert list(map(tuple, rows)) == table
    shipped = json.loads((SHIPPED / "attention/metrics.json").read_text(encoding="utf-8"))["test"]["aer"]
    assert f"| argmax | {shipped:.3f} |" in (ROOT / "docs/alignment.md").read_text(encoding="utf-8")


def test_figures_of_real_text_are_those_of_their_results():
    results = json.loads((ROOT / "experiments/multi30k-en-de/results/results.json").read_text(encoding="utf-8"))
    scores = [arm["scores"]["bleu"] for arm in results["arms"]]
    distracted, attention, transformer, normalized = (f"{score['mean']:.1f} ± {score['std']:.1f}" for score in scores)
    page = (ROOT / "experiments/multi30k-en-de/README.md").read_text(encoding="utf-8")
    assert f"| **additive attention, this page**, mean of five seeds, one model | 6 | **{attention}** |" in page
    assert f"| distracted, this page, mean of five seeds, one model | 6 | {distracted} |" in page
    assert f"| Transformer, this page, mean of three seeds, one model | 2 | {transformer} |" in page
    assert f"| layer normalization, this page, mean of five seeds, one model | 1 | {normalized} |" in page


def test_the_scores_of_cased_captions_are_those_of_their_results():
    folder = ROOT / "experiments/multi30k-en-de-cased"
    (arm,) = Results.load(folder / "results/results.json").arms
    cased, lowercased = (
        f"{score.mean:.1f} ± {score.std:.1f}" for score in (arm.scores["bleu"], arm.scores["bleu_lc_tok"])
    )
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert f"| BLEU, cased and detokenized (sacrebleu `13a`) | **{cased}** | |" in page
    assert f"| BLEU of lowercased, normalized tokens | {lowercased} | " in page
    other = (ROOT / "experiments/multi30k-en-de/README.md").read_text(encoding="utf-8")
    assert f"has {cased} cased BLEU, and {lowercased} of lowercased tokens" in other


def tables_and_results(name):
    made = SimpleNamespace(**runpy.run_path(str(ROOT / "experiments/tables.py")))
    return made, Results.load(ROOT / "experiments" / name / "results/results.json")


def test_the_page_on_capacity_has_the_figures_on_training_sentences():
    folder = ROOT / "experiments/capacity"
    page = (folder / "README.md").read_text(encoding="utf-8")
    runs = json.loads((folder / "results/training_sentences.json").read_text(encoding="utf-8"))
    arms = Results.load(folder / "results/results.json").arms
    assert len(runs) == len(arms) == 4
    for arm in arms:
        found = runs[slug(arm.name)]
        cells = [f"{mean(run[band] for run in found):.1f}" for band in found[0]]
        assert f"| {' | '.join([arm.name, *cells])} |" in page


@pytest.mark.parametrize(
    "name",
    [
        "ablation",
        "bible",
        "capacity",
        "dialog-babi",
        "digit-strings",
        "ladder",
        "normalizers",
        "pictograms",
        "precision",
        "pronunciation",
        "recipe",
        "tatoeba-en-fr",
        "tom-and-jerry",
    ],
)
def test_the_tables_of_a_page_are_those_of_its_results(name):
    made, results = tables_and_results(name)
    page = (ROOT / "experiments" / name / "README.md").read_text(encoding="utf-8")
    assert made.arms_table(results) in page
    assert not results.contrasts or made.contrasts_table(results) in page


def test_the_forms_that_are_right_in_each_language_are_those_of_its_results():
    folder = ROOT / "experiments/inflection"
    page = (folder / "README.md").read_text(encoding="utf-8")
    languages = sorted(path.parent for path in folder.glob("results/*/results.json"))
    assert len(languages) == 8
    for language in languages:
        scores = [arm.scores["exact_match"] for arm in Results.load(language / "results.json").arms]
        cells = [f"{score.mean:.1f} ± {score.std:.1f}" for score in scores]
        assert f"| {language.name} | {' | '.join([*cells, ''][:3])} |" in page


def test_what_attention_brings_beyond_the_lengths_of_training_is_what_was_measured():
    folder = ROOT / "experiments/scan-length"
    results = Results.load(folder / "results-held-out/results.json")
    page = (folder / "README.md").read_text(encoding="utf-8")
    (comparison,) = results.comparisons
    ends = f"{comparison.difference:+.1f} [{comparison.joint.low:+.1f}, {comparison.joint.high:+.1f}]"
    for arm, last in zip(results.arms, ("baseline", f"**{ends}**"), strict=True):
        score = arm.scores["exact_match"]
        assert f"| {arm.name} | {score.mean:.1f} ± {score.std:.1f} | {last} |" in page


def test_the_tables_on_inference_are_what_was_simulated():
    folder = ROOT / "experiments/inference"
    page = (folder / "README.md").read_text(encoding="utf-8")
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    tests = "sentences", "runs (Welch)", "bootstrap of both", "joint"
    for runs, rates in found["false"].items():
        cells = [f"{100 * rates[test]:.1f} %" if test in rates else "–" for test in tests]
        assert f"| {' | '.join([runs, *cells])} |" in page
    tests = "runs (Welch)", "bootstrap of both", "joint", "joint, own df"
    for runs, rates in found["false, other numbers"].items():
        assert f"| {' | '.join([runs, *(f'{100 * rates[test]:.1f} %' for test in tests)])} |" in page
    for experiment, power in found["detectable"].items():
        runs, comparisons = (part.split()[0] for part in experiment.split(", "))
        printed = ", ".join(f"{each:.2f}" for each in power["printed"])
        cells = runs, comparisons, f"{power['detectable']:.2f}", f"{100 * power['power']:.1f} %", printed
        assert f"| {' | '.join(cells)} |" in page
        assert 0.765 <= power["power"] < 0.835  # "77 to 83 %"


def test_the_table_of_time_to_quality_is_that_of_its_results():
    made = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks/quality.py")))
    results = made.measured()
    assert results[0]["system"] == "seq2seq_attn, bf16"
    assert made.table(results) in (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    epochs = [{"minutes": 2.0, "bleu": 29.9}, {"minutes": 4.0, "bleu": 35.0}, {"minutes": 6.0, "bleu": 34.0}]
    row = made.table([{"system": "one", "curve": epochs}]).splitlines()[-1]
    assert row == "| one | 4.0 | 4.0 | not reached | 35.0 | 6.0 |"


def test_the_effect_of_averaging_epochs_on_a_page_is_the_one_that_was_measured():
    folder = ROOT / "experiments/recipe"
    found = json.loads((folder / "results/average.json").read_text(encoding="utf-8"))
    mean, best = (sum(found[key]) / len(found[key]) for key in ("mean", "best epoch"))
    said = f"{mean:.1f} instead of {best:.1f} ({found['difference']:+.1f} [{found['low']:+.1f}, {found['high']:+.1f}])"
    assert said in " ".join((folder / "README.md").read_text(encoding="utf-8").split())


def test_the_effects_of_search_on_a_page_are_those_that_were_measured():
    folder = ROOT / "experiments/multi30k-en-de"
    table = runpy.run_path(str(folder / "search.py"))["table"]
    found = json.loads((folder / "results/search.json").read_text(encoding="utf-8"))
    assert table(found) in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["multi30k-en-de", "multi30k-de-en"])
def test_a_table_that_a_page_repeats_is_the_one_that_was_made(name):
    folder = ROOT / "experiments" / name
    made = (folder / "results/table.md").read_text(encoding="utf-8").partition("\n## ")[0]
    table = made[made.index("| Arm |") :].strip()
    assert table in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["commands.md", "configuration.md", "api-attention.md", "api-models.md"])
def test_a_page_that_is_made_from_the_package_is_up_to_date(page, monkeypatch):
    """`make reference` writes it again."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from reference import PAGES_MADE

    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == PAGES_MADE[page]()


def test_every_key_of_a_configuration_is_described(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from reference import undescribed

    assert undescribed() == []


def test_every_feature_names_tests_that_exist():
    rows = [line for line in (ROOT / "docs/features.md").read_text(encoding="utf-8").splitlines() if "`tests/" in line]
    named = [re.findall(r"`(tests/[\w/]+\.py)`", row) for row in rows]
    assert rows
    assert all(named)
    assert [path for each in named for path in each if not (ROOT / path).is_file()] == []
