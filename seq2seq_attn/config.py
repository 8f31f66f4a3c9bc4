"""The configuration of a run: one record, composed of those of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field, PositiveFloat, PositiveInt, SerializeAsAny, field_validator, model_validator

from seq2seq_attn.attention import user_code
from seq2seq_attn.corpora.front_end import FrontEndConfig
from seq2seq_attn.corpora.images import ImageConfig as ImageConfig  # which registers its kind
from seq2seq_attn.corpora.languages import without_rules
from seq2seq_attn.corpora.named import sacrebleu_files
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.corpora.speech import SpeechConfig as SpeechConfig  # and that of frames
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.corpus_scores import Expected, default_tokenizer, unknown_tokenizer
from seq2seq_attn.evaluation.groups import BAND_ENDS
from seq2seq_attn.evaluation.metrics import LOSS, Metric, find_metrics
from seq2seq_attn.models.config import ModelConfig, default_model
from seq2seq_attn.models.encoder import EncoderConfig
from seq2seq_attn.options import ScoringOptions, SearchOptions
from seq2seq_attn.strict import Seed, Strict
from seq2seq_attn.training.config import TrainingConfig

SeveralPaths = Annotated[tuple[Path, ...], Field(min_length=2)]
Column = int | str
SeveralColumns = Annotated[tuple[Column, ...], Field(min_length=2)]


class PairFiles(Strict):
    """Pairs of source and target: two files with the same number of lines, one TSV, tables, or a data set of the hub.

    Files of text may be compressed. Tables and data sets are read by the library `datasets`.
    """

    source: Path | SeveralPaths | None = None  # a source per line, or as the front end reads it; of several, joined
    target: Path | None = None  # the targets, line by line
    tsv: Path | None = None  # both in one file, separated by tabs
    table: Path | SeveralPaths | None = None  # rows of Parquet or JSON Lines; of several files, one after the other
    dataset: str | None = None  # name on the Hugging Face hub, or folder, of a data set
    subset: str | None = None  # of the data set: its configuration, as in de-en
    split: str = "train"  # of the data set
    columns: tuple[Column | SeveralColumns, Column] = (0, 1)  # source, target: numbers of the TSV, or names of tables
    tag: str | None = None  # put before each source line, as in `<2de>`: a protected symbol
    sacrebleu: str | None = None  # a test set of sacrebleu, such as wmt20, whose files source and target then name
    pair: str | None = None  # its languages, such as en-de

    @model_validator(mode="before")
    @classmethod
    def _files_of_sacrebleu(cls, values: Any) -> Any:
        """Names the files of a test set; a complete configuration has them already."""
        if not isinstance(values, Mapping) or values.get("source") is not None:
            return values
        if values.get("sacrebleu") is None:
            if values.get("pair") is not None:
                raise ValueError(f"pair={values['pair']} is that of a test set; name it, as in sacrebleu: wmt20")
            return values
        if values.get("pair") is None:
            raise ValueError(f"sacrebleu={values['sacrebleu']} needs pair as well, as in pair: en-de")
        if values.get("tsv") is not None or values.get("target") is not None:
            raise ValueError("a test set of sacrebleu has its own files; leave out target and tsv")
        try:
            source, references = sacrebleu_files(str(values["sacrebleu"]), str(values["pair"]))
        except UserError as error:
            raise ValueError(str(error)) from None
        further = {"references": references[1:]} if "references" in cls.model_fields and references[1:] else {}
        return {**values, "source": source, "target": references[0], **further}

    @model_validator(mode="after")
    def _is_complete(self) -> PairFiles:
        self._require_files()
        return self

    def _require_files(self) -> None:
        two = self.source is not None and self.target is not None
        given = [two or None, self.tsv, self.table, self.dataset]
        if sum(each is not None for each in given) != 1 or (not two and (self.source or self.target)):
            raise ValueError("needs either source and target, tsv, table or dataset")
        if two and self.columns != (0, 1):
            raise ValueError("columns are those of tsv, table or dataset; leave them out with source and target")
        wanted = int if two or self.tsv is not None else str
        first, target = self.columns
        if not all(isinstance(each, wanted) for each in (*(first if isinstance(first, tuple) else (first,)), target)):
            named = "numbers, as in [0, 1]" if wanted is int else "the names of two columns, as in [en, de]"
            raise ValueError(f"columns={_in_brackets(self.columns)} must be {named}")
        if self.dataset is None and (self.subset is not None or self.split != "train"):
            raise ValueError("subset and split are those of a dataset; leave them out")

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files of the source; none of a TSV."""
        return (self.source,) if isinstance(self.source, Path) else self.source or ()

    @property
    def source_parts(self) -> int:
        """The number of files, or columns of the TSV, that make the source; 1 of no files."""
        given = self.sources if self.source is not None else self.columns[0]
        return max(1, len(given)) if isinstance(given, tuple) else 1

    @property
    def each(self) -> tuple[PairFiles, ...]:
        """The corpora, each alone."""
        return (self,)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, source before target."""
        files = (path for one in self.each for path in (*one.sources, one.target, one.tsv, *one.tables))
        return tuple(path for path in files if path is not None)

    @property
    def tables(self) -> tuple[Path, ...]:
        """The files of the table."""
        return (self.table,) if isinstance(self.table, Path) else self.table or ()

    @property
    def name(self) -> str:
        """The files or the data set, for messages."""
        if self.each[0] is not self:
            return "; ".join(each.name for each in self.each)
        if self.dataset is not None:
            return " ".join(filter(None, (self.dataset, self.subset, self.split)))
        *files, last = map(str, self.paths)
        return f"{', '.join(files)} and {last}" if files else last


def _in_brackets(columns: Sequence[Any]) -> list[Any]:
    return [list(each) if isinstance(each, tuple) else each for each in columns]


class SeveralFiles(PairFiles):
    """One corpus; or several, in their order, for which a list may stand in place of this record."""

    alone = "corpora"

    corpora: tuple[PairFiles, ...] = ()  # instead of the files above

    def _require_files(self) -> None:
        if not self.corpora:
            super()._require_files()
        elif given := [key for key, field in PairFiles.model_fields.items() if getattr(self, key) != field.default]:
            raise ValueError(f"{', '.join(given)}: of several corpora, each has its own; give it there")

    @property
    def each(self) -> tuple[PairFiles, ...]:
        return self.corpora or (self,)


class WeightedFiles(PairFiles):
    """One of several training corpora."""

    weight: PositiveFloat = 1.0  # w_i of `TrainingFiles`


class TrainingFiles(SeveralFiles):
    """The training pairs. From several corpora, an epoch draws as many pairs as they have together.

    They are drawn from corpus i, which has n_i pairs, in proportion to p_i = w_i n_i^(1/T) / Σ_k w_k n_k^(1/T)
    (Arivazhagan et al. 2019, with w = 1). With w = 1 and T = 1, the defaults, an epoch has every pair once.
    """

    corpora: tuple[WeightedFiles, ...] = ()  # instead of the files above
    temperature: PositiveFloat = 1.0  # T, of several corpora: the higher, the more evenly they are drawn

    @model_validator(mode="after")
    def _only_several_are_mixed(self) -> TrainingFiles:
        if self.temperature != 1.0 and not self.corpora:
            raise ValueError("temperature needs several corpora; name them in corpora")
        return self

    @property
    def is_mixed(self) -> bool:
        """Whether an epoch has some pairs more often than others."""
        return self.temperature != 1.0 or len({each.weight for each in self.corpora}) > 1


class TestFiles(PairFiles):
    """Test pairs, with gold alignments and a normalized reference if available."""

    __test__ = False  # for pytest: not a test

    alignments: Path | None = None  # gold links, Pharaoh format, words of the source i to words of the target j
    lc_tok: Path | None = None  # the reference lowercased, normalized and tokenized, for scores of such text
    references: tuple[Path, ...] = ()  # further references, line by line; without target, the first takes its place

    @model_validator(mode="before")
    @classmethod
    def _target_is_a_reference(cls, values: Any) -> Any:
        references = values.get("references") if isinstance(values, Mapping) else None
        if not isinstance(references, (list, tuple)):
            return values
        target = values.get("target")
        if target is None and all(values.get(key) is None for key in ("tsv", "table", "dataset")):
            target = next(iter(references), None)
        further = [each for each in references if str(each) != str(target)]
        return {**values, "target": target, "references": further}


def _encoders_of(made: type | None) -> str:
    """The kinds of encoders that read these batches, in words."""
    records = cast("dict[str, type[EncoderConfig]]", EncoderConfig.kinds())
    return " or ".join(kind for kind, record in records.items() if record.reads is made) or "another encoder"


class DataConfig(Strict):
    train: TrainingFiles
    validation: SeveralFiles
    test: TestFiles | None = None
    max_length: PositiveInt = 100  # tokens per side; longer pairs are left out of training and reported
    max_training_length: PositiveInt | None = None  # for training pairs only; None: max_length
    learned_from: PositiveInt = 1_000_000  # training pairs at most, evenly spaced, that vocabularies are learned from

    @property
    def longest_training(self) -> int:
        """Longer training pairs are left out, in tokens."""
        return self.max_training_length or self.max_length


class EvaluationConfig(ScoringOptions):
    bands: tuple[PositiveInt, ...] = BAND_ENDS  # upper ends of the source-length bands, in words
    unit: str = "words"  # what reports call the words of a source of text, in the plural, as letters

    @property
    def main(self) -> Metric:
        """The metric of validation and comparisons."""
        return self.chosen[0]

    @property
    def chosen(self) -> list[Metric]:
        """The metrics that are named, the main one first."""
        return find_metrics(self.metrics, user_code.load_place)

    @property
    def words(self) -> tuple[str, bool]:
        """How words are counted: tokenizer, and whether case is ignored."""
        return self.tokenize or "13a", bool(self.lowercase)

    @field_validator("metrics")
    @classmethod
    def _are_known(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        find_metrics(metrics, user_code.load_place)
        return metrics

    @field_validator("tokenize")
    @classmethod
    def _is_known(cls, tokenize: str | None) -> str | None:
        if tokenize is not None and (mistake := unknown_tokenizer(tokenize)) is not None:
            raise ValueError(mistake)
        return tokenize

    @model_validator(mode="after")
    def _bands_rise(self) -> EvaluationConfig:
        if list(self.bands) != sorted(set(self.bands)):
            raise ValueError(f"bands={list(self.bands)} must rise, as in [10, 20, 30]")
        return self


class Config(Strict):
    """The complete configuration of one run."""

    seed: Seed = 1  # of initial parameters, batches and dropout
    data: DataConfig
    source: Annotated[FrontEndConfig | None, SerializeAsAny()] = None  # what its lines are, if not text; null: text
    text: TextConfig = TextConfig()
    model: SerializeAsAny[ModelConfig] = Field(default_factory=default_model)
    training: TrainingConfig = TrainingConfig()
    search: SearchOptions = SearchOptions()
    evaluation: EvaluationConfig = EvaluationConfig()

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all corpora, which are protected symbols of the text."""
        files = filter(None, (self.data.train, self.data.validation, self.data.test))
        return tuple(dict.fromkeys(each.tag for one in files for each in one.each if each.tag is not None))

    @property
    def source_unit(self) -> str:
        """What the length of a source is counted in: `evaluation.unit` of text, or positions of what is not text."""
        return self.evaluation.unit if self.source is None or self.source.is_text else self.source.unit

    @property
    def monitored(self) -> Metric:
        """What chooses the weights of a training, ends it and lowers its learning rate."""
        return LOSS if self.training.monitor == "loss" else self.evaluation.main

    def expected(
        self, references: Sequence[Sequence[str]], sources: Sequence[str] = (), lc_tok: Sequence[str] | None = None
    ) -> Expected:
        """What translations are scored against, with the options of this configuration."""
        given = self.evaluation
        return Expected(references, sources, *given.words, self.text.target_language, lc_tok, given.comet)

    @model_validator(mode="after")
    def _options_suit_the_source(self) -> Config:
        kind = "text" if self.source is None else self.source.kind
        made, reads = Tokens if self.source is None else self.source.makes, self.model.encoder.reads
        if reads is Tokens if made is None else reads is not made:
            raise ValueError(
                f"model.encoder.kind={self.model.encoder.kind} does not read the source, which is {kind}: "
                f"it reads {reads.__name__}; choose {_encoders_of(made)}, or set source.kind"
            )
        if self.source is None:
            return self
        self.__dict__["source"] = self.source.completed(self.text)  # the record is frozen
        self.__dict__["text"] = self.text.model_copy(update={"joint": False})
        sampling = self.text.sampling
        of_text = {
            "model.tie_embeddings=all": self.model.tie_embeddings == "all",
            "model.pretrained_embeddings.source": self.model.pretrained_embeddings.source,
            "training.guided_alignment": self.training.guided_alignment and not self.source.is_text,
            "data.train.tag": self.tags,
            "text.placeholders": self.text.placeholders,
            "text.copy_slots": self.text.copy_slots,
            "text.sampling.sides=source": sampling and sampling.sides == "source",
            "search.shortlist": self.search.shortlist,
            "search.replace_unknown": self.search.replace_unknown,
            "search.casing": self.search.casing,
            "evaluation.comet": self.evaluation.comet,
        }
        for option, is_given in of_text.items():
            if is_given:
                raise ValueError(f"{option} needs a source of text, but source.kind={kind}; leave it out")
        return self

    @model_validator(mode="after")
    def _the_head_suits_the_text(self) -> Config:
        head = self.model.head.completed(self.text)
        self.__dict__["model"] = self.model.model_copy(update={"head": head})  # the record is frozen
        return self

    @model_validator(mode="after")
    def _sources_have_as_many_files_as_parts(self) -> Config:
        kind, most = ("text", 1) if self.source is None else (self.source.kind, self.source.source_files)
        for name in ("train", "validation", "test"):
            files = getattr(self.data, name)
            for one in () if files is None else files.each:
                if one.source_parts not in (1, most):
                    key, part = ("source", "file") if one.source is not None else ("columns", "column")
                    wanted = f"one {part}, or {most}" if most > 1 else f"one {part}"
                    raise ValueError(
                        f"data.{name}.{key}: {one.source_parts} {part}s, and a source that is {kind} has {wanted}"
                    )
        return self

    @model_validator(mode="after")
    def _scores_follow_the_text(self) -> Config:
        """Defaults that depend on the text are filled in, so that the configuration of a run is complete."""
        given = self.evaluation
        filled = {
            "tokenize": given.tokenize or default_tokenizer(self.text.target_language),
            "lowercase": self.text.lowercase if given.lowercase is None else given.lowercase,
        }
        self.__dict__["evaluation"] = given.model_copy(update=filled)  # the record is frozen
        return self

    @model_validator(mode="after")
    def _tags_are_protected(self) -> Config:
        symbols = tuple(dict.fromkeys((*self.text.protected, *self.tags)))
        text = self.text.model_copy(update={"protected": symbols})
        if (mistake := text.unfit) is not None:
            raise ValueError(f"a tag is one piece of text: {mistake}")
        if self.tags and self.training.guided_alignment is not None:
            raise ValueError("training.guided_alignment: links do not count the tag of a line; leave out one of both")
        self.__dict__["text"] = text  # the record is frozen
        return self

    @model_validator(mode="after")
    def _epochs_have_equally_many_batches(self) -> Config:
        varying = {"text.sampling": self.text.sampling, "a mixture of data.train.corpora": self.data.train.is_mixed}
        for option, is_given in varying.items():
            if is_given and self.training.batch_unit == "tokens":
                raise ValueError(
                    f"{option} changes the number of tokens from epoch to epoch, and would change that of batches; "
                    "set training.batch_unit=sentences"
                )
        return self

    @model_validator(mode="after")
    def _links_need_one_segmentation(self) -> Config:
        if self.text.sampling is not None and self.training.guided_alignment is not None:
            raise ValueError(
                "training.guided_alignment maps links to the tokens of one segmentation, but text.sampling draws "
                "another one in every epoch; leave out one of the two"
            )
        return self

    @model_validator(mode="after")
    def _embeddings_start_from_one_thing(self) -> Config:
        files = self.model.pretrained_embeddings
        if self.training.start_from is not None and (files.source or files.target):
            raise ValueError(
                "model.pretrained_embeddings and training.start_from both have weights for the embeddings; leave out "
                "one of the two"
            )
        return self

    @model_validator(mode="after")
    def _metrics_have_what_they_need(self) -> Config:
        files = {"lc_tok": ("data.test.lc_tok", self.data.test and self.data.test.lc_tok)}
        files["comet"] = "evaluation.comet", self.evaluation.comet
        for metric in self.evaluation.chosen:
            if metric.needs is not None and files[metric.needs][1] is None:
                raise ValueError(
                    f"evaluation.metrics has {metric.key}, which needs a file; name it in {files[metric.needs][0]}"
                )
        return self

    @model_validator(mode="after")
    def _candidates_are_ranked_by_a_metric(self) -> Config:
        if self.search.mbr is not None:
            find_metrics([self.search.mbr], user_code.load_place)
        return self

    @model_validator(mode="after")
    def _moses_knows_the_language_of_lc_tok(self) -> Config:
        if self.data.test is None or self.data.test.lc_tok is None:
            return self
        if (reason := without_rules(self.text.target_language)) is not None:
            raise ValueError(f"data.test.lc_tok with text.target_language: {reason}; leave lc_tok out")
        return self

    @model_validator(mode="after")
    def _sentences_fit_into_the_model(self) -> Config:
        of_pairs = {
            "data.max_length": self.data.max_length + 1,  # `</s>`
            "data.max_training_length": (self.data.max_training_length or 0) + 1,
        }
        sides = {"encoder": of_pairs, "decoder": of_pairs | {"search.max_length": self.search.max_length}}
        for (side, longest), limit in zip(sides.items(), self.model.max_positions, strict=True):
            key, needed = max(longest.items(), key=lambda each: each[1])
            if limit is not None and needed > limit:
                raise ValueError(
                    f"the {side} has {limit} positions, but {key} allows sentences of {needed} tokens; set "
                    f"max_positions of its positions to {needed} or more, lower {key}, or choose positions without a "
                    f"limit (sinusoidal)"
                )
        return self

    @model_validator(mode="before")
    @classmethod
    def _is_no_experiment(cls, values: Any) -> Any:
        if "arms" in values:
            raise ValueError("this is an experiment; train its arms with: seq2seq-attn compare")
        return values
