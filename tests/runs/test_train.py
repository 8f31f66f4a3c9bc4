"""One run: its folder is complete, and nothing is lost."""

import copy
import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch

import seq2seq_attn as s2s
from seq2seq_attn import ops
from seq2seq_attn.analysis.scoring import evaluate, score_references
from seq2seq_attn.analysis.word_alignment import token_attention
from seq2seq_attn.comparison.compare import claim
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.metrics import Metric
from seq2seq_attn.files.checksums import write_recorded
from seq2seq_attn.runs import train as run_module
from seq2seq_attn.runs.building import build_translator
from seq2seq_attn.runs.folder import read_config, read_metrics, write_metrics
from seq2seq_attn.runs.lexicon import with_lexicon
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.train import train
from seq2seq_attn.saved import weights_content
from seq2seq_attn.strict import override, parse

ONE_EPOCH = ("training.max_epochs=1",)


@pytest.fixture
def config(grid):
    return grid.runs[2].config


@pytest.fixture
def trained(train_once, config, tmp_path):
    train_once(config, tmp_path / "run")
    return TrainedModel.load(tmp_path / "run")


def changed(config, **training):
    values = config.model_dump(mode="json")
    return parse(Config, values | {"training": values["training"] | training})


def searching(config, **search):
    values = config.model_dump(mode="json")
    return parse(Config, values | {"search": values["search"] | search})


def with_data(config, **changes):
    return config.model_copy(update={"data": config.data.model_copy(update=changes)})


def test_a_run_folder_contains_everything_that_translation_needs(config, tmp_path):
    trained = train(config, tmp_path / "run")
    again = TrainedModel.load(tmp_path / "run")
    assert again.config == config
    lines = ["a b c", "", "e d"]
    assert again.translate(lines) == trained.translate(lines)
    assert again.translate(lines)[1] == ""
    metrics = read_metrics(tmp_path / "run")
    assert metrics["training"]["epochs"] == 2
    assert metrics["parameters"] == sum(p.numel() for p in trained.translator.parameters())


def test_equal_models_with_tied_weights_have_equal_files_that_load_as_what_they_were(trained):
    tied = build_translator(
        parse(Config, trained.config.model_dump(mode="json") | {"model": {"tie_embeddings": "target"}}),
        trained.source,
        trained.target,
    )
    content = weights_content(tied)
    assert weights_content(copy.deepcopy(tied)) == content
    other = copy.deepcopy(tied)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    names = set(safetensors.torch.load(content))
    assert names < set(tied.state_dict())
    missing, unexpected = other.load_state_dict(safetensors.torch.load(content), strict=False)
    assert not unexpected
    assert set(missing) == set(tied.state_dict()) - names
    for name, value in tied.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=0, atol=0)


def test_the_same_seed_trains_the_same_model_regardless_of_earlier_runs(trained, config, tmp_path):
    torch.rand(17)
    again = train(config, tmp_path / "again")
    for name, value in trained.translator.state_dict().items():
        torch.testing.assert_close(again.translator.state_dict()[name], value.cpu(), rtol=0, atol=0)


def test_the_seed_orders_the_batches_and_draws_the_weights(config, tmp_path, monkeypatch):
    class ReachedError(Exception):
        pass

    seen = []

    def fit(translator, options, training, *_, **__):
        seen.append(([batch.rows.tolist() for batch in training], translator.head.projection.weight.tolist()))
        raise ReachedError

    monkeypatch.setattr(run_module, "fit", fit)
    for number, seed in enumerate((1, 1, 2)):
        with pytest.raises(ReachedError):
            train(config.model_copy(update={"seed": seed}), tmp_path / str(number))
    one, again, other = seen
    assert one == again
    assert all(ours != theirs for ours, theirs in zip(one, other, strict=True))


def test_an_existing_run_is_refused_resumed_or_replaced(trained, config, tmp_path):
    folder = tmp_path / "run"
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match=r"this run exists; continue it with --resume or replace it with --overwrite"):
        train(config, folder)
    assert (folder / "model.safetensors").read_bytes() == before
    train(changed(config, max_epochs=3), folder, if_exists="resume")
    assert read_metrics(folder)["training"]["epochs"] == 3
    train(config, folder, if_exists="overwrite")
    assert (folder / "model.safetensors").read_bytes() == before


