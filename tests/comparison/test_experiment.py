"""Experiment files: arms are small changes, which are checked before training."""

import pytest
import yaml

from seq2seq_attn.comparison.experiment import read_experiment
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.strict import parse


def write(path, values):
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def test_arms_times_seeds_in_the_order_of_the_file(grid):
    assert [(run.arm, run.seed) for run in grid.runs] == [
        ("distracted", 1),
        ("distracted", 2),
        ("attention", 1),
        ("attention", 2),
    ]
    assert grid.runs[3].config.seed == 2
    assert grid.runs[3].folder.as_posix() == "attention/seed-2"


def test_an_arm_differs_from_the_base_only_by_its_change(grid):
    fixed, attention = (grid.runs[i].config.model_dump() for i in (0, 2))
    assert fixed["model"]["context"].pop("kind") == "fixed"
    assert attention["model"]["context"].pop("kind") == "attention"
    assert fixed == attention


def test_overrides_change_the_base_or_the_experiment(experiment_file):
    grid = read_experiment(experiment_file, ("training.max_epochs=7", "seeds=[5]"))
    assert {run.config.training.max_epochs for run in grid.runs} == {7}
    assert [run.seed for run in grid.runs] == [5, 5]


def test_an_arm_may_have_seeds_of_its_own(tmp_path, values):
    values["arms"] = {"distracted": {"seeds": [4, 2, 9]}, "attention": ["seeds=[7]"], "other": {}}
    path = write(tmp_path / "experiment.yaml", values)

    def seeds(*overrides):
        grid = read_experiment(path, overrides)
        assert all(run.config.seed == run.seed for run in grid.runs)
        return {arm: [run.folder.name.removeprefix("seed-") for run in runs] for arm, runs in grid.arms()}

    assert seeds() == {"distracted": ["2", "4", "9"], "attention": ["7"], "other": ["1", "2"]}
    assert seeds("seeds=[3]") == {"distracted": ["3"], "attention": ["3"], "other": ["3"]}
    own = seeds("arms.other.seeds=[6,5]", "seeds=[3]")
    assert own == {"distracted": ["3"], "attention": ["3"], "other": ["5", "6"]}
    values["base"]["seeds"] = [1]
    with pytest.raises(UserError, match="its base has seeds; give them to the experiment, or to the arm"):
        read_experiment(write(path, values))


def test_an_override_of_an_arm_given_as_lines_is_added_to_them(experiment_file):
    before, changed = (
        read_experiment(experiment_file, overrides).runs[2].config
        for overrides in ((), ("arms.attention.training.max_epochs=9",))
    )
    assert changed.model.context == before.model.context  # of the line of the file
    assert (before.training.max_epochs, changed.training.max_epochs) == (2, 9)


def test_the_base_may_be_in_a_separate_file(tmp_path, values):
    write(tmp_path / "base.yaml", values["base"])
    whole = read_experiment(write(tmp_path / "whole.yaml", values))
    parts = read_experiment(write(tmp_path / "parts.yaml", values | {"base": "base.yaml"}))
    assert parts.runs == whole.runs


def test_an_arm_may_have_a_base_of_its_own_such_as_another_family(tmp_path, values):
    same = {key: values["base"][key] for key in ("data", "evaluation")}
    own = {**same, "model": {"kind": "transformer", "embedding_size": 12}, "seed": 9}
    write(tmp_path / "tiny.yaml", own)
    arm = {"base": "tiny.yaml", "match_parameters": True, "model": {"encoder": {"layers": 1}}}
    path = write(tmp_path / "experiment.yaml", values | {"arms": values["arms"] | {"Transformer": arm}})
    *others, first, second = read_experiment(path, ("training.max_epochs=7",)).runs
    model = own["model"] | {"encoder": {"layers": 1}}
    expected = parse(Config, {**own, "model": model, "training": {"max_epochs": 7}, "seed": 1})
    assert first.config == expected  # nothing of the experiment's base
    assert (second.arm, second.seed) == ("Transformer", 2)
    assert first.match_parameters
    assert not others[0].match_parameters
    inline = write(tmp_path / "inline.yaml", values | {"arms": values["arms"] | {"Transformer": arm | {"base": own}}})
    assert read_experiment(inline, ("training.max_epochs=7",)).runs[-2] == first

    wrong = own | {"evaluation": same["evaluation"] | {"bands": [2]}}
    for base, message in (
        ("no.yaml", r"bad.yaml: arm 'x': .*no.yaml: no such file$"),
        (3, "arm 'x': base = 3 is neither a file nor a mapping"),
        (own | {"model": {"kind": "transformer", "heads": 2}}, r"arm 'x': .*'model.heads'"),
        (wrong, "another evaluation.bands than arm 'distracted'; .* alike where an arm has a base of its own"),
    ):
        with pytest.raises(UserError, match=message):
            read_experiment(write(tmp_path / "bad.yaml", values | {"arms": values["arms"] | {"x": {"base": base}}}))


