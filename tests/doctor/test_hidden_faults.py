"""The doctor finds faults that ordinary calls hide, and does not blame sound scorers that look suspicious."""

import pytest

from seq2seq_attn.doctor import LAWS, check_law, check_subject, make_subject

# Graphs and translators have tests of their own.
CHECKED = [law for law in LAWS["scorer"] if law not in ("compiled", "exported", "translator")]

# What hides a fault, the law that finds it, and scorers of `broken_scorers.py`.
FAULTS = {
    "gradients that are not the derivative": (
        "gradients",
        ["GradientDoubled", "GradientNegated", "HalfDetached", "DetachesSomeFeatures", "DetachesInSinglePrecision"],
    ),
    "training mode": (
        "training",
        [
            "ScalesInTraining",
            "RollsInTraining",
            "DetachesInTraining",
            "MixesSentencesInTraining",
            "MixesSentencesWithNoise",
        ],
    ),
    "dimensions of equal size": (
        "queries",
        [
            "TransposesSquares",
            "SwapsBatchAndSteps",
            "SwapsBatchAndPositions",
            "SwapsFeaturesAndPositions",
        ],
    ),
    "long sources": (
        "long_source",
        ["RefusesLongSources", "ReversesChunks", "BlursLongSources", "OverflowsInLongSources"],
    ),
    "memory layout": ("strides", ["ViewsQuery", "ViewsPrepared", "AssumesStrides", "ReadsFromTheStart"]),
    "autocast and half precision": (
        "precision",
        ["ReversedUnderAutocast", "FlippedUnderAutocast", "HalvedUnderAutocast", "ReversedInHalfPrecision"],
    ),
    "state that is compared by contents": (
        "memory",
        ["AppendsToAList", "AppendsToItsClass", "FillsAGlobal", "CachesByAddress"],
    ),
    "ignored features": (
        "features",
        ["ReadsHalfTheQuery", "ReadsHalfTheKey", "ReadsEverySecondFeature", "IgnoresTheLastFeature"],
    ),
    "vectors of zeros": (
        "zero_vectors",
        ["ZeroKeyScoresZero", "ZeroKeyIsMasked", "SmallKeyScoresZero", "ZeroQueryScoresZero"],
    ),
    "functions undefined below 0": (
        "finite",
        ["LogOfNegatives", "RootOfNegatives", "HidesLogOfNegatives", "ExcludesLogOfNegatives", "LogOfTheKeys"],
    ),
    "growing sources": ("extend", ["HasATableOf64"]),
    "tables of limited length": (
        "long_source",
        ["HasATableOf64", "ScoresZeroBeyondItsTable", "DropsPositionsBeyondItsTable", "HasATableOf64Steps"],
    ),
}


@pytest.mark.parametrize(
    ("law", "name"), [(law, name) for law, names in FAULTS.values() for name in names], ids=lambda each: each
)
def test_a_hidden_fault_is_found(broken, law, name):
    subject = make_subject(getattr(broken, name))
    assert check_law(subject, law).verdict == "wrong"
    assert all(check_law(subject, first).verdict == "ok" for first in ("shapes", "determinism"))


@pytest.mark.parametrize(
    ("law", "name"), [("memory", "ChangesABuffer"), ("memory", "AppendsToADefault"), ("positions", "ClipsAtZero")]
)
def test_what_is_allowed_but_rarely_intended_is_a_warning(broken, law, name):
    assert check_law(make_subject(getattr(broken, name)), law).verdict == "warning"


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("OldWeightNorm", {"copies"}),  # torch supports neither pickle nor deepcopy of these two
        ("WeightNorm", {"copies"}),
        ("SpectralNorm", {"copies", "training"}),  # which updates its estimate in training mode
        ("AddsNoiseInTraining", {"training"}),
        ("NormalizesLayers", {"gradients"}),  # its bias shifts all scores equally
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_sound_scorer_is_not_blamed(broken, name, noted):
    found = check_subject(make_subject(getattr(broken, name)), CHECKED).findings
    assert {law: each.message for law, each in found.items() if each.verdict in ("wrong", "warning")} == {}
    assert {law for law, each in found.items() if each.verdict == "note"} == noted


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_scorer_with_weight_norm_is_checked_after_it_was_called(broken):
    scorer = broken.OldWeightNorm(16, 24)
    scorer.prepare(scorer.key_layer.weight.new_zeros(1, 2, 24))
    assert check_law(make_subject(scorer), "queries").verdict == "ok"
