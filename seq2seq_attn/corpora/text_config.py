"""The options of text: tokenization, vocabulary and what is left unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from seq2seq_attn.corpora.languages import language_code, without_rules
from seq2seq_attn.corpora.placeholders import Placeholders
from seq2seq_attn.corpora.vocabulary import unfit_symbols
from seq2seq_attn.strict import Strict


class SamplingConfig(Strict):
    """Subword regularization: in every epoch, each training sentence is segmented at random, by sentencepiece.

    BPE leaves out each merge with probability `alpha` (BPE-dropout, Provilkov et al. 2020, sec. 3; 0.1 there). Unigram
    draws from all segmentations x of a sentence in proportion to P(x)^alpha (Kudo 2018, sec. 3.3; 0.1 to 0.5 there).
    What is validated, tested or translated has the usual segmentation; `data.max_length` refers to it in training too.
    """

    alpha: float = Field(default=0.1, gt=0.0, le=1.0)  # bpe: larger is more varied; unigram: smaller is more varied
    sides: Literal["both", "source"] = "both"  # whose segmentation is drawn


VocabularySize = Annotated[int, Field(ge=1, lt=2**31)]  # sentencepiece takes no more

Normalization = Literal["identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"]
Coverage = Annotated[float, Field(ge=0.98, le=1.0)]  # sentencepiece takes no less

_ONLY_OF: dict[str, Sequence[str]] = {  # options that not every tokenizer has
    "sampling": ("bpe", "unigram"),
    "normalization": ("bpe", "unigram"),
    "character_coverage": ("bpe", "unigram"),
    "minimum_frequency": ("word", "moses", "character"),
    "match_known_forms": ("word", "moses"),
}


class TextConfig(Strict):
    """Tokenization and vocabulary."""

    tokenizer: Literal["word", "moses", "character", "bpe", "unigram"] = "bpe"  # the last two: sentencepiece
    vocabulary_size: VocabularySize | None = None  # bpe, unigram: exactly; others: at most; null: by the corpus
    minimum_frequency: PositiveInt = 1  # rarer tokens are unknown
    joint: bool = True  # one tokenizer and one vocabulary for both languages; by default, with bpe and unigram
    lowercase: bool = False  # both sides
    match_known_forms: bool = False  # word, moses: read `Dog.`, if it is unknown, as `dog .` (`known_forms`)
    source_language: str = "en"  # as in en, eng, en-US or English
    target_language: str = "en"  # as in de, deu, de-AT or German
    normalization: Normalization = "identity"  # bpe and unigram: sentencepiece's rules for rewriting; identity: none
    character_coverage: Coverage = 1.0  # bpe and unigram: share of the training text whose characters are known
    protected: tuple[str, ...] = ()  # symbols that are always one piece and known, as in ["<2de>", "<NUM1>"]
    placeholders: tuple[str, ...] = ()  # left unread and restored: url, email, number, tag, or own as in "code=[A-Z]+"
    copy_slots: NonNegativeInt = 0  # ids, beside the vocabulary, for words of a source that are not in it
    sampling: SamplingConfig | None = None  # null: the same segmentation in every epoch

    @property
    def symbols(self) -> tuple[str, ...]:
        """What is always one piece and known: protected symbols, and those that stand for other text."""
        return (*self.protected, *Placeholders(self.placeholders).symbols)

    @property
    def unfit(self) -> str | None:
        """In words, why these symbols cannot be used together; None if they can."""
        placeholders = Placeholders(self.placeholders)
        for symbol in self.protected:
            if placeholders.values(symbol):
                return f"{symbol} matches a pattern of text.placeholders, which would hide it; write another symbol"
        return unfit_symbols(self.symbols)

    @model_validator(mode="before")
    @classmethod
    def _subwords_are_shared(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "joint" not in values:
            return {**values, "joint": values.get("tokenizer", "bpe") in ("bpe", "unigram")}
        return values

    @field_validator("source_language", "target_language")
    @classmethod
    def _one_code_per_language(cls, language: str) -> str:
        return language_code(language)

    @model_validator(mode="after")
    def _moses_knows_the_languages(self) -> TextConfig:
        if self.tokenizer != "moses":
            return self
        for key in ("source_language", "target_language"):
            if (reason := without_rules(getattr(self, key))) is not None:
                raise ValueError(
                    f"{key} with tokenizer=moses: {reason}; choose another tokenizer, or a related language"
                )
        if self.joint and self.source_language != self.target_language:
            raise ValueError(
                f"joint with tokenizer=moses: its rules are those of one language, not of {self.source_language} and "
                f"{self.target_language}; use bpe or unigram, or joint=false"
            )
        return self

    @field_validator("placeholders")
    @classmethod
    def _are_patterns(cls, placeholders: tuple[str, ...]) -> tuple[str, ...]:
        Placeholders(placeholders)
        return placeholders

    @model_validator(mode="after")
    def _slots_are_shared(self) -> TextConfig:
        if self.copy_slots and not self.joint:
            raise ValueError(
                f"copy_slots={self.copy_slots} stand for the same words in source and target; set joint=true"
            )
        return self

    @model_validator(mode="after")
    def _are_symbols(self) -> TextConfig:
        if (mistake := self.unfit) is not None:
            raise ValueError(f"protected: {mistake}")
        return self

    @model_validator(mode="after")
    def _options_suit_the_tokenizer(self) -> TextConfig:
        for key, kinds in _ONLY_OF.items():
            if self.tokenizer not in kinds and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key} needs tokenizer={' or '.join(kinds)}; {self.tokenizer} has no such option")
        return self


def of_source(text: TextConfig) -> TextConfig:
    """These options for a text of the source alone, which shares no vocabulary with the target."""
    own = {"joint": False, "target_language": text.source_language}
    return text.model_copy(update=own | {"sampling": None, "placeholders": (), "copy_slots": 0})


def refuse_of_both_sides(text: TextConfig | None) -> TextConfig | None:
    """The options of a text of the source alone. ValueError: one of them is for whole configurations."""
    for key in ("sampling", "placeholders", "copy_slots"):
        if text is not None and getattr(text, key):
            raise ValueError(f"{key} needs a source that is one text, under `text`; leave it out")
    return text
