"""The laws find planted faults, those that ordinary calls hide included, and do not blame what is sound."""

import pytest

from seq2seq_attn.attention import (
    Attention,
    ChunkwiseAttention,
    FixedContext,
    General,
    KeyValueAttention,
    LastState,
    LearnedPool,
    LocalM,
    LocationAware,
    MeanContext,
    Monotonic,
    MultiHead,
    NoContext,
    RandomToken,
    normalizer_classes,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.testing import laws_of
from seq2seq_attn.testing.laws import outcome_of

GRAPHS = ("compiled", "exported")  # in `test_graphs.py`: torch cannot trace the checks of shapes that are active here

# By law: the classes of `broken_scorers.py` and `broken_parts.py` that break it.
BROKEN = {
    "shapes": "SwapsAxes PreparesAList LosesAnAxis IsNotANumber RefusesOneSentence WrongWidth",
    "determinism": "IsRandom",
    "positions": "OffByOne",
    "batch": "MixesSentences MixesRows",
    "queries": "CountsQueries TransposesSquares SwapsBatchAndSteps SwapsBatchAndPositions",
    "steps": "LooksTooFarAhead StepsDiffer",
    "histories": "MixesHypotheses ChangesHistory ChangesItsHistory MixesItsHypotheses",
    "padding": "MasksInside LooksAround SwapsFeaturesAndPositions GivesPaddingWeight OpensPadding ReadsPadding",
    "extend": "HasATableOf64 CachesKeys LooksAround StartsAgain AppendsNoPadding",
    "arguments": "ChangesKeys ChangesQuery ChangesItsSource",
    "memory": "CachesKeys CachesByAddress AppendsToAList AppendsToItsClass AppendsToADefault FillsAGlobal "
    "RemembersOnItself KeepsTheLastSentence",
    "strides": "ChangesKeys ChangesQuery ViewsQuery ViewsPrepared AssumesStrides ReadsFromTheStart",
    "gradients": "HasAnUnusedParameter Detaches GradientDoubled GradientNegated HalfDetached DetachesSomeFeatures "
    "DetachesInSinglePrecision LosesHalfItsGradient FreezesItsSlope HalvesItsGradient",
    "training": "MixesSentences ScalesInTraining RollsInTraining DetachesInTraining MixesSentencesInTraining "
    "MixesSentencesWithNoise",
    "long_source": "RefusesLongSources ReversesChunks BlursLongSources OverflowsInLongSources HasATableOf64 "
    "ScoresZeroBeyondItsTable DropsPositionsBeyondItsTable HasATableOf64Steps MasksInside LooksAround CountsQueries",
    "features": "ReadsHalfTheQuery ReadsHalfTheKey ReadsEverySecondFeature IgnoresTheLastFeature IgnoresKeys",
    "zero_vectors": "ZeroKeyScoresZero ZeroKeyIsMasked SmallKeyScoresZero ZeroQueryScoresZero DividesByLength "
    "LogOfAClampedScore",
    "finite": "Overflows DividesByLength MasksInside ShiftsRows SupportsOneDtype LogOfNegatives RootOfNegatives "
    "HidesLogOfNegatives ExcludesLogOfNegatives LogOfTheKeys",
    "precision": "SupportsOneDtype ReversedUnderAutocast FlippedUnderAutocast HalvedUnderAutocast "
    "ReversedInHalfPrecision RoundsInHalfPrecision",
    "copies": "ForgetsToSave CannotBePickled SharesItself",
    "rows": "GivesPaddingWeight SumsToLess OverflowsInExp ForgetsToMaskInTraining",
    "permutation": "PrefersTheFirst",
    "open_tokens": "ClosesEverything CountsStepsUndeclared SubtractsWeights",
    "select": "ForgetsToSelect",
    "reads_query": "DeniesItsQuery",
    "values": "ReadsItsKeys",
    "may_read": "IgnoresItsMask",
    "causal": "IgnoresTheFuture CountsFromTheFirst ReadsItsOwnPositionAlone",
    "bias": "IgnoresItsBias CentersItsBias GivesUpOnInfinity",
    "need_weights": "DoublesWithoutWeights ReturnsThree",
}
# What is allowed, but rarely intended.
WARNED = {
    "padding": "ShiftsRows",
    "positions": "MasksInside ShiftsRows LooksAround ClipsAtZero",
    "memory": "RemembersWeights ChangesABuffer",
    "gradients": "HasAnInvisibleBias NormalizesLayers",
    "reads_query": "IgnoresQuery AddsQuery",
    "reads_keys": "IgnoresKeys",
    "finite": "GatesQuery",
}
# Nothing is wrong with these, and these laws cannot be checked.
SOUND = {
    "Sound": "",
    "SumsWeights": "extend",
    "DropsOut": "",
    "HasAKinkAtZero": "",
    "OldWeightNorm": "",
    "WeightNorm": "copies",  # torch supports neither pickle nor deepcopy of reparametrized modules
    "SpectralNorm": "training copies",  # it updates its estimate in training mode
    "AddsNoiseInTraining": "training",
    "Shares": "",
    "DeclaresItsSum": "",
    "DeclaresPositions": "",
    "ReadsOnce": "extend",
    "LastTokens": "",
    "Reads": "",
    "TakesCausalAlone": "values may_read bias",
    "RefusesAll": "values may_read causal bias extend",
}
# Each of these breaks its law, and no other.
ALONE = (
    "OffByOne MixesHypotheses ChangesHistory LooksTooFarAhead HasAnUnusedParameter Detaches Overflows ForgetsToSave "
)
ALONE += "CannotBePickled SharesItself SwapsFeaturesAndPositions"

OURS = [
    part
    for classes in (scorer_classes(), normalizer_classes(), window_classes())
    for part in classes.values()
    if part.__module__.startswith("seq2seq_attn.")
]
CONTEXTS = [NoContext, MeanContext, FixedContext, Attention, MultiHead, ChunkwiseAttention]
INSTANCES = {
    "last state": lambda: FixedContext(LastState(directions=2), 24),
    "learned pool": lambda: FixedContext(LearnedPool(24), 24),
    "key and value": lambda: KeyValueAttention(Attention(General(16, 12))),
    "multi-head, chunkwise": lambda: MultiHead(
        ChunkwiseAttention(Attention(General(8, 6), Monotonic()), LocationAware(8, 6), 2), 2, 16, 24
    ),
}


def each(table):
    return [(law, name) for law, names in table.items() for name in names.split()]


@pytest.fixture
def planted(broken, broken_parts):
    return lambda name: getattr(broken, name, None) or getattr(broken_parts, name)


def outcomes(part, **sizes):
    """What came of every law except those of graphs, by verdict and law."""
    found = {"broken": {}, "warning": {}, "skipped": {}, "holds": {}}
    for law in laws_of(part, **sizes):
        if law.name not in GRAPHS:
            outcome = outcome_of(law)
            found[outcome.verdict][law.name] = outcome.message
    return found


def verdict(part, name):
    (law,) = (law for law in laws_of(part) if law.name == name)
    return outcome_of(law).verdict


@pytest.mark.parametrize(("law", "name"), each(BROKEN))
def test_a_planted_fault_breaks_its_law(planted, law, name):
    assert verdict(planted(name), law) == "broken"


@pytest.mark.parametrize(("law", "name"), each(WARNED))
def test_what_is_allowed_but_rarely_intended_is_a_warning(planted, law, name):
    assert verdict(planted(name), law) == "warning"


@pytest.mark.parametrize("name", ALONE.split())
def test_a_fault_breaks_no_other_law(planted, name):
    found = outcomes(planted(name))
    assert ([*found["broken"]], found["warning"]) == (
        [law for law, names in BROKEN.items() if name in names.split()],
        {},
    )


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_sound_part_is_not_blamed(planted, name):
    found = outcomes(planted(name))
    assert (found["broken"], found["warning"], {*found["skipped"]}) == ({}, {}, {*SOUND[name].split()})


def test_every_planted_part_is_expected_to_be_found_or_to_be_sound(broken, broken_parts):
    expected = {*SOUND, *(name for table in (BROKEN, WARNED) for _, name in each(table))}
    graphs = {"BranchesOnValues", "FixesItsBatchSize"}
    for module in (broken, broken_parts):
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
        assert {name for name in own if name[0] != "_"} - {"SelectsNothing", "Biased"} <= expected | graphs


@pytest.mark.parametrize("part", OURS + CONTEXTS, ids=lambda part: part.__name__)
def test_our_parts_keep_all_laws(part):
    assert outcomes(part)["broken"] == {}


@pytest.mark.parametrize("make", INSTANCES.values(), ids=INSTANCES)
def test_our_contexts_keep_all_laws_as_instances(make):
    assert outcomes(make(), query_size=16, key_size=24)["broken"] == {}


def test_weight_on_padding_is_found_wherever_it_comes_from(monkeypatch):
    monkeypatch.setattr("seq2seq_attn.attention.normalizer.masked", lambda scores, is_token: scores)
    assert verdict(General, "padding") == "broken"


@pytest.mark.parametrize("window", [LocalM(16, half_width=0), RandomToken(16)])
def test_a_bias_need_not_change_the_weights_of_a_single_position(window):
    assert verdict(Attention(General(16, 24), window=window), "bias") == "holds"


@pytest.mark.parametrize("law", ["may_read", "causal", "bias", "need_weights"])
def test_a_context_without_an_option_cannot_be_checked_for_it(planted, law):
    assert verdict(planted("StepsDiffer"), law) == "skipped"


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_scorer_with_weight_norm_is_checked_after_it_was_called(broken):
    scorer = broken.OldWeightNorm(16, 24)
    scorer.prepare(scorer.key_layer.weight.new_zeros(1, 2, 24))
    assert verdict(scorer, "queries") == "holds"


class Large(General, registered=False):
    """Scores at which softmax is saturated."""

    def forward(self, query, prepared):
        return 100 * super().forward(query, prepared)


class Single(General, registered=False):
    """In float32, whatever the inputs are."""

    def forward(self, query, prepared):
        return super().forward(query, prepared).float()


def test_a_saturated_softmax_is_not_taken_for_a_parameter_without_effect():
    assert verdict(Large, "gradients") == "holds"


def test_gradients_that_cannot_be_measured_are_not_said_to_be_measured():
    assert verdict(Single, "gradients") == "skipped"
