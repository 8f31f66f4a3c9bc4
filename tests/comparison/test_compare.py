"""A comparison trains the missing runs, and its scores are those of the runs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from counted import bleu, bleu_counts, chrf, chrf_counts, expected
from toy_experiment import EXPERIMENT, write_toy_corpus

from seq2seq_attn.comparison import breakdowns, collect, observe
from seq2seq_attn.comparison.arms import Arm, Scoring
from seq2seq_attn.comparison.collect import training_text
from seq2seq_attn.comparison.compare import compare, plan
from seq2seq_attn.comparison.evidence import read_run
from seq2seq_attn.comparison.experiment import experiment_grid, read_experiment
from seq2seq_attn.comparison.launchers.local import Local
from seq2seq_attn.comparison.observe import kept_lines
from seq2seq_attn.comparison.schedule import complete_all
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.codec import load_codecs
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import GoldCorpus
from seq2seq_attn.evaluation.corpus_scores import lc_norm_tok
from seq2seq_attn.evaluation.counts import chrf_counting
from seq2seq_attn.evaluation.groups import length_bands
from seq2seq_attn.evaluation.resampling import score_interval
from seq2seq_attn.evaluation.significance import RunScores, holm, joint_interval, joint_test
from seq2seq_attn.files.checksums import record
from seq2seq_attn.files.lock import locked
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.report.conclusion import conclusion
from seq2seq_attn.report.table import breakdown_tables
from seq2seq_attn.report.write import read_contents
from seq2seq_attn.results.attention import CORPUS
from seq2seq_attn.results.evidence import EVIDENCE, Evidence
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs import train as run_training
from seq2seq_attn.runs.corpora import read_pairs, read_test
from seq2seq_attn.runs.folder import clear, read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.strict import parse, read_yaml


@pytest.fixture(scope="module")
def toy_corpus(tmp_path_factory):
    """Words of more than one token, that change in lower case: every tokenization of the scores differs."""
    folder = tmp_path_factory.mktemp("words")
    write_toy_corpus(folder, ["A", "b,", "it's", "D-e", "f."])
    return folder


@pytest.fixture(scope="module")
def experiment_text():
    """Trained until many of the translations are right: comparisons of scores that are all 0 would show nothing."""
    return EXPERIMENT.replace("max_epochs: 2\n", "max_epochs: 12\n    patience: null\n").replace("0.02", "0.05")


@pytest.fixture(scope="module")
def compared(toy_corpus, experiment_text, tmp_path_factory):
    """The results of the comparison, trained once."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "experiment.yaml").write_text(experiment_text.format(folder=toy_corpus))
    grid = read_experiment(folder / "experiment.yaml")
    said = grid.experiment.model_copy(update={"question": "why?", "note": "Toys show little."})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(toy_corpus)  # to which paths in the report are relative
        compare(grid._replace(experiment=said), folder / "mine", command="the command")
    return folder


@pytest.fixture
def results(compared, tmp_path):
    shutil.copytree(compared / "mine", tmp_path / "mine")
    return Results.load(tmp_path / "mine" / "results.json")


def test_the_table_contains_the_scores_of_the_runs(results, grid, tmp_path):
    assert Results.load(tmp_path / "mine" / "results.json") == results
    assert [arm.name for arm in results.arms] == ["distracted", "attention"]
    for arm, (_, runs) in zip(results.arms, grid.arms(), strict=True):
        metrics = [read_metrics(tmp_path / "mine" / "runs" / run.folder) for run in runs]
        scores, found = [each["test"]["bleu"]["value"] for each in metrics], arm.scores["bleu"]
        assert arm.seeds == (1, 2)
        assert found.mean == pytest.approx(np.mean(scores))
        assert found.std == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
        # t_{0.975, 1} = 12.706; the standard error of two scores is half their difference
        assert found.seeds_high - found.mean == pytest.approx(12.706 * abs(scores[0] - scores[1]) / 2, rel=1e-4)
        assert found.low <= found.mean <= found.high
        assert arm.parameters == metrics[0]["parameters"]
    assert "aer" not in results.arms[0].scores, "the distracted decoder reads no single state"
    assert 0 <= results.arms[1].scores["aer"].mean <= 1
    assert results.arms[0].parameters < results.arms[1].parameters
    assert list(results.where.breakdowns[-1].arms) == ["attention"], "it alone has weights"
    assert [row[0] is not None for row in results.where.agreement.f1] == [True], "between its two seeds"