def tuned(values, sampler=None):
    """A search of one arm, by default at random."""
    sampler = sampler or {"kind": "random", "trials": 3}
    return {"arms": ["attention"], "values": {"training.label_smoothing": values}, "sampler": sampler}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "nobody"}, "baseline: 'nobody' is not among the arms: distracted, attention"),
        ({"contrasts": [["attention", "nobody"]]}, "contrasts: 'nobody' is not among the arms"),
        ({"contrasts": [["attention", "distracted"]]}, r"with the baseline \(which is always tested\)"),
        ({"contrasts": [["attention", "attention"]]}, "an arm with itself"),
        (
            {"tune": {"arms": ["nobody"], "values": {"training.label_smoothing": [0.1]}}},
            "tune.arms: 'nobody' is not among",
        ),
        (
            {"tune": {"arms": ["attention"], "values": {"search.beam_size": []}}},
            r"tune.values.search.beam_size",
        ),
        (
            {"tune": {"arms": ["attention"], "values": {"search.beam_size": [1]}, "others": "x"}},
            "tune.others = 'x' is not among",
        ),
        (
            {"tune": {"arms": ["attention"], "values": {"seed": [1, 2]}}},
            "tune has a seed; trials are made with the first",
        ),
        (
            {"tune": {"arms": ["attention"], "values": {"search.beam_size": [1]}, "trial": {"seed": 2}}},
            "tune has a seed; trials are made with the first",
        ),
        ({"tune": tuned({"low": 0.2, "high": 0.1})}, r"tune\.values\.training\.label_smoothing: low = 0.2 .* 0.1"),
        ({"tune": tuned({"low": 0, "high": 0.1, "log": True})}, r"label_smoothing: low = 0 has no logarithm"),
        ({"tune": tuned({"low": 0})}, r"tune\.values\.training\.label_smoothing\.high is missing"),
        ({"tune": tuned({"low": 0.1, "high": 2})}, r"tune: arm 'attention': training\.label_smoothing = 2"),
        ({"tune": tuned(0.1)}, r"tune\.values\.training\.label_smoothing = 0.1: a list is wanted"),
        ({"tune": tuned([0.1, 0.1])}, r"training\.label_smoothing has 0.1 twice"),
        ({"tune": tuned([0.1, 0.2])}, r"sampler\.trials = 3, but the values have 2 combinations"),
        ({"tune": tuned({"low": 0, "high": 0.1}, {"kind": "grid"})}, r"label_smoothing has a range, and a grid"),
        ({"tune": tuned([0.1], {"kind": "grid", "trials": 3})}, r"tune\.sampler: trials is an option of kind=.*random"),
        ({"tune": tuned([0.1], {"kind": "randm"})}, r"tune\.sampler\.kind = 'randm': .*did you mean 'random'"),
        ({"seeds": [1, 1]}, r"seeds = .*1, 1.*: .*at least one seed, each once"),
        ({"seeds": []}, "seeds = .*at least one seed"),
        ({"arms": {"distracted": {"seeds": [3, 3]}}}, "arm 'distracted': seeds = .*3, 3.*: .*each once"),
        ({"arms": {"distracted": {"seeds": 3}}}, "arm 'distracted': seeds = 3"),
        ({"arms": {"distracted": {"seed": 5}}}, r"arm 'distracted' has a seed; .* own: seeds: \[5\]"),
        ({"arms": {"distracted": ["seed=5"]}}, "arm 'distracted' has a seed"),
        (
            {
                "arms": {"distracted": {"match_parameters": True}, "attention": {}},
                "tune": {"arms": ["attention"], "values": {"model.decoder.hidden_size": [12]}},
            },
            "tune.values has model.decoder.hidden_size, and an arm has match_parameters; .* leave one",
        ),
        ({"name": "a/b"}, "name = 'a/b'"),
        ({"arms": {"distracted": {}, "Distracted!": {}}}, "would share a folder"),
        ({"arm": {}}, r"unknown key 'arm' \(did you mean 'arms'\?\)"),
    ],
)
def test_an_invalid_experiment_is_refused(tmp_path, values, change, message):
    with pytest.raises(UserError, match=message):
        read_experiment(write(tmp_path / "bad.yaml", values | change))


def test_a_seed_for_all_runs_is_refused_with_the_key_that_an_experiment_has(experiment_file):
    with pytest.raises(UserError, match=r"an experiment has no seed; give its seeds, as in seeds=\[5\]"):
        read_experiment(experiment_file, ["seed=5"])


@pytest.mark.parametrize(
    "change", ["data.test=null", "evaluation.tokenize=char", "evaluation.bands=[2]", "evaluation.unit=letters"]
)
def test_arms_that_would_be_scored_differently_are_refused(tmp_path, values, change):
    key = change.partition("=")[0]
    values["arms"]["attention"].append(change)
    with pytest.raises(
        UserError, match=rf"bad.yaml: arm 'attention' has another {key} than arm 'distracted'; .*set it in base"
    ):
        read_experiment(write(tmp_path / "bad.yaml", values))
    assert read_experiment(write(tmp_path / "good.yaml", values), [change]).runs


def test_a_mistake_is_reported_with_the_file_that_it_is_in(tmp_path, values):
    wrong = values["base"] | {"training": {"batch_size": 0}}
    write(tmp_path / "base.yaml", wrong)
    for change, place in (
        ({}, "arm 'x': .*base.yaml: training.batch_size = 0"),
        (["training.max_epochs=3"], "arm 'x': .*base.yaml: training.batch_size = 0"),
        ({"training": {"batch_size": -1}}, "arm 'x': training.batch_size = -1"),
        (["training.batch_size=-1"], "arm 'x': training.batch_size = -1"),
        ({"training": 3}, "arm 'x': training = 3"),
    ):
        path = write(tmp_path / "x.yaml", values | {"base": "base.yaml", "arms": {"x": change}, "baseline": "x"})
        with pytest.raises(UserError, match=f"x.yaml: {place}"):
            read_experiment(path)


def test_a_mistake_in_an_arm_names_the_arm_and_the_nearest_scorer(tmp_path, values):
    values["arms"]["attention"] = {"model": {"context": {"scorer": "aditive"}}}
    with pytest.raises(UserError, match=r"arm 'attention': .*did you mean 'additive'\?"):
        read_experiment(write(tmp_path / "bad.yaml", values))
