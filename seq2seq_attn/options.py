"""Options of functions, commands and requests: each is declared here once, with its type, its limits and its help.

Functions of `api/` take the fields of these records as keywords; the commands, the requests of the server and the page
of the configuration are made from them. Nothing here imports torch, because `--help` returns immediately.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from pydantic.fields import FieldInfo

from seq2seq_attn.strict import Strict

MAX_WIDTH = 100_000  # hypotheses of one sentence; all of them are in memory at once
MAX_TRANSLATIONS = 100  # of a source token in a lexicon (`corpora/lexicon.py`)

Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
AlignmentRow = Literal["predicted", "read"]
ExportTarget = Literal["torch", "onnx", "ctranslate2", "html"]  # a module of `export/` each
DEFAULT_METRICS = "bleu", "chrf", "ter", "exact_match"  # keys of `evaluation.metrics.METRICS`, the main one first

_Function = TypeVar("_Function", bound=Callable[..., Any])


class SearchRequest(Strict):
    """The options of a search that a client of the server may choose; `SearchOptions` has the others."""

    beam_size: Width = Field(default=5, description="Hypotheses per source; 1 is greedy search.")
    n_best: Width = Field(default=1, description="Outputs for each source at most, best first.")
    distinct: bool = Field(
        default=False,
        description="No text twice among the n best: subwords can spell one text in several ways.",
    )
    length_penalty: float = Field(
        default=1.0,
        ge=0.0,
        le=10.0,
        description="log p is divided by ((5 + tokens) / 6) to this power; 0 ranks by log p.",
    )
    length_reward: float = Field(
        default=0.0, ge=0.0, le=10.0, description="Added to the score for each target token, `</s>` included."
    )
    coverage_penalty: float = Field(
        default=0.0,
        ge=0.0,
        le=10.0,
        description="Added to the score, times this: ln of the attention that each source token got, if less than 1; "
        "0.2 is usual.",
    )
    beam_groups: PositiveInt = Field(
        default=1,
        description="Groups into which the beam is divided, each of which avoids what those before it chose: diverse "
        "beam search.",
    )
    diversity: float | None = Field(
        default=None,
        gt=0.0,
        le=100.0,
        description="What a token costs a group, in nats, for each hypothesis of an earlier group that chose it at the "
        "same step; 0.5 unless given.",
    )
    min_length: PositiveInt = Field(default=1, description="Minimum number of target tokens, `</s>` included.")
    max_length: PositiveInt = Field(default=256, description="Maximum number of target tokens, `</s>` included.")
    precision: Literal["fp32", "bf16", "int8"] = Field(
        default="fp32",
        description="Precision of matrix products; bf16 and int8 (for CPUs) are faster but less exact: bf16 moves the "
        "log-probability of a target by up to 0.7, and may choose another output.",
    )
    sampling: bool | None = Field(
        default=None,
        description="Draw the n best at random instead of searching for them; by default, if any of the next four "
        "options is given.",
    )
    temperature: float | None = Field(
        default=None,
        gt=0.0,
        description="Draw from p^(1/T), normalized, T > 0; 1, the default, is the distribution of the model.",
    )
    top_k: int | None = Field(default=None, ge=1, description="Draw from the k most probable tokens only.")
    top_p: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Draw from the fewest tokens with this probability in total, above 0 up to 1.",
    )
    seed: int | None = Field(default=None, ge=0, lt=2**32, description="Random seed of what is drawn; 1 unless given.")
    mbr: str | None = Field(
        default=None,
        description="Minimum Bayes risk: rank by mean similarity to all candidates, by this metric: chrf, bleu, or "
        "another that counts sentences.",
    )
    candidates: int | None = Field(
        default=None,
        ge=2,
        le=MAX_WIDTH,
        description="Outputs among which mbr chooses, of the beam or drawn; 5 unless given.",
    )
    avoid: tuple[str, ...] = Field(
        default=(),
        max_length=1000,
        description="A word or phrase that no output may contain, in all spellings by the model's tokens.",
    )
    no_repeat_ngram: int | None = Field(
        default=None, ge=1, description="No n tokens may occur twice in an output; 3 or 4 is usual."
    )
    replace_unknown: bool = Field(
        default=False,
        description="Show the source token with the highest attention weight instead of `<unk>`, or what a glossary "
        "has for it.",
    )
    casing: Literal["source"] | None = Field(
        default=None,
        description="source: an output is in capitals, or begins with one, if its source is or does; for a model "
        "that writes lower case.",
    )


class SearchOptions(SearchRequest):
    """Beam search, greedy search if `beam_size` is 1, or sampling, which has no beam.

    A length counts predicted tokens, `</s>` included, and is written |Y| below and S for the source.
    """

    max_length_ratio: float | None = Field(
        default=2.0,
        gt=0.0,
        description="Target tokens per source token at most, beside max_length_margin; null: no limit but max_length.",
    )
    max_length_margin: NonNegativeInt = Field(default=10, description="Target tokens beyond max_length_ratio.")
    batch_size: PositiveInt = Field(default=64, description="Sources that are decoded together at most.")
    batch_tokens: PositiveInt = Field(default=4096, description="Their source tokens at most, padding included.")
    shortlist: int | None = Field(
        default=None,
        ge=0,
        le=MAX_TRANSLATIONS,
        description="Predict only this many likely tokens per source token, and the frequent ones, for speed, with a "
        "lexicon that is learned on first use; 50 is usual, 0 is the whole vocabulary.",
    )
    shortlist_frequent: NonNegativeInt = Field(
        default=500, description="The most frequent target tokens, which every shortlist contains."
    )

    @model_validator(mode="after")
    def _limits_agree(self) -> SearchOptions:
        if self.mbr is None and self.candidates is not None:
            raise ValueError("candidates: only minimum Bayes risk chooses among them; give mbr as well")
        key, count = "n_best", self.n_best
        if self.mbr is not None:
            key, count = "candidates", self.mbr_candidates
            if self.n_best > count:
                raise ValueError(f"n_best={self.n_best} exceeds candidates={count}; set candidates={self.n_best}")
        if count > self.beam_size and not self.draws:
            raise ValueError(
                f"{key}={count} needs a beam at least as wide, got beam_size={self.beam_size}; set beam_size={count}"
            )
        if self.min_length > self.max_length:
            raise ValueError(f"min_length={self.min_length} exceeds max_length={self.max_length}; change one of them")
        if self.beam_groups == 1 and self.diversity is not None:
            raise ValueError("diversity: between groups of a beam; give beam_groups as well, 2 or more")
        if self.beam_groups > 1 and self.draws:
            raise ValueError(f"beam_groups={self.beam_groups} divides a beam; draw nothing, or set beam_groups=1")
        if self.beam_size % self.beam_groups:
            width = self.beam_groups * -(-self.beam_size // self.beam_groups)
            raise ValueError(
                f"beam_size={self.beam_size} cannot be divided into beam_groups={self.beam_groups}; set "
                f"beam_size={width}"
            )
        if self.coverage_penalty and (self.draws or self.beam_size == 1):
            raise ValueError(
                "coverage_penalty ranks the hypotheses of a beam; set beam_size to 2 or more and draw nothing, or set "
                "coverage_penalty=0"
            )
        return self

    @property
    def draws(self) -> bool:
        """Whether outputs are drawn at random, instead of searched for."""
        if self.sampling is not None:
            return self.sampling
        return (self.temperature, self.top_k, self.top_p, self.seed) != (None, None, None, None)

    @property
    def has_rules(self) -> bool:
        """Whether some continuations are excluded, of any source."""
        return bool(self.avoid) or self.no_repeat_ngram is not None

    def without_rules(self) -> SearchOptions:
        """The same options with every continuation allowed, in one beam that is ranked without coverage."""
        without = {"avoid": (), "no_repeat_ngram": None, "coverage_penalty": 0.0}
        return self.model_copy(update=without | {"beam_groups": 1, "diversity": None})

    @property
    def strength(self) -> float:
        """lambda of diverse beam search (`search/groups.py`)."""
        return 0.5 if self.diversity is None else self.diversity

    @property
    def mbr_candidates(self) -> int:
        """How many outputs minimum Bayes risk chooses among."""
        return self.candidates or 5

    def greedy(self) -> SearchOptions:
        """The same limits for greedy search, with the whole vocabulary."""
        changes = {"beam_size": 1, "n_best": 1, "sampling": False, "mbr": None, "candidates": None, "shortlist": None}
        others = {"beam_groups": 1, "diversity": None, "coverage_penalty": 0.0, "replace_unknown": False}
        return self.model_copy(update=changes | others)

    def for_candidates(self) -> SearchOptions:
        """The options of the search or sampling that finds the candidates among which `mbr` or `distinct` chooses."""
        if self.mbr is not None:
            return self.model_copy(update={"n_best": self.mbr_candidates, "mbr": None, "candidates": None})
        if self.distinct and self.n_best > 1 and not self.draws:
            return self.model_copy(update={"n_best": self.beam_size})
        return self

    def for_several(self, count: int) -> dict[str, Any]:
        """Changes to these options so that a search returns `count` outputs, with a wider beam if it needs one."""
        found = count if self.mbr is None else max(self.mbr_candidates, count)
        width = self.beam_size if self.draws else max(self.beam_size, found)
        changes = {"n_best": count, "beam_size": -(-width // self.beam_groups) * self.beam_groups}
        return changes if self.mbr is None else {**changes, "candidates": found}

    @property
    def hypotheses(self) -> int:
        """How many hypotheses of one sentence are in memory at once."""
        return self.for_candidates().n_best if self.draws else self.beam_size

    def penalty(self, length: int) -> float:
        """lp(Y) = ((5 + |Y|) / 6)^alpha, by which log p(Y | X) is divided; Wu et al. 2016, equation 14."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def score(self, log_probability: Any, length: int, coverage: Any = 0.0) -> Any:
        """s(Y, X) = log p(Y | X) / lp(Y) + gamma |Y| + beta sum_j log min(sum_i a_ij, 1), which ranks hypotheses.

        The length reward gamma is that of He et al. 2016 and Murray & Chiang 2018, who have it in place of lp(Y); the
        coverage penalty beta is that of Wu et al. 2016, equation 14.

        Args:
            log_probability: log p(Y | X): a number, or those of several hypotheses of this length as a tensor.
            length: |Y|.
            coverage: The sum over j, at most 0, likewise.
        """
        score = log_probability / self.penalty(length)
        if self.length_reward:
            score = score + self.length_reward * length
        if self.coverage_penalty:
            score = score + self.coverage_penalty * coverage
        return score

    def limit(self, source_length: int) -> int:
        """The longest |Y| for a source of length S: min(max_length, a S + margin), at least min_length."""
        limit: float = self.max_length
        if self.max_length_ratio is not None:
            limit = min(limit, self.max_length_ratio * source_length + self.max_length_margin)
        return max(self.min_length, int(limit))