def written(grid, tmp_path):
    """The references, and the translations in the folders of each arm's runs."""
    files = {
        arm: [
            (tmp_path / "mine" / "runs" / run.folder / "test.translations.txt").read_text().splitlines() for run in runs
        ]
        for arm, runs in grid.arms()
    }
    return grid.runs[0].config.data.test.target.read_text().splitlines(), files


def test_comparison_and_intervals_follow_from_the_saved_translations(results, grid, tmp_path):
    references, files = written(grid, tmp_path)
    counts = {arm: bleu_counts(runs, references, "none") for arm, runs in files.items()}
    (pair,) = results.comparisons
    assert (pair.arm, pair.baseline) == ("attention", "distracted")
    joint = joint_test(*(RunScores.of(counts[arm]) for arm in ("attention", "distracted")))
    assert (pair.difference, pair.interval) == (joint.difference, (joint.low, joint.high))
    assert (pair.joint.p_value, pair.joint.paired, pair.joint.detectable) == (joint.p_value, False, None)
    sources = grid.runs[0].config.data.test.source.read_text().splitlines()
    for arm in results.arms:
        in_chrf = chrf_counts(files[arm.name], references)
        interval, whole = score_interval(in_chrf), arm.scores["chrf"]
        assert (whole.low, whole.high) == (interval.low, interval.high)
        assert (whole.joint_low, whole.joint_high) == (joint_interval(RunScores.of(in_chrf)) or (None, None))
        for label, band in zip(results.by_length.groups, results.by_length.arms[arm.name], strict=True):
            low, high = map(int, label.split("-")) if "-" in label else (int(label.rstrip("+")), 99)
            rows = [row for row, line in enumerate(sources) if low <= len(line.split()) <= high]
            interval = score_interval(counts[arm.name].select(rows))
            alone = [[run[row] for row in rows] for run in files[arm.name]]
            assert interval == score_interval(bleu_counts(alone, [references[row] for row in rows], "none"))
            assert (band.main.low, band.main.high) == (interval.low, interval.high)
            assert band.scores["chrf"].value == pytest.approx(
                np.mean([chrf(run, [references[r] for r in rows]).value for run in alone])
            )


def test_a_second_reference_of_each_source_is_no_further_evidence(grid, results, tmp_path):
    """With every test pair twice, intervals and tests are those of the test set as it was."""
    test = read_test(grid.runs[0].config.data.test)
    pairs = ParallelCorpus([*test.pairs.source] * 2, [*test.pairs.target] * 2)
    gold = GoldCorpus(test.gold.sure * 2, test.gold.possible * 2)
    lc_tok = [lc_norm_tok(line, "en") for line in pairs.target]
    twice = test._replace(pairs=pairs, source_lengths=test.source_lengths * 2, gold=gold, lc_tok=lc_tok)

    def doubled(run):
        lists = {name: getattr(run, name) for name in ("translations", "links", "entropies")}
        return replace(run, **{name: each and each * 2 for name, each in lists.items()})

    evidence = Evidence.load(tmp_path / "mine" / EVIDENCE)
    evidence = replace(evidence, arms=[replace(arm, runs=[*map(doubled, arm.runs)]) for arm in evidence.arms])
    runs = {arm.name: arm.runs for arm in evidence.arms}
    found = collect.collect(grid, evidence, twice, Scoring.of(grid.runs[0].config, twice))
    # chrF of twice the counts is the same; BLEU is not where an order without a match is smoothed.
    assert [pair.others["chrf"] for pair in found.comparisons] == [pair.others["chrf"] for pair in results.comparisons]
    assert found.comparisons[0].others["chrf"].joint is not None
    assert all(f"|sources:{len(test.pairs)}|" in found.signatures[key] for key in ("joint", "paired_bootstrap"))
    assert "sources" not in results.signatures["joint"]
    for arm in found.arms:
        lines = [run.translations for run in runs[arm.name]]
        counts = bleu_counts(lines, pairs.target, "none", sources=pairs.source)
        lines = [[lc_norm_tok(line, "en") for line in run] for run in lines]
        interval = score_interval(bleu_counts(lines, twice.lc_tok, "none", sources=pairs.source))
        assert (arm.scores["bleu_lc_tok"].low, arm.scores["bleu_lc_tok"].high) == (interval.low, interval.high)
        interval = score_interval(counts)
        assert (arm.scores["bleu"].low, arm.scores["bleu"].high) == (interval.low, interval.high)
        assert (arm.scores["bleu"].joint_low, arm.scores["bleu"].joint_high) == joint_interval(RunScores.of(counts))
        for band, one in zip(found.by_length.arms[arm.name], results.by_length.arms[arm.name], strict=True):
            assert band.scores["chrf"] == one.scores["chrf"]
    for rates, before in zip(found.where.rates, results.where.rates, strict=True):
        for arm, row in rates.arms.items():
            ends = [[rate and (rate.low, rate.high) for rate in each] for each in (row, before.arms[arm])]
            assert ends[0] == ends[1]


