"""The evidence of a comparison recomputes its results, and its runs are not trained again."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from toy_experiment import EXPERIMENT

import seq2seq_attn as s2s
from seq2seq_attn.analysis.word_alignment import BidirectionalLinks
from seq2seq_attn.comparison import compare as comparing
from seq2seq_attn.comparison.compare import compare, plan
from seq2seq_attn.comparison.evidence import known_settings, recompute
from seq2seq_attn.comparison.experiment import experiment_grid, read_experiment
from seq2seq_attn.comparison.samplers import Random
from seq2seq_attn.errors import UserError
from seq2seq_attn.report.write import write_report
from seq2seq_attn.results.evidence import EVIDENCE, Evidence
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs.corpora import read_test

ROOT = Path(__file__).parents[2]
PUBLISHED = sorted(ROOT.glob(f"experiments/**/{EVIDENCE}"))


@pytest.fixture(scope="module")
def made(tmp_path_factory, toy_corpus):
    path = tmp_path_factory.mktemp("evidence") / "experiment.yaml"
    path.write_text(EXPERIMENT.format(folder=toy_corpus))
    compare(read_experiment(path), path.parent / "mine", bar=None)
    return path.parent / "mine"


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "mine")


def changed(folder, change):
    """Rewrites the evidence after a change to its values."""
    path = folder / EVIDENCE
    values = json.loads(gzip.decompress(path.read_bytes()))
    change(values)
    path.write_bytes(gzip.compress(json.dumps(values).encode()))


def observed(folder):
    names = ("attention.json", "corpus_attention.json", "examples.json", "sentences.json")
    return {name: (folder / name).read_bytes() for name in names}


def test_all_values_are_recomputed_without_the_runs(folder):
    shutil.rmtree(folder / "runs")
    checked = recompute(folder)
    assert checked.differences == []
    assert checked.results == Results.load(folder / "results.json")
    assert checked.values > 200


def test_scores_are_those_of_the_translations_and_links(folder, grid):
    """Not those beside them: every translation becomes its reference, and one link for each pair remains."""
    references = grid.runs[0].config.data.test.target.read_text().splitlines()

    def change(values):
        attention = values["arms"][1]
        assert attention["name"] == "attention"
        for run in attention["runs"]:
            run["translations"], run["links"] = references, ["0-0"] * len(references)
        attention["runs"][1]["metrics"]["test"]["perplexity"] = 4.25

    changed(folder, change)
    checked = recompute(folder)
    arms = checked.results.arms
    assert [arms[1].scores[key].mean for key in ("bleu", "chrf", "exact_match")] == pytest.approx([100, 100, 100])
    gold = read_test(grid.runs[0].config.data.test).gold.sure
    right = sum((0, 0) in links for links in gold)
    assert arms[1].scores["aer"].mean == pytest.approx(1 - 2 * right / (len(gold) + sum(map(len, gold))))
    changed_keys = {line.split(":")[0] for line in checked.differences}
    assert {f"arms.1.scores.{key}.mean" for key in ("aer", "bleu", "chrf", "perplexity")} <= changed_keys
    assert not any(key.startswith("arms.0") for key in changed_keys)


def test_times_of_other_machines_are_no_part_of_the_mean(folder):
    """That of a run on a GPU beside one on a CPU would be the time of neither."""

    def change(values):
        values["arms"][1]["runs"][1]["metrics"]["made_with"]["hardware"] = "NVIDIA H200"

    first, second = (run.metrics["training"] for run in Evidence.load(folder / EVIDENCE).arms[1].runs)
    changed(folder, change)
    checked = recompute(folder)
    arm, before = checked.results.arms[1], Results.load(folder / "results.json").arms[1]
    assert (arm.train_seconds, arm.tokens_per_second) == (first["seconds"], first["tokens_per_second"])
    assert before.train_seconds == pytest.approx((first["seconds"] + second["seconds"]) / 2)
    keys = {line.split(":")[0] for line in checked.differences}
    assert keys == {"hardware", "arms.1.train_seconds", "arms.1.tokens_per_second"}


def test_another_corpus_is_refused_by_name(folder, grid):
    (path,) = {run.config.data.test.target for run in grid.runs}
    text = path.read_text()
    try:
        path.write_text(text.replace("a", "b", 1))
        with pytest.raises(UserError, match=rf"{path}: not the file that the results were computed from"):
            recompute(folder)
        path.unlink()
        with pytest.raises(UserError, match=rf"{path}: no such file; .*`seq2seq-attn data list`"):
            recompute(folder)
    finally:
        path.write_text(text)


def test_malformed_evidence_is_refused_in_one_line(folder):
    (folder / EVIDENCE).write_bytes(gzip.compress(b'{"experiment": {}}'))
    with pytest.raises(UserError, match=r"evidence\.json\.gz: experiment\.baseline: the key is missing[^\n]*$"):
        recompute(folder)


def test_what_is_no_evidence_is_refused_with_the_name_that_evidence_has(folder):
    for path, reason in ((folder, "a folder, not a file"), (folder / "results.json", "experiment: ")):
        with pytest.raises(UserError, match=rf"{path}: {reason}.*; `seq2seq-attn compare` writes it as {EVIDENCE}$"):
            Evidence.load(path)


def test_a_mistake_in_a_configuration_is_blamed_on_the_file(folder):
    changed(folder, lambda values: values["arms"][0]["configuration"]["training"].update(batch_size=0))
    with pytest.raises(UserError, match=r"evidence\.json\.gz: training\.batch_size = 0"):
        recompute(folder)


def test_missing_entries_are_refused(folder):
    changed(folder, lambda values: values["arms"][1]["runs"][0]["links"].pop())
    with pytest.raises(UserError, match="links has 31 entries for 32 translations"):
        Evidence.load(folder / EVIDENCE)


def test_the_file_is_the_same_for_the_same_runs(folder, grid):
    before = (folder / EVIDENCE).read_bytes()
    compare(grid, folder, bar=None)
    assert (folder / EVIDENCE).read_bytes() == before


def test_a_seed_is_added_to_earlier_runs_without_training_them_again(folder, values, tmp_path, monkeypatch):
    trained, complete_all = [], comparing.complete_all

    def counting(runs, *rest):
        trained.extend(runs)
        return complete_all(runs, *rest)

    monkeypatch.setattr(comparing, "complete_all", counting)
    grid = experiment_grid(values | {"seeds": [1, 2, 3]})
    more = compare(grid, tmp_path / "more", evidence=folder / EVIDENCE, bar=None)
    assert [(run.arm, run.seed) for run in trained] == [("distracted", 3), ("attention", 3)]
    before = Results.load(folder / "results.json")
    for arm, old in zip(more.arms, before.arms, strict=True):
        assert (arm.seeds, old.seeds) == ((1, 2, 3), (1, 2))
        assert arm.scores["bleu"] != old.scores["bleu"]
    write_report(tmp_path / "more")
    assert recompute(tmp_path / "more").differences == []
    assert observed(tmp_path / "more") == observed(folder)  # of the first runs, which are those of before
    found = s2s.Comparison.load(tmp_path / "more")
    assert found.run("attention").name == "seed-3"  # the only one that was trained here
    assert found.run("attention", 1).name == "seed-1"
    assert [len(arm.runs) for arm in Evidence.load(tmp_path / "more" / EVIDENCE).arms] == [3, 3]


def test_with_evidence_of_all_runs_nothing_is_trained(folder, grid, tmp_path):
    changed(folder, lambda values: [arm["configuration"]["model"]["encoder"].pop("kind") for arm in values["arms"]])
    again = compare(grid, tmp_path / "again", evidence=folder / EVIDENCE, bar=None)
    assert again == Results.load(folder / "results.json")
    assert not list((tmp_path / "again/runs").glob("*/seed-*"))
    assert write_report(tmp_path / "again")
    assert observed(tmp_path / "again") == observed(folder)


@pytest.mark.parametrize("before", ["distracted", "attention"])
def test_observations_of_earlier_arms_stand_beside_those_of_new_ones(folder, grid, tmp_path, before):
    """One arm from its evidence and the other from its run folders: the files are those of a comparison of both."""
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(folder, first, ignore=shutil.ignore_patterns("runs"))
    changed(first, lambda values: values.update(arms=[arm for arm in values["arms"] if arm["name"] == before]))
    shutil.copytree(folder, second, ignore=shutil.ignore_patterns(before, *observed(folder)))
    compare(grid, second, evidence=first / EVIDENCE, bar=None)
    assert observed(second) == observed(folder)


def test_evidence_of_another_configuration_is_refused(folder, values, tmp_path):
    grid = experiment_grid(values, overrides=("training.max_epochs=3",))
    with pytest.raises(UserError, match=r"arm 'distracted' was trained with training\.max_epochs=2, not 3"):
        compare(grid, tmp_path / "other", evidence=folder / EVIDENCE, bar=None)


def test_evidence_of_another_test_set_is_refused_before_training_even_if_no_arm_is_in_it(folder, values, tmp_path):
    others = values | {"baseline": "new", "arms": {"new": {}}, "seeds": [1]}
    said = []
    compare(experiment_grid(others), tmp_path / "new", evidence=folder / EVIDENCE, say=said.append, bar=None)
    assert f"0 of 1 runs are in {folder / EVIDENCE}" in said
    grid = experiment_grid(others, overrides=("data.test.alignments=null",))
    with pytest.raises(UserError, match=r"evidence\.json\.gz: is of another test set, .*; compare without --evidence"):
        compare(grid, tmp_path / "other", evidence=folder / EVIDENCE, bar=None)
    assert not list((tmp_path / "other").glob("runs/*"))


def test_what_an_earlier_report_had_of_arms_that_are_gone_is_removed(folder, values, tmp_path, drawn, monkeypatch):
    """Evidence alone has no observations; the page would name arms that the results lack."""
    with monkeypatch.context() as patch:
        patch.setattr("seq2seq_attn.report.write._figures", drawn)
        write_report(folder)
    assert (folder / "attention_1_attention.png").exists()
    evidence = shutil.copy(folder / EVIDENCE, tmp_path / "earlier.json.gz")
    alone = values | {"baseline": "distracted", "arms": {"distracted": values["arms"]["distracted"]}}
    compare(experiment_grid(alone), folder, evidence=evidence, bar=None)
    monkeypatch.setattr("seq2seq_attn.report.write._figures", drawn)
    written = write_report(folder)
    figures = {path for path in folder.iterdir() if path.suffix in (".png", ".svg")}
    assert figures == {path for path in written if path.suffix in (".png", ".svg")}
    assert not (folder / "corpus_attention.json").exists()


def test_evidence_of_runs_with_another_scorer_or_other_links_is_refused(values, tmp_path):
    """The text of the configuration is the same; recomputing needs neither file."""
    (tmp_path / "scorer.py").write_text(
        "from seq2seq_attn.attention import Dot\n\n\nclass Mine(Dot):\n    pass\n", encoding="utf-8"
    )
    links = tmp_path / "links"
    links.write_text("0-0\n" * 40, encoding="utf-8")
    mine = {
        "model": {"decoder": {"hidden_size": 12}, "context": {"scorer": f"{tmp_path}/scorer.py:Mine"}},
        "training": {"max_epochs": 1, "guided_alignment": {"links": str(links)}},
    }
    experiment = values | {"seeds": [1], "arms": {"mine": mine}, "baseline": "mine"}
    compare(experiment_grid(experiment), tmp_path / "first", bar=None)
    grid, earlier = experiment_grid(experiment | {"seeds": [1, 2]}), tmp_path / "first" / EVIDENCE
    for name in ("scorer.py", "links"):
        before = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(f"{before}\n", encoding="utf-8")
        with pytest.raises(UserError, match=f"{name}: not the file that the results were computed from"):
            compare(grid, tmp_path / "second", evidence=earlier, bar=None)
        (tmp_path / name).write_text(before, encoding="utf-8")
    (tmp_path / "links").unlink()
    assert recompute(tmp_path / "first").differences == []


def test_a_plan_has_the_runs_of_the_evidence_as_done_and_refuses_what_the_comparison_refuses(folder, values, tmp_path):
    """Also an arm whose width follows from the others, and which is in the evidence with another one."""
    evidence = folder / EVIDENCE

    def planned(more=(), **changes):
        grid = experiment_grid({**values, "seeds": [1, 2, 3], **changes}, overrides=more)
        return plan(grid, tmp_path / "new", evidence=evidence)

    before = sorted(tmp_path.rglob("*"))
    rows = planned()
    states = {(arm, seed): "new" if seed == 3 else "done" for arm in ("distracted", "attention") for seed in (1, 2, 3)}
    assert {(row.run.arm, row.run.seed): row.progress.state for row in rows} == states
    for run in Evidence.load(evidence).arms[0].runs:
        (row,) = (each for each in rows if (each.run.arm, each.run.seed) == ("distracted", run.seed))
        assert (row.progress.epoch, row.progress.score) == (run.curve.epoch[-1], run.curve.validation_score[-1])
        assert str(evidence) in str(row.more)
    with pytest.raises(UserError, match=r"arm 'distracted' was trained with training\.max_epochs=2, not 3"):
        planned(("training.max_epochs=3",))
    with pytest.raises(UserError, match=r"arm 'attention' was not tuned; compare without --evidence"):
        planned(tune={"arms": ["attention"], "values": {"training.label_smoothing": [0.0, 0.1]}})
    wider = {**values["arms"]["distracted"], "match_parameters": True}
    with pytest.raises(UserError, match=r"arm 'distracted' was trained with model\.decoder\.hidden_size=10, not 12;"):
        planned(arms={**values["arms"], "distracted": wider})
    assert sorted(tmp_path.rglob("*")) == before


def test_evidence_without_the_search_that_the_experiment_asks_for_is_refused(folder, values, tmp_path):
    tune = {"arms": ["attention"], "values": {"training.label_smoothing": [0.0, 0.1]}}
    with pytest.raises(UserError, match=r"evidence.json.gz: arm 'attention' was not tuned; compare without --evidence"):
        compare(experiment_grid({**values, "tune": tune}), tmp_path / "other", evidence=folder / EVIDENCE, bar=None)


def test_the_published_search_of_a_grid_is_known_for_the_same_grid_alone():
    place = ROOT / "experiments/multi30k-en-de"
    evidence = Evidence.load(place / "results" / EVIDENCE)
    tune = read_experiment(place / "experiment.yaml").experiment.tune
    assert known_settings(evidence, place, tune) == evidence.tuned
    other = tune.model_copy(update={"sampler": Random(trials=6)})
    with pytest.raises(UserError, match=r"was tuned with tune\.sampler=.*grid.*, not .*random"):
        known_settings(evidence, place, other)


def test_the_links_of_an_installed_aligner_stand_beside_the_arms(grid, folder, monkeypatch):
    """A stand-in for eflomal, which links no word and so has the highest error rate."""
    empty = [frozenset()] * 32
    monkeypatch.setattr(comparing, "eflomal_program", lambda: "eflomal-align")
    monkeypatch.setattr(comparing, "align_by_eflomal", lambda *_: BidirectionalLinks(empty, empty))
    results = compare(grid, folder, bar=None)
    assert list(results.aer_rivals) == ["diagonal", "random", "eflomal"]
    assert results.aer_rivals["eflomal"] == 1
    shutil.rmtree(folder / "runs")
    assert recompute(folder).differences == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PUBLISHED, ids=[str(path.parent.relative_to(ROOT)) for path in PUBLISHED])
def test_published_results_follow_from_their_evidence(path, monkeypatch):
    monkeypatch.chdir(ROOT)  # paths in the evidence are relative to it
    try:
        differences = recompute(path.parent).differences
    except UserError as error:
        if "no such file" not in str(error):
            raise
        pytest.skip(str(error))
    assert differences == []