def test_resuming_with_another_configuration_names_the_difference(trained, config, tmp_path):
    with pytest.raises(UserError, match=r"training\.batch_size=8, now it is 9"):
        train(changed(config, batch_size=9), tmp_path / "run", if_exists="resume")


def test_max_epochs_cannot_change_where_the_learning_rates_so_far_depended_on_it(config, tmp_path):
    decaying = changed(config, optimizer={"learning_rate": 0.02, "schedule": "linear", "warmup_steps": 0})
    train(decaying, tmp_path / "run")
    with pytest.raises(UserError, match=r"training\.max_epochs=2, now it is 3"):
        train(changed(decaying, max_epochs=3), tmp_path / "run", if_exists="resume")


@pytest.mark.parametrize("finished", [True, False])
def test_fewer_epochs_than_a_run_has_are_refused_before_anything_is_written(trained, config, tmp_path, finished):
    folder = tmp_path / "run"
    if not finished:
        (folder / "model.safetensors").unlink()
        write_recorded(folder, {"metrics.json": b"{}"})
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"has trained for 2 epochs, more than training\.max_epochs=1; give at least 2"):
        train(changed(config, max_epochs=1), folder, if_exists="resume")
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_run_keeps_two_checkpoints_and_its_files_follow_the_umask(config, tmp_path):
    before = os.umask(0o027)
    try:
        train(config, tmp_path / "run")
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(modes, "0o640")
    assert "model.safetensors" in modes
    assert {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()} == {
        "last.safetensors",
        "previous.safetensors",
    }


def test_a_run_that_continues_without_improvement_keeps_its_best_weights(trained, config, tmp_path, monkeypatch):
    """As when max_epochs is raised and no later epoch is better."""
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    monkeypatch.setattr(Metric, "is_better", lambda *_: False)
    train(changed(config, max_epochs=3), tmp_path / "run", if_exists="resume")
    assert read_metrics(tmp_path / "run")["training"]["epochs"] == 3
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_a_folder_with_a_comparison_is_refused_by_name(config, tmp_path):
    claim(tmp_path / "mine", "mine")
    for if_exists in ("refuse", "resume", "overwrite"):
        with pytest.raises(UserError, match=r"mine: holds a comparison \(comparison.json\), not a run"):
            train(config, tmp_path / "mine", if_exists=if_exists)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["comparison.json"]


def test_resuming_does_not_delete_a_finished_run_without_its_last_checkpoint(trained, config, tmp_path):
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(UserError, match="cannot continue"):
        train(changed(config, max_epochs=3), tmp_path / "run", if_exists="resume")
    assert TrainedModel.load(tmp_path / "run").translate(["a b"]) == trained.translate(["a b"])


def test_long_lines_are_reported_in_training_and_truncated_in_translation(config, tmp_path):
    values = config.model_dump(mode="json")
    values["data"]["max_length"] = 3
    said, warned = [], []
    model = train(parse(Config, values), tmp_path / "short", say=said.append)
    assert (
        "; 20 of 40 pairs (dropped: 20 longer than data.max_length=3), validation 6 of 12 pairs (dropped: 6" in said[0]
    )
    cut, short = model.translate(["a b c d e", "a b c"], warn=warned.append)
    assert cut == short
    assert warned == ["line 1: 5 tokens, cut to data.max_length=3"]


@pytest.mark.parametrize(
    ("search", "rule"),
    [
        (
            {"max_length": 4, "max_length_ratio": None},  # targets of 4 and 5 tokens, and `</s>`
            "20 of 40 training targets are longer than an output may be (search.max_length=4); raise it",
        ),
        (
            {"max_length_ratio": 0.5, "max_length_margin": 2},  # limits of 4 and 5 for sources of 5 and 6
            "20 of 40 training targets are longer than an output may be (search.max_length=256, and 0.5 S + 2 for "
            "a source of S tokens); raise search.max_length, or set search.max_length_ratio=null",
        ),
        ({"max_length": 6, "max_length_ratio": None}, None),
    ],
)
def test_training_targets_that_search_would_cut_short_are_reported(config, tmp_path, search, rule):
    said = []
    train(searching(changed(config, max_epochs=1), **search), tmp_path / "run", say=said.append)
    assert said[1:] == ([] if rule is None else [f"training: {rule}"])