class LinkOptions(Strict):
    """Which source words a target word is linked to, by attention weights."""

    threshold: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Link all words with at least this weight, not only the highest-weighted one.",
    )
    row: AlignmentRow = Field(
        default="predicted",
        description="Align a word by the step that predicts it, or by the step that reads it as input.",
    )


class AlignOptions(LinkOptions):
    """The same, with the attention that the weights are taken from: the mean of all layers and heads, or one."""

    layer: int | None = Field(
        default=None, ge=0, description="Align by the heads of this layer alone, counted from 0: by their mean."
    )
    head: int | None = Field(default=None, ge=0, description="Align by this head of the layer, counted from 0.")

    @model_validator(mode="after")
    def _heads_are_counted_within_a_layer(self) -> AlignOptions:
        if self.head is not None and self.layer is None:
            raise ValueError(f"head {self.head} needs the number of its layer; give layer as well")
        return self


class FaithfulnessOptions(Strict):
    """What the test of faithfulness draws at random."""

    sentences: PositiveInt = Field(default=50, description="Number of pairs for the rank correlations.")
    seed: int = Field(default=1, ge=0, lt=2**32, description="Random seed for pairs, permutations and erased tokens.")


class ScoringOptions(Strict):
    """How outputs are scored."""

    metrics: tuple[str, ...] = Field(
        default=DEFAULT_METRICS,
        description="Metrics by their keys, or as my_metrics.py:First in a file of your own; by the first, training is "
        "validated and systems are compared.",
    )
    tokenize: str | None = Field(
        default=None,
        description="sacrebleu's tokenizer for words: 13a, zh, intl, char, none, ...; by default that of the language.",
    )
    lowercase: bool | None = Field(
        default=None,
        description="Ignore case, in all metrics but TER and COMET; by default, if the model cannot write capitals.",
    )
    comet: Path | None = Field(
        default=None,
        description="The checkpoint of a COMET model, to score by it as well; needs the sources and unbabel-comet.",
    )


