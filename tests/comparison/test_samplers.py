"""The settings that a search tries: draws against their distributions, and TPE against optuna itself."""

import sys
from math import inf, log
from statistics import median

import numpy as np
import pytest
from scipy import stats

from seq2seq_attn.comparison.samplers import TPE, Grid, Random, Range, Trial, size
from seq2seq_attn.errors import UserError

RATE = Range(low=0.0003, high=0.03, log=True)
SPACE = {"rate": RATE, "dropout": Range(low=0, high=0.5), "size": Range(low=3, high=9), "kind": ["a", None, [1]]}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (Range(low=-2, high=0.5), stats.uniform(-2, 2.5)),
        (RATE, stats.loguniform(0.0003, 0.03)),
        (Range(low=3, high=9), stats.randint(3, 10)),
    ],
)
def test_a_range_is_drawn_from_by_its_quantiles(values, expected):
    drawn = [values.at(u) for u in np.linspace(0.001, 0.999, 97).tolist()]
    assert drawn == pytest.approx(expected.ppf(np.linspace(0.001, 0.999, 97)))
    assert {type(each) for each in drawn} == {int if values.is_whole else float}


def test_whole_numbers_by_their_logarithm_are_as_probable_as_the_logarithm_grows_up_to_the_next():
    low, high, draws = 2, 7, 20_000
    values = Range(low=low, high=high, log=True)
    drawn = [values.at((i + 0.5) / draws) for i in range(draws)]
    for number in range(low, high + 1):
        assert drawn.count(number) / draws == pytest.approx(log((number + 1) / number, (high + 1) / low), abs=2 / draws)


def suggestions(sampler, space, count, score=lambda _: None):
    trials = []
    for _ in range(count):
        setting = sampler.suggest(space, trials)
        trials.append(Trial(setting, score(setting)))
    return [trial.setting for trial in trials]


def test_random_search_is_its_seed_and_a_longer_one_begins_with_the_shorter():
    first = suggestions(Random(trials=5), SPACE, 5)
    assert suggestions(Random(trials=8), SPACE, 8)[:5] == first
    assert suggestions(Random(trials=5, seed=2), SPACE, 5) != first
    assert all(list(setting) == list(SPACE) for setting in first)


def test_random_search_tries_no_setting_twice_and_can_try_all():
    space = {"a": [True, None, "x"], "b": Range(low=-1, high=2)}
    assert size(space) == Random(trials=12).count(space) == 12
    assert size(space | {"c": Range(low=0.0, high=1)}) == inf
    drawn = suggestions(Random(trials=12), space, 12)
    grid = {"a": space["a"], "b": [-1, 0, 1, 2]}
    assert sorted(map(repr, drawn)) == sorted(map(repr, suggestions(Grid(), grid, Grid().count(grid))))


def test_tpe_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"^tune\.sampler: kind tpe needs optuna.*pip install 'seq2seq_attn\[tune\]'"):
        TPE(trials=3).suggest(SPACE, [])


def far(setting):
    """The best setting has a rate of 0.003, a dropout of 0.1 and the kind None; higher is better."""
    return -(log(setting["rate"] / 0.003) ** 2) - (10 * setting["dropout"] - 1) ** 2 - (setting["kind"] is not None)


def test_tpe_begins_as_random_search_and_comes_nearer():
    pytest.importorskip("optuna", reason="the extra [tune] is not installed")
    best = {TPE: [], Random: []}
    for seed in range(5):
        tpe, random = (suggestions(kind(trials=40, seed=seed), SPACE, 40, far) for kind in best)
        assert tpe[:10] == random[:10]
        assert tpe[10:] != random[10:]
        best[TPE].append(max(map(far, tpe)))
        best[Random].append(max(map(far, random)))
    assert median(best[TPE]) > median(best[Random])


def test_tpe_suggests_what_optuna_suggests_after_the_same_trials(capfd):
    optuna = pytest.importorskip("optuna", reason="the extra [tune] is not installed")
    drawn = suggestions(Random(trials=12), SPACE, 12)
    trials = [Trial(setting, far(setting) if number % 4 else None) for number, setting in enumerate(drawn)]
    before = optuna.logging.get_verbosity()
    found = TPE(trials=13).suggest(SPACE, trials)
    assert (optuna.logging.get_verbosity(), *capfd.readouterr()) == (before, "", "")

    seed = int(np.random.SeedSequence([1, 12]).generate_state(1)[0])
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    for trial in trials:
        study.enqueue_trial({**trial.setting, "kind": SPACE["kind"].index(trial.setting["kind"])})

    def objective(asked):
        rate = asked.suggest_float("rate", 0.0003, 0.03, log=True)
        dropout, width = asked.suggest_float("dropout", 0, 0.5), asked.suggest_int("size", 3, 9)
        setting = {"rate": rate, "dropout": dropout, "size": width, "kind": asked.suggest_categorical("kind", range(3))}
        if asked.number % 4 == 0 and asked.number < 12:
            raise optuna.TrialPruned
        return far({**setting, "kind": SPACE["kind"][setting["kind"]]})

    study.optimize(objective, n_trials=13)
    last = study.trials[-1].params
    assert found == {**last, "kind": SPACE["kind"][last["kind"]]}


def test_tpe_tries_no_setting_twice():
    pytest.importorskip("optuna", reason="the extra [tune] is not installed")
    space = {"a": [1, 2, 3], "b": Range(low=1, high=4)}
    drawn = suggestions(TPE(trials=12), space, 12, lambda setting: setting["a"] * setting["b"])
    assert len(set(map(repr, drawn))) == 12