@pytest.mark.parametrize(
    ("text", "targets", "message"),
    [
        ({"tokenizer": "word"}, ["a x", "b a", "a  b"], ("2 of 3", "word; unknown tokens in 1", "'a  b'", "'a b'")),
        ({"tokenizer": "moses"}, ["a b", "b (a"], ("1 of 2", "moses; unknown tokens in 1", "'b (a'", "'b <unk> a'")),
        ({"tokenizer": "character"}, ["a  b", "xa"], ("1 of 2", "character; unknown tokens in 1", "'xa'", "'<unk>a'")),
        (
            {"tokenizer": "bpe", "vocabulary_size": 12, "normalization": "nfkc"},
            ["a b " * 20 + "ａ b", "a b"],
            ("1 of 2", "bpe; unknown tokens in 0", "'a b a b a b a b a b ａ b'", "'a b a b a b a b a b a b'"),
        ),
        ({"tokenizer": "bpe", "vocabulary_size": 12}, ["a  b ", "b a"], None),
    ],
)
def test_validation_targets_that_encoding_and_decoding_changes_are_counted(config, tmp_path, text, targets, message):
    (tmp_path / "source").write_text("a b\n" * len(targets))
    (tmp_path / "target").write_text("".join(f"{line}\n" for line in targets))
    values = changed(config, max_epochs=1).model_dump(mode="json") | {"text": text}
    values["data"]["validation"] = {"source": str(tmp_path / "source"), "target": str(tmp_path / "target")}
    said = []
    train(parse(Config, values), tmp_path / "run", say=said.append)
    if message is None:
        assert len(said) == 1
        return
    count, tokenizer, line, decoded = message
    assert said[1:] == [
        f"training: {count} validation targets are changed by encoding and decoding (text.tokenizer={tokenizer} of "
        f"them): {line} comes back as {decoded}"
    ]


def test_one_warning_counts_all_truncated_lines(trained):
    model = replace(trained, config=with_data(trained.config, max_length=3))
    warned = []
    model.translate(["a b", "a b c d e", "a b c d", "e d c", "a b c d e"], warn=warned.append, first_line=11)
    assert warned == ["line 12: 5 tokens, cut to data.max_length=3; so are 2 more of these 5 lines"]


def test_a_limit_on_training_pairs_does_not_apply_to_translation(config, tmp_path):
    values = changed(config, max_epochs=1).model_dump(mode="json")
    values["data"]["max_training_length"] = 3
    said, warned = [], []
    model = train(parse(Config, values), tmp_path / "short", say=said.append)
    assert "; 20 of 40 pairs (dropped: 20 longer than data.max_training_length=3), validation 12 pairs; " in said[0]
    model.translate(["a b c d e"], warn=warned.append)
    assert warned == []


def test_evaluation_scores_the_translations_that_are_written(trained, tmp_path):
    scores = evaluate(trained, tmp_path / "run")
    lines = (tmp_path / "run" / "test.translations.txt").read_text().splitlines()
    assert lines == trained.translate(trained.config.data.test.source.read_text().splitlines())
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"] == scores
    assert [band["sentences"] for band in scores["by_length"]] == [16, 16]
    assert 0 <= scores["aer"] <= 1
    assert scores["perplexity"] > 1
    assert 0 < scores["attention_entropy"] < 4


def test_perplexity_and_entropy_are_computed_on_the_references(trained):
    pairs = ParallelCorpus(["a b", "c d e"], ["y x", "z y x"], "by hand")
    scores, reading = score_references(trained, pairs)
    forced = trained.force(pairs.source, pairs.target)
    log_probabilities = np.concatenate([each.log_probabilities.numpy() for each in forced])
    assert scores["perplexity"] == pytest.approx(np.exp(-log_probabilities.mean()), rel=1e-5)
    rows = np.concatenate([(-w * np.log2(w)).sum(axis=1) for w in (f.weights.double().numpy() for f in forced)])
    assert scores["attention_entropy"] == pytest.approx(rows.mean())
    ends = np.cumsum([len(each.weights) for each in forced])[:-1]
    assert reading.entropies == pytest.approx([of_pair.mean() for of_pair in np.split(rows, ends)])
    layers = [[each.weights[None]] for each in forced]
    read = zip(pairs.source, pairs.target, layers, strict=True)
    assert reading.links == [token_attention(trained, *each).words().links for each in read]


def test_truncated_test_sentences_are_reported(trained, tmp_path):
    said = []
    evaluate(replace(trained, config=with_data(trained.config, max_length=3)), tmp_path / "run", say=said.append)
    (warning,) = said
    assert warning.startswith("test set, line ")
    assert warning.endswith("so are 15 more of these 32 lines")


