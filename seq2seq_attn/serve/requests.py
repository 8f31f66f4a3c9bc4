"""The bodies of requests: their fields, checked as strictly as a configuration, and how they are read."""

from __future__ import annotations

import json
from email.message import Message
from email.parser import HeaderParser
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qs

from pydantic import ConfigDict, Field, NonNegativeInt, model_validator
from starlette.requests import Request

from seq2seq_attn.analysis.step_interventions import Intervention
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import AlignOptions, SearchOptions, SearchRequest
from seq2seq_attn.runs.requests import Glossary, SourceLine, lines_of
from seq2seq_attn.serve import Settings
from seq2seq_attn.strict import Strict, parse

Lines = str | tuple[str, ...]
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MAX_FIELDS = 1000  # of a form
MAX_HEADER = 1000  # characters of a form's headers that are read: parameters take time quadratic in their length


class ApiError(Exception):
    """An answer other than 200, with one line that says what is wrong and what would be right."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Body(Strict):
    """What every body may have."""

    api_key: str | None = None  # where the server asks for one; or in the header, Authorization: Bearer KEY


class NoBody(Body):
    """A request without fields of its own."""


class LibreTranslateBody(Body):
    """The fields of LibreTranslate; as there, unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Lines  # text, or a list of texts; every line of a plain text is translated as a sentence
    source: str = "auto"  # language code; auto: the one that is detected, for all texts
    target: str  # language code
    format: Literal["text", "html"] = "text"  # html: the tags are kept, and the texts between them translated
    alternatives: NonNegativeInt = 0  # how many more translations


class DetectBody(Body):
    """The fields of LibreTranslate; as there, unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: Lines  # text whose language is asked for


class ModelBody(Body):
    """What every body under /v1 may have."""

    model: str | None = None  # name of the run; by default the first


class _SearchBody(SearchRequest, ModelBody):
    """Options of a search; one that is left out, or null, is that of the run."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value is not None}

    def options(self, settings: Settings, own: SearchOptions) -> dict[str, Any]:
        """The given options, of a run with its `own`.

        ApiError: one exceeds a limit of the server and what the run itself has, or names code to load.
        """
        given = {name: getattr(self, name) for name in SearchRequest.model_fields if name in self.model_fields_set}
        if ":" in (given.get("mbr") or ""):
            raise ApiError(
                400, f"mbr = {given['mbr']!r}: a request names a metric of the package, such as chrf or bleu"
            )
        limits = dict.fromkeys(("beam_size", "n_best", "candidates"), max(settings.max_beam, own.hypotheses))
        limits |= dict.fromkeys(("min_length", "max_length"), settings.max_tokens)
        for name, limit in limits.items():
            if given.get(name, 0) > limit:
                raise ApiError(400, f"{name} = {given[name]}: this server allows at most {limit}")
        return given


class TranslateBody(_SearchBody):
    """Sources, whose targets are predicted."""

    source: Lines  # a sentence, or a list of sentences
    prefix: Lines | None = None  # how the output of each begins
    constraints: tuple[tuple[str, ...], ...] | None = None  # phrases that the output of each contains
    glossary: dict[str, str] = Field(default_factory=dict, max_length=1000)  # target phrases for source phrases
    weights: bool = False  # return the attention weights between tokens
    align: bool = False  # return the links between words, by forced decoding

    def lines(self) -> list[SourceLine]:
        """The sentences with what is asked of them. UserError: there are not as many prefixes or constraints."""
        prefixes = None if self.prefix is None else as_lines(self.prefix)
        return list(lines_of(as_lines(self.source), prefixes, self.constraints, Glossary(self.glossary)))


class PairsBody(ModelBody):
    """Sources and their targets."""

    source: Lines  # text, or a list of texts
    target: Lines  # as many as in source

    def pairs(self) -> list[tuple[str, str]]:
        """The sources with their targets. UserError: there are not as many of them."""
        sources, targets = as_lines(self.source), as_lines(self.target)
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} sources and {len(targets)} targets; give a target for every source")
        return list(zip(sources, targets, strict=True))


class AlignBody(AlignOptions, PairsBody):
    """Sources and their targets, and how to link their words; see `seq2seq-attn align --help`."""

    @property
    def options(self) -> AlignOptions:
        """How to link them."""
        return AlignOptions(**{name: getattr(self, name) for name in AlignOptions.model_fields})


class AttentionBody(ModelBody):
    """A source, and its target unless the best of the run's search is meant."""

    source: str  # text
    target: str | None = None  # text; by default, the best of the run's search
    words: bool = False  # between words instead of tokens
    heads: bool = False  # also the weights of every layer and head, and of self-attention


class PrefixBody(_SearchBody):
    """A source, and how its output begins."""

    source: Lines  # text or list of tokens
    prefix: Lines = ()  # text or list of tokens with which the output begins

    def own_arguments(self) -> dict[str, Any]:
        """The fields that are arguments of `decode_steps` and `continuations`."""
        names = ("source", "target", "prefix", "interventions")
        return {name: getattr(self, name) for name in names if name in type(self).model_fields}