class PairOptions(Strict):
    """What the two sides of a corpus are."""

    source_language: str | None = Field(
        default=None, description="Language code such as en; default: from the file names."
    )
    target_language: str | None = Field(
        default=None, description="Language code such as de; default: from the file names."
    )
    columns: tuple[int, int] = Field(
        default=(0, 1), description="Source and target in a file with tabs, counted from 0."
    )


class SplitOptions(PairOptions):
    """How a corpus is split, and what its files are called."""

    validation: PositiveInt = Field(default=1000, description="Distinct source sentences in the validation set.")
    test: PositiveInt = Field(default=1000, description="Distinct source sentences in the test set.")
    seed: int = Field(default=1, description="Random seed of the split.")


class FilterOptions(PairOptions):
    """Which pairs of a corpus are dropped, beside those with a blank side."""

    max_ratio: float | None = Field(
        default=None, ge=1.0, description="Drop a pair of which one side has more than this many times the characters."
    )
    drop_copied: bool = Field(default=False, description="Drop a pair whose target is its source.")
    drop_duplicates: Literal["pairs", "sources", "targets"] | None = Field(
        default=None, description="Drop a pair that was there before, or whose source or target was."
    )
    min_language: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Drop a pair of which a side is in its language with a lower probability, by py3langid (the extra "
        "[langid]).",
    )