def test_a_missing_gpu_is_refused_before_anything_is_written(config, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="this machine has no CUDA device"):
        train(changed(config, accelerator="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_search_without_gpu_support_is_refused_before_anything_is_written(config, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match="int8 needs a model on the CPU"):
        train(searching(changed(config, accelerator="cuda"), precision="int8"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_comet_model_is_refused_before_anything_is_written(config, tmp_path):
    missing = config.evaluation.model_copy(update={"comet": tmp_path / "no.ckpt"})
    with pytest.raises(UserError, match=r"no\.ckpt: no such file; evaluation\.comet is the path of a COMET checkpoint"):
        train(config.model_copy(update={"evaluation": missing}), tmp_path / "run", bar=None)
    assert not (tmp_path / "run").exists()


def test_a_run_with_a_shortlist_learns_its_lexicon_once_after_training(config, tmp_path):
    folder = tmp_path / "run"
    few = searching(changed(config, max_epochs=1), shortlist=1, shortlist_frequent=1)  # </s> is the most frequent token
    model = train(few, folder)
    with pytest.raises(UserError, match="load it with with_lexicon"):
        model.translate(["a b c"])
    said = []
    for _ in range(2):
        evaluate(model, folder, say=said.append)
    assert [text for text in said if "lexicon" in text] == [
        "learning a lexicon for shortlists from 40 training pairs, once; this may take minutes"
    ]
    ready = with_lexicon(model, folder)
    listed = {*ready.lexicon.translations[ready.source.encode("a b"), 0].tolist(), EOS, 0}
    assert len(listed) < len(model.target.vocabulary) - 1
    (found,) = ready.search(["a b"])
    assert set(found[0].tokens) <= listed


@pytest.mark.usefixtures("fused")
def test_training_first_reports_the_data_and_what_is_not_fused(config, tmp_path):
    values = config.model_dump(mode="json")
    values["model"]["context"] = {"scorer": "location"}
    said = []
    train(
        parse(Config, values | {"training": values["training"] | {"max_epochs": 1}}), tmp_path / "run", say=said.append
    )
    parameters = read_metrics(tmp_path / "run")["parameters"]
    sizes = f"{parameters:,} parameters; 40 pairs, validation 12 pairs; vocabulary 9 source, 9 target"
    threads = f"{torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}"
    assert said == [
        f"training: CPU with {threads}, fp32; {sizes}",
        "training: computed step by step: decoder (the scorer is Location, neither additive nor a dot product)",
    ]


@pytest.mark.parametrize("supported", [False, True])
def test_training_in_bf16_says_that_it_is_slow_on_a_processor_without_it(config, tmp_path, monkeypatch, supported):
    monkeypatch.setattr(ops, "has_onednn", lambda dtype: supported or dtype == torch.float32)
    said = []
    train(
        parse(Config, override(config.model_dump(mode="json"), ["training.precision=bf16", *ONE_EPOCH])),
        tmp_path / "run",
        say=said.append,
    )
    slow = "training: precision bf16 is 5 to 20 times slower than fp32 on this processor, which does not support it"
    assert [line for line in said if "slower" in line] == ([] if supported else [f"{slow}; use fp32"])


def test_an_ensemble_has_the_fewest_positions_of_its_models(config, tmp_path):
    table = "{name: learned, max_positions: 9}"
    values = config.model_dump(mode="json") | {"model": {"kind": "transformer", "embedding_size": 8}}
    changes = (f"model.{side}={{layers: 1, heads: 2, position: {table}}}" for side in ("encoder", "decoder"))
    limited = parse(Config, override(values, ["data.max_length=8", "search.max_length=9", *changes, *ONE_EPOCH]))
    members = train(config, tmp_path / "free"), train(limited, tmp_path / "limited")
    for one, other in (members, members[::-1]):
        together = one.averaged_with([other])
        warnings = []
        options = one.config.search.model_copy(update={"max_length": 9})
        translations = together.translate(["a b c d e a b c d e", "a b"], options, warn=warnings.append)
        assert translations == together.translate(["a b c d e a b c", "a b"], options)
        assert len(warnings) == 1
        assert warnings[0].startswith("line 1: 10 tokens, cut to ")
        with pytest.raises(UserError, match=r"max_length: 20 tokens, and this model has 9 positions"):
            together.translate(["a"], options.model_copy(update={"max_length": 20}))
        with pytest.raises(UserError, match="line 1 of the source: 10 tokens, and this model reads 8 at most"):
            together.limits.require_short(["a b c d e a b c d e"], ["a"])
    free, limited = (s2s.Model(each, tmp_path / name) for each, name in zip(members, ("free", "limited"), strict=True))
    for one, other in ((free, limited), (limited, free)):
        with pytest.raises(UserError, match="line 1 of the source: 10 tokens, and this model reads 8 at most"):
            one.score([("a b c d e a b c d e", "a")], ensemble=[other])


def test_a_best_score_that_is_not_finite_is_part_of_a_finished_run(trained, tmp_path):
    metrics = read_metrics(tmp_path / "run")
    write_metrics(tmp_path / "run", {"training": metrics["training"] | {"best": math.nan}})
    assert read_metrics(tmp_path / "run")["training"]["best"] is None
    assert "not finite" in repr(s2s.load(tmp_path / "run"))


def test_a_training_that_goes_on_has_no_scores_until_its_end(trained, config, tmp_path, monkeypatch):
    evaluate(trained, tmp_path / "run")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("seq2seq_attn.runs.train.fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(changed(config, max_epochs=3), tmp_path / "run", if_exists="resume")
    assert read_metrics(tmp_path / "run").keys() == {"initial_weights", "validation", "parameters"}
    assert TrainedModel.load(tmp_path / "run").translate(["a b"]) == trained.translate(["a b"])
    train(changed(config, max_epochs=3), tmp_path / "run", if_exists="resume")
    assert read_metrics(tmp_path / "run")["training"]["epochs"] == 3


RATE = "training.optimizer.learning_rate"


def test_another_learning_rate_needs_an_override_and_is_recorded_as_a_new_phase(trained, config, tmp_path):
    folder = tmp_path / "run"
    optimizer = config.training.optimizer.model_copy(update={"learning_rate": 0.001})
    changed_file = config.model_copy(
        update={"training": config.training.model_copy(update={"optimizer": optimizer, "max_epochs": 3})}
    )
    with pytest.raises(UserError, match=rf"{RATE}=0\.02, now it is 0\.001; give {RATE}=0\.001 on the command line"):
        train(changed_file, folder, if_exists="resume")
    said = []
    train(changed_file, folder, if_exists="resume", given=[RATE], say=said.append)
    assert said[0] == f"training: a new phase after step 10: {RATE}=0.001 (was 0.02)"
    sessions = json.loads((folder / "provenance.json").read_text())["sessions"]
    assert [each.get("phase") for each in sessions] == [None, {"step": 10, "changed": {RATE: [0.02, 0.001]}}]
    assert read_config(folder).training.optimizer.learning_rate == 0.001
    with pytest.raises(UserError, match=RATE):
        train(changed(config, max_epochs=4), folder, if_exists="resume")


@pytest.mark.parametrize("change", ["name=adamw", "options={amsgrad: true}"])
def test_another_optimizer_is_refused_even_by_an_override(trained, config, tmp_path, change):
    values = override(config.model_dump(mode="json"), [f"training.optimizer.{change}"])
    with pytest.raises(UserError, match=r"training\.optimizer\.(name|options)"):
        train(parse(Config, values), tmp_path / "run", if_exists="resume", given=[f"training.optimizer.{change[:4]}"])


def test_a_decaying_rate_can_go_on_for_longer_as_a_new_phase(config, tmp_path):
    decaying = changed(config, optimizer={"learning_rate": 0.02, "schedule": "linear", "warmup_steps": 0})
    train(decaying, tmp_path / "run")
    values = override(decaying.model_dump(mode="json"), [f"{RATE}=0.01", "training.max_epochs=3"])
    train(parse(Config, values), tmp_path / "run", if_exists="resume", given=[RATE])
    assert read_metrics(tmp_path / "run")["training"]["epochs"] == 3


def test_a_validation_translates_at_most_this_many_sentences_spread_over_the_set(config, tmp_path, monkeypatch):
    seen = []
    translate = TrainedModel.translate
    monkeypatch.setattr(
        TrainedModel, "translate", lambda self, lines, *a: seen.append(lines) or translate(self, lines, *a)
    )
    train(changed(config, max_epochs=1, validation_sentences=5), tmp_path / "run")
    pairs = run_module.read_pairs(config.data.validation)
    assert seen == [[pairs.source[index] for index in (0, 2, 4, 7, 9)]]  # of 12