def test_planned_contrasts_are_tested_with_the_comparisons(grid, results, tmp_path, values):
    values["arms"]["mean"] = {"model": {"context": {"kind": "mean"}}}
    values |= {"contrasts": [["mean", "attention"]], "seeds": [1]}
    compared = compare(experiment_grid(values), tmp_path / "mine")
    (contrast,) = compared.contrasts
    assert (contrast.arm, contrast.baseline) == ("mean", "attention")
    p_values = [pair.p_value for pair in compared.tested]
    assert [pair.p_holm for pair in compared.tested] == holm(p_values)
    assert len(p_values) == 3
    gap = compared.arms[2].scores["bleu"].mean - compared.arms[1].scores["bleu"].mean
    assert contrast.difference == pytest.approx(gap)
    assert Results.load(tmp_path / "mine/results.json") == compared
    (table,) = (each for each in breakdown_tables(compared) if each.name == "planned contrasts")
    assert table.columns[0].cells[0].value == "mean against attention"
    assert f"{gap:+.1f}" in table.columns[1].cells[0].value


def test_every_score_and_test_has_its_signature(results, grid):
    assert list(results.signatures) == [
        *("bleu", "chrf", "ter", "exact_match", "perplexity"),
        *("paired_bootstrap", "randomization", "joint"),
    ]
    assert results.signatures["perplexity"] == "nrefs:1|tok:word|eos:yes|unit:token"
    assert "|bs:1000|" in results.signatures["paired_bootstrap"]
    assert "|ar:10000|" in results.signatures["randomization"]


def test_curves_and_attention_are_saved_with_the_results(results, grid, tmp_path):
    curves = json.loads((tmp_path / "mine" / "curves.json").read_text())
    validation = read_pairs(grid.runs[0].config.data.validation)
    for arm, runs in grid.arms():
        for run, curve in zip(runs, curves[arm], strict=True):
            assert (curve["seed"], curve["epoch"]) == (run.seed, list(range(1, 13)))
            best = int(np.argmin(curve["validation_loss"]))
            model = TrainedModel.load(tmp_path / "mine" / "runs" / run.folder)
            lines = model.translate(validation.source, SearchOptions(beam_size=1))
            assert curve["validation_score"][best] == pytest.approx(bleu(lines, validation.target, "none").value)
    shown = json.loads((tmp_path / "mine" / "attention.json").read_text())
    assert {entry["arm"] for entry in shown} == {"attention"}
    for entry in shown:
        assert np.shape(entry["weights"]) == (len(entry["target"]), len(entry["source"]))
        assert entry["gold"]


@pytest.mark.parametrize("search", ["mbr: chrf", "seed: 3", "n_best: 2"])
def test_training_is_validated_by_greedy_translations_whatever_the_search_is(results, grid, tmp_path, search):
    folder = tmp_path / "mine" / "runs" / grid.runs[2].folder
    model = TrainedModel.load(folder)
    validation = read_pairs(model.config.data.validation)
    greedy = model.translate(validation.source, SearchOptions(beam_size=1))
    options = SearchOptions.model_validate(yaml.safe_load(search))
    other = replace(model, config=model.config.model_copy(update={"search": options}))
    with locked(folder):
        score = run_training.validation_score(other, [validation]).score(model.translator)
    assert score == pytest.approx(bleu(greedy, validation.target, "none").value)


