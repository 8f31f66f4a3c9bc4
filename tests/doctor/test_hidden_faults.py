"""Faults that hide from plain calls are found, and sound scorers that look alike are not blamed."""

import pytest

from seq2seq_attn.doctor import LAWS, check_law, check_subject, make_subject

# Graphs and translators have tests of their own.
ASKED = [law for law in LAWS["scorer"] if law not in ("compiled", "exported", "translator")]

# By what hides them: the law that finds them, and the scorers of `broken_scorers.py`.
FAULTS = {
    "gradients that are not the derivative": (
        "gradients",
        ["GradientTwice", "GradientBackwards", "HalfDetached", "DetachesSomeFeatures", "DetachesInSinglePrecision"],
    ),
    "training mode": (
        "training",
        [
            "LouderInTraining",
            "RollsInTraining",
            "DetachesInTraining",
            "MixesSentencesInTraining",
            "MixesSentencesUnderNoise",
        ],
    ),
    "axes of equal length": (
        "queries",
        [
            "TransposesSquares",
            "TakesTheBatchForSteps",
            "TakesTheBatchForPositions",
            "TakesFeaturesForPositions",
        ],
    ),
    "long sources": (
        "long_source",
        ["RefusesLongSources", "MixesUpChunks", "BlursLongSources", "OverflowsInLongSources"],
    ),
    "memory layout": ("strides", ["ViewsQuery", "ViewsPrepared", "AssumesStrides", "ReadsFromTheStart"]),
    "autocast and half precision": (
        "precision",
        ["ReversedUnderAutocast", "FlippedUnderAutocast", "HalvedUnderAutocast", "ReversedInHalfPrecision"],
    ),
    "contents, not identity": (
        "memory",
        ["AppendsToAList", "AppendsToItsClass", "FillsAGlobal", "CachesByAddress"],
    ),
    "features that play no part": (
        "features",
        ["ReadsHalfTheQuery", "ReadsHalfTheKey", "ReadsEverySecondFeature", "LosesTheLastFeature"],
    ),
    "vectors of zeros": (
        "zero_vectors",
        ["ZeroKeyScoresZero", "ZeroKeyIsMasked", "SmallKeyScoresZero", "ZeroQueryScoresZero"],
    ),
    "functions that end at 0": (
        "finite",
        ["LogOfNegatives", "RootOfNegatives", "HidesLogOfNegatives", "ExcludesLogOfNegatives", "LogOfTheKeys"],
    ),
    "tables that end": (
        "long_source",
        ["HasATableOf64", "ScoresZeroBehindItsTable", "DropsWhatIsBehindItsTable", "HasATableOf64Steps"],
    ),
}


@pytest.mark.parametrize(
    ("law", "name"), [(law, name) for law, names in FAULTS.values() for name in names], ids=lambda each: each
)
def test_a_fault_that_hides_is_found(broken, law, name):
    subject = make_subject(getattr(broken, name))
    assert check_law(subject, law).verdict == "wrong"
    assert all(check_law(subject, first).verdict == "ok" for first in ("shapes", "determinism"))


@pytest.mark.parametrize(
    ("law", "name"), [("memory", "ChangesABuffer"), ("memory", "AppendsToADefault"), ("positions", "CutsOffAtZero")]
)
def test_what_is_allowed_and_seldom_meant_is_a_warning(broken, law, name):
    assert check_law(make_subject(getattr(broken, name)), law).verdict == "warning"


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("OldWeightNorm", {"copies"}),  # torch refuses to pickle or copy these two itself
        ("WeightNorm", {"copies"}),
        ("SpectralNorm", {"copies", "training"}),  # which refines its estimate in training mode
        ("AddsNoiseInTraining", {"training"}),
        ("NormalisesLayers", {"gradients"}),  # its bias shifts all scores alike
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_sound_scorer_is_not_blamed(broken, name, noted):
    found = check_subject(make_subject(getattr(broken, name)), ASKED).findings
    assert {law: each.message for law, each in found.items() if each.verdict in ("wrong", "warning")} == {}
    assert {law for law, each in found.items() if each.verdict == "note"} == noted


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_copy_of_a_scorer_with_weight_norm_is_examined_after_it_was_called(broken):
    scorer = broken.OldWeightNorm(16, 24)
    scorer.prepare(scorer.key_layer.weight.new_zeros(1, 2, 24))
    assert check_law(make_subject(scorer), "queries").verdict == "ok"
