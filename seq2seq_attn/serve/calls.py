"""A request that is answered, with what all endpoints share: the models, their queue, and limits on what is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from seq2seq_attn.corpora.front_end import FrontEnd
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs.requests import SourceLine, rules_of
from seq2seq_attn.serve import Settings, requests, tasks
from seq2seq_attn.serve.batches import Batches
from seq2seq_attn.serve.guard import Exchange, Metrics
from seq2seq_attn.serve.requests import ApiError, Lines
from seq2seq_attn.serve.tasks import ServedModel, Task, search_work


class Server:
    """The models and settings of a server, and its queue."""

    def __init__(self, models: Sequence[ServedModel], settings: Settings) -> None:
        self.models = {each.name: each for each in models}
        self.settings = settings
        self.metrics = Metrics()
        self.batches = Batches(settings.workers, settings.max_waiting, self.metrics.batch)

    def model(self, name: str | None) -> ServedModel:
        """The model with this name, or the first."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise ApiError(400, f"model {name!r} is not served; choose from {', '.join(self.models)}")
        return self.models[name]

    @property
    def of_text(self) -> list[ServedModel]:
        """The models that read plain text."""
        return [each for each in self.models.values() if each.model.trained.reads == "text"]

    def pair(self, source: str, target: str) -> ServedModel:
        """The first model that translates between these languages, of text if any; `auto` is any source language."""
        for each in (*self.of_text, *self.models.values()):
            if each.target == target and source in ("auto", each.source):
                return each
        known = ", ".join(dict.fromkeys(f"{each.source} to {each.target}" for each in self.models.values()))
        raise ApiError(400, f"no model translates from {source!r} to {target!r}; served: {known}")


Body = TypeVar("Body", bound=requests.Body)


@dataclass(frozen=True)
class Call(Generic[Body]):
    """A request that may be answered, with its body, and the parts of an answer that endpoints share."""

    server: Server
    exchange: Exchange
    body: Body
    served: ServedModel  # the one that the body names, or the first

    @property
    def settings(self) -> Settings:
        return self.server.settings

    async def lengths(
        self, front_end: FrontEnd, lines: Sequence[Lines], most: int | None = None, name: str = "", unit: str = "tokens"
    ) -> list[int]:
        """The positions of each line, text or tokens. ApiError: there are too many lines, or too many in one."""
        if len(lines) > self.settings.max_lines:
            limit = f"this server takes at most {self.settings.max_lines} at once"
            raise ApiError(413, f"{len(lines)} lines; {limit}")
        most = self.settings.max_tokens if most is None else most

        def count(line: Lines) -> int:
            if not isinstance(line, str):
                return len(line)
            (item,) = front_end.items([line])
            return max(0, front_end.length(item))  # the item of a blank line is empty

        lengths = await asyncio.to_thread(lambda: list(map(count, lines)))
        for number, length in enumerate(lengths, start=1):
            if length > most:
                place = name or f"line {number}"
                raise ApiError(400, f"{place}: {length} {unit}; at most {most} are translated, so split it")
        return lengths

    async def source_lengths(
        self, served: ServedModel, lines: Sequence[Lines], *, is_searched: bool = True
    ) -> list[int]:
        """As `lengths`, for sources. What a model is to predict from has no more positions than in training."""
        config, front_end = served.model.config, served.model.trained.source
        if config.source is not None:
            return await self.lengths(front_end, lines, config.data.max_length, unit=config.source.unit)
        most = min(self.settings.max_tokens, config.data.max_length) if is_searched else None
        return await self.lengths(front_end, lines, most)

    async def pair_lengths(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """As `lengths`, for the longer side of each pair."""
        sources = await self.source_lengths(self.served, [source for source, _ in pairs], is_searched=False)
        targets = await self.lengths(self.served.model.trained.target, [target for _, target in pairs])
        return list(map(max, sources, targets))

    async def run(self, task: Task, items: Sequence[Any], lengths: Sequence[int], work: int) -> list[Any]:
        """The results of a task for these items. ApiError, QueueFullError: it is too much, or too much at once."""
        is_large = self.exchange.admit(work)
        return await self.server.batches.run(task, items, lengths, is_large=is_large)

    async def run_on(self, task: Task, items: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
        """The same for what follows from work that was admitted: the next step of a stream, links of outputs."""
        is_large = self.exchange.is_large
        return await self.server.batches.run(task, items, lengths, is_large=is_large, admitted=True)

    async def translate(
        self, served: ServedModel, lines: Sequence[SourceLine], options: SearchOptions, weights: bool = False
    ) -> list[dict[str, Any]]:
        """The records of the outputs of some lines."""
        most = min(self.settings.max_tokens, options.max_length - 1)
        target = served.model.trained.target
        await self.lengths(target, [line.prefix for line in lines], most, "prefix")
        await asyncio.to_thread(rules_of, target, lines, options)  # a mistake of one client is no other's
        lengths = await self.source_lengths(served, [line.source for line in lines])
        work = sum(search_work(options, length, weights=weights) for length in lengths)
        return await self.run(tasks.translations(served, options, weights), lines, lengths, work)

    async def answer(self, answer: tasks.Answer, length: int, work: int) -> Any:
        """What this function of the model returns, for a source of `length` tokens."""
        (found,) = await self.run(Task(tasks.answer, self.served, batch_size=1), [answer], [length], work)
        return found


class Endpoint(NamedTuple):
    """A path, the records of its body and of its answer, and what answers it: with a record, or a whole response."""

    method: str
    path: str
    record: type[requests.Body]
    answers: Any  # a type, or the media type of what is not JSON
    needs_key: bool  # where the server has keys
    answer: Callable[[Call[Any]], Awaitable[Any]]


_Answer = TypeVar("_Answer", bound=Callable[..., Awaitable[Any]])


class Endpoints(list[Endpoint]):
    """The endpoints of a chapter, in its order."""

    def at(
        self, path: str, answers: Any, record: type[requests.Body] = requests.NoBody, *, needs_key: bool = True
    ) -> Callable[[_Answer], _Answer]:
        """Marks a function as what answers requests with such a body, or without one, at this path."""

        def add(answer: _Answer) -> _Answer:
            method = "GET" if record is requests.NoBody else "POST"
            self.append(Endpoint(method, path, record, answers, needs_key, answer))
            return answer

        return add