def test_the_saved_attention_equals_that_of_forced_decoding(results, grid, tmp_path):
    references, files = written(grid, tmp_path)
    held = CORPUS.load(tmp_path / "mine")
    assert held.sentences == len(references)
    assert [(pair.line, pair.reference) for pair in held.pairs] == list(enumerate(references, start=1))
    assert {arm: each.translations for arm, each in held.arms.items()} == {a: tuple(r[0]) for a, r in files.items()}
    for arm, each in held.arms.items():
        assert each.scores == tuple(
            round(score, 2) for score in chrf_counting(expected(references)).score_sentences(files[arm][0])
        )
    assert held.arms["distracted"].segmentation is None
    model = TrainedModel.load(tmp_path / "mine" / "runs" / grid.runs[2].folder)
    forced = model.force([pair.source for pair in held.pairs], references)
    for weights, each in zip(held.weights("attention"), forced, strict=True):
        np.testing.assert_allclose(weights, each.weights, atol=0.5 / 255 + 1e-6)


def test_every_nth_pair_of_a_large_test_set_is_kept_with_all_examples(results, grid, tmp_path, monkeypatch):
    test = grid.runs[0].config.data.test
    pairs = read_pairs(test)
    codecs = load_codecs(tmp_path / "mine" / "runs" / grid.runs[0].folder)
    assert kept_lines(pairs, 2, *codecs) == list(range(len(pairs)))
    both = zip(pairs.source, pairs.target, strict=True)
    sizes = [len(codecs[0].encode(source)) * len(codecs[1].encode(target)) for source, target in both]
    monkeypatch.setattr(observe, "MOST_WEIGHTS", 2 * sum(sizes) // 3 + 1)
    assert kept_lines(pairs, 2, *codecs, always=[1]) == sorted({1, *range(0, len(pairs), 3)})


def test_a_line_of_which_the_tokenizer_leaves_nothing_has_no_attention():
    class Letters:
        marks = 1

        def given(self, source):
            return self

        def encode(self, line):
            return [*(ord(letter) for letter in line if letter.isalpha()), EOS]

    pairs = ParallelCorpus(["ab", "\u200b", "a", " "], ["a", "b", "\u200b", "b"])  # zero-width space is no white space
    assert pairs.filled == [0, 1, 2]
    assert kept_lines(pairs, 1, Letters(), Letters(), always=[1]) == [0]


def test_length_quantiles_replace_bands_if_only_one_has_enough_sentences(grid, results, tmp_path, monkeypatch):
    monkeypatch.setattr(breakdowns, "ENOUGH", 8)
    test_set = read_test(grid.runs[0].config.data.test)
    run = grid.runs[2]
    arm = Arm.of(
        [run],
        [read_run(tmp_path / "mine" / "runs" / run.folder, run.seed, len(test_set.pairs))],
        Scoring.of(run.config, test_set),
    )

    def bands(shortest, different=32):
        numbers = [number % different for number in range(len(test_set.pairs))]
        sources = [f"{number}{' x' * (shortest - 1 + number % 4)}" for number in numbers]
        pairs, lengths = ParallelCorpus(sources, test_set.pairs.target), [len(line.split()) for line in sources]
        tested = test_set._replace(pairs=pairs, source_lengths=lengths)
        found = breakdowns.by_length({"arm": arm}, tested, length_bands(run.config.evaluation.bands))
        return [(label, group.sentences) for label, group in zip(found.groups, found.arms["arm"], strict=True)]

    assert len(test_set.pairs) == 32
    assert bands(2) == [("1-3", 16), ("4+", 16)], "as configured"
    assert bands(4) == [("4-4", 8), ("5-5", 8), ("6-6", 8), ("7+", 8)]
    assert bands(4, different=16) == [("4-5", 16), ("6+", 16)]


def test_sentences_and_provenance_for_the_report_are_saved_with_the_results(results, grid, tmp_path):
    assert conclusion(results)[1] == results.note == "Toys show little."
    references, files = written(grid, tmp_path)
    contents = read_contents(tmp_path / "mine")
    for example in contents.examples:
        assert [reading.arm for reading in example.readings] == ["distracted", "attention"]
        assert example.reference == references[example.line - 1]
        assert len(example.gold) == len(example.reference.split())
    for sentence in contents.sentences.sentences:
        shown = {arm: each.text for arm, each in sentence.translations.items()}
        assert shown == {arm: runs[0][sentence.line - 1] for arm, runs in files.items()}
    assert contents.sentences.signature == contents.results.signatures["chrf"]
    assert (contents.reproduction.question, contents.reproduction.command) == ("why?", "the command")
    assert contents.reproduction.differences() == {"model.context.kind": ["fixed", "attention"]}
    for run in grid.runs[::2]:
        made = parse(Config, contents.reproduction.configurations[run.arm])
        assert made.model_copy(update={"data": run.config.data}) == run.config
        assert made.data.test.target == Path("test.target"), "paths are as from the working directory"


def test_text_is_tokenized_once_for_all_runs(results, tmp_path):
    entries = sorted(path.name for path in (tmp_path / "mine" / "runs" / ".tokenized").glob("*/*.offsets.npy"))
    assert entries == ["source.offsets.npy"] * 2 + ["target.offsets.npy"] * 2  # of training and validation pairs


def test_only_missing_runs_are_trained_and_finished_ones_need_no_checkpoints(results, grid, tmp_path, monkeypatch):
    for path in tmp_path.rglob("last.safetensors"):
        path.unlink()
    trained = []
    real = run_training.train
    monkeypatch.setattr(run_training, "train", lambda *a, **k: trained.append(k["name"]) or real(*a, **k))
    compare(grid, tmp_path / "mine")
    assert trained == []
    shutil.rmtree(tmp_path / "mine" / "runs" / grid.runs[1].folder)
    again = compare(grid, tmp_path / "mine")
    assert trained == ["distracted, seed 2"]
    assert [arm.scores["bleu"] for arm in again.arms] == [arm.scores["bleu"] for arm in results.arms]


def test_training_text_that_differs_between_arms_is_reported_and_not_used(grid, tmp_path):
    said = []
    first, *others = grid.runs
    moved = first.config.data.train.model_copy(update={"source": tmp_path / "another"})
    data = first.config.data.model_copy(update={"train": moved})
    other = first._replace(config=first.config.model_copy(update={"data": data}))
    assert training_text(grid._replace(runs=[other, *others]), said.append) is None
    assert "the runs differ in data.train" in said[0]


@pytest.mark.slow
def test_several_jobs_give_the_same_results_as_one(results, grid, tmp_path):
    """The second seed of each arm is trained again, in worker processes."""
    again = [run for run in grid.placed(tmp_path / "mine" / "runs").runs if run.seed == 2]
    for run in again:
        shutil.rmtree(run.place)
    said = []
    complete_all(again, "resume", Local(2), said.append)
    assert {line for line in said if "on the test set" in line} == {
        (tmp_path / "mine" / "runs" / f"{run.folder}.log").read_text().splitlines()[-1] for run in again
    }
    assert compare(grid, tmp_path / "mine").arms[1].scores == results.arms[1].scores


def test_a_plan_has_what_would_be_trained_and_changes_nothing(results, experiment_file, tmp_path):
    def states(*overrides):
        grid = read_experiment(experiment_file, overrides)
        return {row.run.name: row.progress.state for row in plan(grid, tmp_path / "mine")}

    before = sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*"))
    arms = {f"{arm}, seed {seed}": "done" for arm in ("distracted", "attention") for seed in (1, 2)}
    assert states() == arms
    assert states("training.max_epochs=13") == dict.fromkeys(arms, "continues")
    assert states("seeds=[1,2,3]") == arms | {"distracted, seed 3": "new", "attention, seed 3": "new"}
    tune = "tune={arms: [attention], values: {training.batch_size: [4, 8]}}"
    assert states(tune) == {f"attention, trial {trial}, seed 1": "new" for trial in (1, 2)} | arms
    with pytest.raises(UserError, match=r"training\.batch_size=8, now it is 9"):
        states("training.batch_size=9")
    assert sorted(path.stat().st_mtime_ns for path in tmp_path.rglob("*")) == before
    clear(tmp_path / "mine/runs/attention/seed-2")  # as of a run that --overwrite has not come to
    assert states(tune)["attention, seed 2"] == "new"


def test_runs_of_another_configuration_do_not_count_as_finished(results, experiment_file, tmp_path):
    other = read_experiment(experiment_file, ("training.batch_size=9",))
    with pytest.raises(UserError, match=r"training\.batch_size=8, now it is 9"):
        compare(other, tmp_path / "mine")


def test_a_folder_with_other_contents_is_refused_and_not_changed(results, grid, tmp_path):
    other = grid._replace(experiment=grid.experiment.model_copy(update={"name": "other"}))
    (tmp_path / "run").mkdir()
    record(tmp_path / "run", [])
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "table.md").write_text("years of work")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for if_exists in ("resume", "overwrite"):
        with pytest.raises(UserError, match="mine: holds the comparison 'toy', not 'other'"):
            compare(other, tmp_path / "mine", if_exists=if_exists)
        with pytest.raises(UserError, match=r"run: holds a run of `train` \(SHA256SUMS\), not a comparison"):
            compare(grid, tmp_path / "run", if_exists=if_exists)
        with pytest.raises(UserError, match=r"thesis: exists and is not a comparison \(no comparison.json\)"):
            compare(grid, tmp_path / "thesis", if_exists=if_exists)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_foreign_file_in_the_last_run_prevents_overwriting_the_first(results, grid, tmp_path):
    notes = tmp_path / "mine" / "runs" / grid.runs[-1].folder / "notes.txt"
    notes.write_text("years of work")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"notes.txt: was not written by the run"):
        compare(grid, tmp_path / "mine", if_exists="overwrite")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_overwriting_that_is_interrupted_leaves_no_earlier_run_to_go_on_with(results, grid, tmp_path, monkeypatch):
    folder, real = tmp_path / "mine", run_training.train
    overrides = "training.batch_size=9", "training.max_epochs=2", "seeds=[1]"
    changed = experiment_grid(read_yaml(tmp_path / "experiment.yaml"), overrides=overrides)
    trained = []

    def interrupted(config, *rest, **options):
        if len(trained) == 1:
            raise KeyboardInterrupt
        trained.append(options["name"])
        return real(config, *rest, **options)

    monkeypatch.setattr(run_training, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(changed, folder, if_exists="overwrite")
    monkeypatch.setattr(run_training, "train", lambda *a, **b: trained.append(b["name"]) or real(*a, **b))
    compare(changed, folder)
    assert trained == [run.name for run in changed.runs]


def test_a_comparison_without_a_test_set_is_refused_before_training(grid, tmp_path):
    config = grid.runs[0].config
    blind = config.model_copy(update={"data": config.data.model_copy(update={"test": None})})
    runs = [run._replace(config=blind) for run in grid.runs]
    with pytest.raises(UserError, match=r"data\.test is missing"):
        compare(grid._replace(runs=runs), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_runs_go_on_to_a_higher_limit_and_are_then_tested_again(compared, values, tmp_path):
    shutil.copytree(compared / "mine", tmp_path / "mine")
    values |= {"arms": {"attention": values["arms"]["attention"]}, "baseline": "attention", "seeds": [1]}
    grid = experiment_grid(values, overrides=["training.max_epochs=13"])
    results = compare(grid, tmp_path / "mine", bar=None)
    folder = tmp_path / "mine" / "runs" / grid.runs[0].folder
    assert read_metrics(folder)["training"]["epochs"] == 13
    assert TrainedModel.load(folder).config == grid.runs[0].config
    assert results.arms[0].scores == compare(grid, tmp_path / "alone", bar=None).arms[0].scores
    with pytest.raises(UserError, match=r"has trained for 13 epochs, more than training\.max_epochs=12"):
        compare(experiment_grid(values), tmp_path / "mine", bar=None)