class Resources(Strict):
    """What each run of a comparison, or process of a translation, gets on a cluster. On one machine, they share it."""

    cpus: PositiveInt = Field(default=1, description="Processors, and threads of the process.")
    gpus: int = Field(default=0, ge=0, le=1, description="GPUs, 0 or 1: each run, or part of a file, is one process.")
    memory: float | None = Field(
        default=None, gt=0.0, description="Memory in GB; by default, Slurm's, and of Ray what is free."
    )
    hours: float = Field(
        default=24.0,
        gt=0.0,
        description="Slurm: the time of a job. One that takes longer is queued again shortly before, and continues.",
    )
    partition: str | None = Field(default=None, description="Slurm: the partition; by default, that of the cluster.")
    account: str | None = Field(default=None, description="Slurm: the account; by default, that of the user.")

    def in_words(self, on: str) -> str:
        """What the engine gives, as in `2 cpus, 1 gpu, 8 GB`; on `slurm` also `24 h, partition gpu`."""
        counts = [f"{n} {unit}{'' if n == 1 else 's'}" for n, unit in ((self.cpus, "cpu"), (self.gpus, "gpu")) if n]
        memory = [] if self.memory is None else [f"{self.memory:g} GB"]
        places = [f"{key} {value}" for key in ("partition", "account") if (value := getattr(self, key))]
        return ", ".join([*counts, *memory, *([f"{self.hours:g} h", *places] if on == "slurm" else ())])


def takes(record: type[Strict], *, unset: bool = False) -> Callable[[_Function], _Function]:
    """Says that the `**` argument of a function takes the fields of a record.

    They stand in the function's signature, where editors, notebooks and the command line (`cli/command.py`) find them.

    Args:
        record: The record.
        unset: Every field defaults to None, which stands for the value in the configuration of a run.
    """

    def taking(function: _Function) -> _Function:
        signature, keyword = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        first = sum(each.kind is not keyword for each in own)
        fields = []
        for name, field in record.model_fields.items():
            kind: Any = field.annotation
            default, kind = (None, kind | None) if unset else (field.default, kind)
            fields.append(inspect.Parameter(name, keyword, default=default, annotation=kind))
        vars(function)["__signature__"] = signature.replace(parameters=[*own[:first], *fields, *own[first:]])
        vars(function)["taken_fields"] = record.model_fields | taken_fields(function)  # of several records
        return function

    return taking


def taken_fields(function: Callable[..., Any]) -> dict[str, FieldInfo]:
    """The fields of the record that a function `takes`, by name; none if it takes none."""
    return dict(getattr(function, "taken_fields", {}))