class HypothesesBody(PrefixBody):
    """A source to search for the `n_best` outputs that begin with a prefix."""

    interventions: tuple[Intervention, ...] = Field(default=(), max_length=1000)  # in place of what is read


class StepsBody(PrefixBody):
    """A sentence to decode step by step."""

    target: str | None = None  # decode this target; by default, search for one


class StreamBody(StepsBody):
    """The same, with or without interventions."""

    interventions: tuple[Intervention, ...] = Field(default=(), max_length=1000)  # in place of what is read


class InterveneBody(StepsBody):
    """The same, with at least one intervention."""

    interventions: tuple[Intervention, ...] = Field(min_length=1, max_length=1000)  # in place of what is read


class PlaneBody(ModelBody):
    """A source whose values, as a head of the decoder reads them, are shown in a plane."""

    source: Lines  # text or list of tokens
    layer: NonNegativeInt = 0  # that reads the source
    head: NonNegativeInt = 0  # of the layer


class VectorBody(ModelBody):
    """A sentence, whose one vector is asked for."""

    source: Lines  # text or list of tokens


class NeighborsBody(ModelBody):
    """A source, whose nearest training sources are asked for, or those of a step of its target."""

    source: Lines  # text or list of tokens
    target: Lines | None = None  # text or list of tokens; by default, the best of the run's search
    step: NonNegativeInt | None = None  # of the target; by default, sources are compared
    most: int = Field(default=10, ge=1, le=100)  # neighbors


_Body = TypeVar("_Body", bound=Body)


async def read(request: Request, record: type[_Body], settings: Settings) -> _Body:
    """The body of a request, JSON or a form."""
    if (encoding := request.headers.get("content-encoding", "identity")).lower() != "identity":
        raise ApiError(415, f"content-encoding {encoding!r}: send the body as it is, not compressed")
    content = await _bytes(request, settings.max_body)
    if not content and not any(field.is_required() for field in record.model_fields.values()):
        return record()
    values = _values(content, request.headers.get("content-type", ""))
    if not isinstance(values, dict):
        raise ApiError(400, f'the body is a JSON object, such as {{"source": ...}}, got {type(values).__name__}')
    return parse(record, values)


async def _bytes(request: Request, limit: int) -> bytes:
    """The body. It is read to its end, so that the client gets to read the answer, but no more than `limit` is kept."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > 64 * limit:
            break
    if size > limit:
        raise ApiError(
            413,
            f"the body has more than {limit:,} bytes, the limit of this server (serve --max-body); send fewer lines at "
            f"once, or smaller files",
        )
    return b"".join(parts)


def _values(body: bytes, content_type: str) -> Any:
    kind = Message()
    kind["content-type"] = content_type[:MAX_HEADER]
    is_form = kind.get_content_type() in FORMS
    try:
        # Decoded here: the JSON library guesses the encoding of bytes, and lets halves of surrogate pairs pass.
        text = body.decode("utf-8-sig")
        if is_form:
            fields = _form(text, kind)
            return {name: found[0] if len(found) == 1 else found for name, found in fields.items()}
        values = json.loads(text, parse_constant=_refuse_constant)
        if "\\ud" in text.lower():
            json.dumps(values, ensure_ascii=False).encode()  # half of a surrogate pair is no character of a text
        return values
    except UnicodeEncodeError:
        raise ApiError(400, "the body has half of a surrogate pair, such as \\ud800, which is no character") from None
    except RecursionError:
        raise ApiError(400, "the body is not JSON that this server reads: it is nested too deeply") from None
    except ValueError as error:
        expected = "a form" if is_form or b"=" in body[:99] else "JSON"
        raise ApiError(400, f"the body is not {expected}: {error}") from None


def _form(text: str, kind: Message) -> dict[str, list[str]]:
    """The fields of a form in either encoding, each with its values; a file is its text. ValueError: it is no form."""
    if kind.get_content_type() == FORMS[0]:
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    boundary = kind.get_boundary()
    if not boundary:
        raise ValueError("its content-type has no boundary")
    parts = f"\r\n{text}".split(f"\r\n--{boundary}")[1:]
    if not parts or not parts.pop().startswith("--"):
        raise ValueError("its last boundary is missing")
    if len(parts) > MAX_FIELDS:
        raise ValueError(f"it has more than {MAX_FIELDS} fields")
    fields: dict[str, list[str]] = {}
    for part in parts:
        head, _, value = part.removeprefix("\r\n").partition("\r\n\r\n")
        headers = HeaderParser().parsestr(head[:MAX_HEADER])
        name = headers.get_param("name", header="content-disposition")
        if not isinstance(name, str):
            raise ValueError("one of its parts has no name")
        fields.setdefault(name, []).append(value)
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def as_lines(given: Lines) -> list[str]:
    """A list of sentences."""
    return [given] if isinstance(given, str) else list(given)
