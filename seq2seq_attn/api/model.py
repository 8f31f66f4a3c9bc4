"""A trained model: lines of text in, records out."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_attn.analysis.attention_files import BLANK, END, TokenAttention
from seq2seq_attn.api.alignment import Pairs, alignments, combined, corpus_of
from seq2seq_attn.api.answers import (
    Alignments,
    Neighbors,
    PairScore,
    PairScores,
    Steps,
    Translation,
    Translations,
)
from seq2seq_attn.api.stream import averaged, streamed
from seq2seq_attn.api.tables import html_table
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.vocabulary import BOS, SPECIALS
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import DEFAULT_METHOD, GoldCorpus, Method, flipped, read_gold_of
from seq2seq_attn.evaluation.metrics import score_value
from seq2seq_attn.options import AlignOptions, ExportTarget, FaithfulnessOptions, LinkOptions, SearchOptions, takes
from seq2seq_attn.runs import DEMO, Say, find_run, is_shipped, warn
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.requests import Glossary, SourceLine, lines_of
from seq2seq_attn.search.batched import Progress
from seq2seq_attn.strict import parse

if TYPE_CHECKING:
    import torch

    from seq2seq_attn.analysis.faithfulness import Faithfulness
    from seq2seq_attn.analysis.neighbors import StateIndex
    from seq2seq_attn.analysis.step_interventions import Intervention
    from seq2seq_attn.analysis.value_plane import ValuePlane
    from seq2seq_attn.api.attention_view import AttentionView
    from seq2seq_attn.api.heads import AttentionMaps, HeadTable
    from seq2seq_attn.api.scores import Scores
    from seq2seq_attn.models.seq2seq import Seq2Seq

CHUNK = 512  # lines decoded together: sorted by length, they form batches with little padding


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A trained model with its run folder, as returned by `seq2seq_attn.load` and `seq2seq_attn.train`.

    >>> model.translate(["a b c", ""], beam_size=3).sentences
    ['c b a', '']
    >>> model.align([("a b c", "c b a")])[0].words
    [('c', 'c'), ('b', 'b'), ('a', 'a')]
    >>> good, bad = model.score([("a b c", "c b a"), ("a b c", "a b c")]).log_probabilities
    >>> good > bad
    True
    >>> model.attention("a b c").target
    ('c', 'b', 'a', '</s>')
    """

    trained: TrainedModel  # the torch module with its tokenizers and vocabularies
    folder: Path

    @classmethod
    def load(cls, folder: Path | str, device: str | torch.device | None = None) -> Model:
        """Loads the model of a run folder. Nothing is unpickled.

        Args:
            folder: The run, or "demo", a trained model that the package ships, as are "demo/distracted" and
                "demo/transformer"; a folder `demo` in the current folder takes precedence; or "hf:OWNER/NAME", a run on
                the Hugging Face hub, or "hf:OWNER/NAME@REVISION".
            device: By default the GPU, if there is one.

        Raises:
            UserError: The folder is not a run, its training has not finished, or a file is damaged.
        """
        run = find_run(Path(folder))
        return cls(TrainedModel.load(run, device), run)

    @property
    def config(self) -> Config:
        """The complete configuration of the run."""
        return self.trained.config

    @cached_property
    def module(self) -> Seq2Seq:
        """The torch module with the weights, for a loop of your own: see docs/python.md.

        Once it was asked for, every method of this model computes with its weights as they are when it is called.
        `evaluate`, `neighbors`, `average` and `push`, which are about the run in the folder, are refused from then on.
        """
        object.__setattr__(self, "trained", replace(self.trained, forms=None))
        return self.trained.translator

    def _require_weights_of_run(self, what: str) -> None:
        if self.trained.forms is None:
            raise UserError(
                f"{what} is about the weights in {self.folder}, and those in model.module may have been changed; load "
                "the run again, as with s2s.load(folder)"
            )

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return self.trained.parameters()

    @property
    def metrics(self) -> dict[str, Any]:
        """The contents of the run's metrics.json: training, and test scores once the test set has been scored."""
        return read_metrics(self.folder)

    @takes(SearchOptions, unset=True)
    def translate(
        self,
        sentences: Iterable[str],
        *,
        prefixes: Iterable[str] | None = None,
        constraints: Iterable[Sequence[str]] | None = None,
        glossary: Mapping[str, str] | Path | str | None = None,
        ensemble: Sequence[Model] = (),
        weights: bool = False,
        split_sentences: bool = False,
        progress: Progress | None = None,
        say: Say = warn,
        **search: Any,
    ) -> Translations:
        """Predicts the target of each source, such as its translation; the output of a blank line is blank.

        The score of an output is log p divided by ((5 + tokens) / 6) to the power of `length_penalty`, to which
        `length_reward` and `coverage_penalty` add (`SearchOptions.score`); with `mbr`, it is the mean score against all
        candidates. With `temperature`, `top_k`, `top_p` or `seed`, outputs are drawn at random.

        A word that the model predicts without knowing it is shown as `<unk>`, unless `replace_unknown`: then as the
        source token that it attends to most, or the glossary's target for it, and listed under `replaced`. The unknown
        words of a source are in its record, under `unknown`.

        Args:
            sentences: The sources, one line each. One beyond the run's `data.max_length` tokens is cut, with a warning.
            prefixes: How the output of each source begins; "" where it may begin in any way.
            constraints: Words and phrases that the output of each source contains, in any order; needs a beam search.
                Those of phrases with several tokens that overlap are met at the latest one after the other.
            glossary: A target phrase for each source phrase, or a file of them with a TAB between: constraints for the
                sources in which the source phrase occurs as whole words, the longest first. With `replace_unknown`, a
                target that the model cannot write is shown where an unknown word attends to the source word.
            ensemble: Models that predict together with this one: at every step, their probabilities are averaged,
                and so are their attention weights. Options, limits and lexicon are those of this model.
            weights: Whether the result includes the attention weights.
            split_sentences: Whether each line is a paragraph, whose sentences are sources of their own, and whose
                outputs are joined again; `corpora.sentences` has the rules. The record of a line has those of its
                `sentences`.
            progress: Called after each batch with its number of sources.
            say: Called with warnings.
            **search: Fields of `seq2seq_attn.options.SearchOptions`, by default those of the run's configuration.

        Returns:
            One record per source, in their order.

        Raises:
            UserError: Options contradict each other, or a model of the ensemble has other vocabularies or tokenizers.
        """
        if isinstance(sentences, str):
            raise UserError(f"translate takes a list of sources, got one string; write translate([{sentences!r}])")
        if isinstance(sentences, Path):
            lines = "[str(path)]" if self.trained.source.names_files else "path.read_text('utf-8').splitlines()"
            raise UserError(f"translate takes a list of sources, got the path {sentences}; write translate({lines})")
        known = None if glossary is None else Glossary.of(glossary)
        options, rest = self.search_options(**search), lines_of(sentences, prefixes, constraints, known)
        batches = iter(lambda: list(islice(rest, CHUNK)), [])
        found = self.stream(
            batches,
            options,
            ensemble=ensemble,
            weights=weights,
            split_sentences=split_sentences,
            progress=progress,
            say=say,
        )
        return Translations(found)

    @takes(SearchOptions, unset=True)
    def search_options(self, *, base: SearchOptions | None = None, **search: Any) -> SearchOptions:
        """The options of a search, with those that are given and not None in place of others.

        Args:
            base: The others, by default those of the run.
            **search: Fields of `seq2seq_attn.options.SearchOptions`.

        Raises:
            UserError: An option is unknown, or contradicts another.
        """
        base = base or self.config.search
        changes = {name: value for name, value in search.items() if value is not None}
        return parse(SearchOptions, base.model_dump() | changes) if changes else base

    def stream(
        self,
        batches: Iterable[Sequence[str | SourceLine]],
        options: SearchOptions | None = None,
        *,
        ensemble: Sequence[Model] = (),
        weights: bool = False,
        split_sentences: bool = False,
        progress: Progress | None = None,
        say: Say = warn,
        first: int = 0,
    ) -> Iterator[Translation]:
        """Predicts the targets of batches of sources, each batch before the next is asked for.

        Args:
            batches: The sources, each as text or as a `SourceLine`, which asks for more; those of a batch are decoded
                together.
            options: All options of the search, by default those of the run.
            ensemble: As in `translate`, and so are the other arguments.
            weights: See `translate`.
            split_sentences: See `translate`.
            progress: See `translate`.
            say: See `translate`.
            first: How many lines come before the first source, for messages.

        Yields:
            The record of each source.

        Raises:
            UserError: As by `translate`.
        """
        return streamed(
            self,
            batches,
            options or self.config.search,
            ensemble=ensemble,
            weights=weights,
            split_sentences=split_sentences,
            progress=progress,
            say=say,
            first=first,
        )

    def _short(self, pairs: Pairs) -> ParallelCorpus:
        """The pairs. UserError if one is too long for forced decoding."""
        corpus = corpus_of(pairs)
        self.trained.limits.require_short(corpus.source, corpus.target)
        return corpus

    def score(self, pairs: Pairs, *, ensemble: Sequence[Model] = (), progress: Progress | None = None) -> PairScores:
        """The log-probability of given targets, ln p(target | source), in total and per target token.

        Args:
            pairs: Sources and their targets.
            ensemble: Further models, with whose probabilities of tokens these are averaged, as in `translate`.
            progress: Called after each batch with its number of pairs.

        Returns:
            One record per pair, in their order.

        Raises:
            UserError: A pair is not text, or longer than what the model reads or writes.
        """
        corpus, trained = corpus_of(pairs), averaged(self, ensemble)
        trained.limits.require_short(corpus.source, corpus.target)
        forced = trained.force(corpus.source, corpus.target, progress)
        codec_for = trained.target.given
        return PairScores(
            PairScore(source, target, None, None, None)
            if each is None
            else PairScore(
                source, target, each.total, [*codec_for(source).pieces(target), END], each.log_probabilities.tolist()
            )
            for source, target, each in zip(corpus.source, corpus.target, forced, strict=True)
        )

    @takes(AlignOptions)
    def align(
        self,
        pairs: Pairs,
        *,
        reverse: Model | None = None,
        symmetrize: Method = DEFAULT_METHOD,
        write: Callable[[TokenAttention], object] | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Alignments:
        """Links between the words of sources and targets, from the weights with which the model predicts the targets.

        A target word is linked to the source word with the highest weight or, with `threshold`, to all words with at
        least that weight; a pair with a blank side has no links.

        Args:
            pairs: Sources and their targets.
            reverse: A model for the opposite direction, whose links are combined with these; `layer` and `head` are
                then those of both models.
            symmetrize: How the links of two directions are combined.
            write: Called with the weights between the tokens of each pair.
            progress: Called after each batch with its number of pairs.
            **options: Fields of `seq2seq_attn.options.AlignOptions`.

        Returns:
            One record per pair, in their order.

        Raises:
            UserError: A model has no such layer or head, or an option is outside its limits.
        """
        from seq2seq_attn.analysis.word_alignment import align_by_attention

        chosen: dict[str, Any] = parse(AlignOptions, options).model_dump()
        corpus = self._short(pairs)
        links = align_by_attention(self.trained, corpus, write=write, progress=progress, **chosen)
        if reverse is not None:
            turned = reverse._short(ParallelCorpus(corpus.target, corpus.source, corpus.name))
            backward = align_by_attention(reverse.trained, turned, progress=progress, **chosen)
            links = combined(links, map(flipped, backward), symmetrize)
        return alignments(corpus, links, self.trained.source.words)

    @takes(LinkOptions)
    def align_heads(
        self, pairs: Pairs, gold: Path | str | GoldCorpus, *, progress: Progress | None = None, **options: Any
    ) -> HeadTable:
        """How well the links of every layer and head agree with gold links.

        Links are made as in `align`; `align(pairs, layer=2, head=1)` returns those of one head.

        Args:
            pairs: Sources and their targets.
            gold: Gold links, or a file of them.
            progress: Called after each batch with its number of pairs.
            **options: Fields of `seq2seq_attn.options.LinkOptions`.

        Returns:
            The rates of each head, of the mean of each layer, and of the mean of all.

        Raises:
            UserError: The file does not fit the pairs, or the model has no attention weights.
        """
        from seq2seq_attn.analysis.word_alignment import agreement_by_head
        from seq2seq_attn.api.heads import HeadTable

        chosen, corpus = parse(LinkOptions, options), self._short(pairs)
        if not isinstance(gold, GoldCorpus):
            gold = read_gold_of(Path(gold), corpus.source, corpus.target, self.trained.source.words)
        return HeadTable(agreement_by_head(self.trained, corpus, gold, **chosen.model_dump(), progress=progress))

    @takes(SearchOptions, unset=True)
    def attention_maps(self, source: str, target: str | None = None, **search: Any) -> AttentionMaps:
        """The weights of every layer and head for a source and its target, by default the best of a search.

        A target token that the model does not know is shown as `WORD (<unk>)`, here and in `attention`.

        Args:
            source: A line.
            target: What is predicted from it.
            **search: Options of the search, as in `translate`; none with a target.

        Raises:
            UserError: A side is blank, a search would cut the source, or the model has no weights.
        """
        from seq2seq_attn.api.attention_view import AttentionView, attending, forced_view
        from seq2seq_attn.api.heads import AttentionMaps

        target = self._target(source, target, search)
        (weights,) = self.trained.head_weights([source], [target])
        if weights is None:
            raise UserError(BLANK)
        cross = attending(forced_view(self.trained, source, target, weights.cross))

        def within(
            title: str, columns: tuple[str, ...], rows: tuple[str, ...], layers: Sequence[Any]
        ) -> AttentionView | None:
            return (
                AttentionView(columns, rows, tuple(layer.numpy() for layer in layers), title=title) if layers else None
            )

        inputs = SPECIALS[BOS], *cross.target[:-1]
        return AttentionMaps(
            cross,
            within("Self-attention of each source token (row)", cross.source, cross.source, weights.encoder),
            within("Self-attention as each target token (row) is predicted", inputs, cross.target, weights.decoder),
        )

    @takes(SearchOptions, unset=True)
    def attention(
        self,
        source: str,
        target: str | None = None,
        *,
        words: bool = False,
        ensemble: Sequence[Model] = (),
        **search: Any,
    ) -> AttentionView:
        """The attention weights between a source and its target, by default the best one that the search finds.

        Args:
            source: A line.
            target: What is predicted from it.
            words: Whether the weights are between words instead of tokens: those of subwords are summed over each
                source word and averaged over each target word.
            ensemble: Further models, as in `translate`; none with a target.
            **search: Options of the search, as in `translate`; none with a target.

        Raises:
            UserError: A side is blank, the model has no weights, or a search would cut the source within its words.
        """
        if words and ensemble:
            raise UserError("words=True: weights between words are those of one model; leave out ensemble")
        if target is None and not words:
            found = self.translate([source], weights=True, ensemble=ensemble, **search)[0].attention
            return replace(found, display=self.trained.display(source), grid=self.trained.rows(source))
        target = self._target(source, target, search | ({"ensemble": ensemble} if ensemble else {}))
        (forced,) = self.trained.force([source], [target])
        if forced is None:
            raise UserError(BLANK)
        from seq2seq_attn.api.attention_view import attending, forced_view

        found = forced_view(self.trained, source, target, [forced.weights[None]])
        return attending(found.words() if words else found)

    @takes(SearchOptions, unset=True)
    def steps(
        self,
        source: str | Sequence[str],
        target: str | None = None,
        *,
        prefix: str | Sequence[str] = (),
        interventions: Iterable[Intervention | Mapping[str, Any]] = (),
        **search: Any,
    ) -> Steps:
        """Everything that the model computes at each step of decoding, with interventions at some of them.

        Steps are computed in single precision with the whole vocabulary.

        Args:
            source: A line, as text or as a list of tokens.
            target: What the steps predict; by default, the one that a search finds.
            prefix: How the output that is searched for begins, as text or as a list of tokens.
            interventions: Mappings with the keys of `seq2seq_attn.analysis.step_interventions.Intervention`:
                {"replace": "weights", "step": 2, "weights": [0, 1, 0]} replaces the weights of step 2; "mean",
                "sentence" (with "other") and "nothing" replace the context; "temperature" (with "temperature") divides
                the scores before the normalizer; "normalizer" (with "normalizer", such as "sparsemax") replaces it.
            **search: Options of the search, as in `translate`; none with a target. Minimum Bayes risk is never used.

        Raises:
            UserError: A side is blank, a token is unknown, both `target` and `prefix` are given, or an intervention
                does not fit the sentence or the model.
        """
        from seq2seq_attn.analysis.step_interventions import Intervention
        from seq2seq_attn.analysis.stepwise import decode_steps, decoded, refuse_rules

        if isinstance(interventions, Mapping):
            raise UserError("interventions is one mapping, and takes a list of them; give [mapping]")
        changes = [parse(Intervention, each) if isinstance(each, Mapping) else each for each in interventions]
        _refuse_unused_options(target is not None, search)
        options = self._options_of_one(search)
        refuse_rules(options)
        steps = decode_steps(self.trained, source, target, prefix=prefix, interventions=changes, options=options)
        return Steps(**vars(decoded(self.trained, source, steps)))

    def value_plane(self, source: str | Sequence[str], *, layer: int = 0, head: int = 0) -> ValuePlane:
        """The values v_j that a head reads, in the plane of their two principal components with the largest variance.

        C_i = Σ_j a_ij v_j holds among the points of the plane as well, with the weights of `steps`.

        Args:
            source: A line, as text or as a list of tokens.
            layer: Layer of the decoder that reads the source, counted from 0.
            head: Head of the layer, counted from 0.

        Returns:
            The tokens of the source, a point for each, and the share of the values' variance that the plane shows.

        Raises:
            UserError: The source is blank, a token is unknown, or the model has no such layer or head.
        """
        from seq2seq_attn.analysis.value_plane import value_plane

        return value_plane(self.trained, source, layer, head)

    @takes(SearchOptions, unset=True)
    def neighbors(
        self,
        source: str | Sequence[str],
        target: str | Sequence[str] | None = None,
        *,
        step: int | None = None,
        most: int = 10,
        **search: Any,
    ) -> Neighbors:
        """The training pairs whose sources this model reads most alike or, with `step`, its most similar steps.

        Sources are compared by the mean of their encoder states, steps by the features that the next token is predicted
        from. Distances are Euclidean, and the search is exact. On first use, all training pairs are read once, and
        what the search needs is kept in the user's cache folder.

        Args:
            source: A line, as text or as a list of tokens.
            target: What is predicted from it, likewise; by default, the best one that a search finds.
            step: One of the steps that predict the target, counted from 0.
            most: How many are returned at most.
            **search: Options of the search, as in `translate`, where one is needed.

        Raises:
            UserError: A side is blank, there is no such step, a target has no `step`, or the training text is missing.
        """
        from seq2seq_attn.analysis.neighbors import find_neighbors

        self._require_weights_of_run("neighbors")
        _refuse_unused_options(target is not None or step is None, search)
        options = self._options_of_one(search)
        return Neighbors(find_neighbors(self.trained, self._state_index, source, target, step, most, options))

    def _target(self, source: str, target: str | None, search: Mapping[str, Any]) -> str:
        """The target whose weights are wanted: the given one, or the one that a search finds for all of the source.

        UserError: one of them is too long.
        """
        _refuse_unused_options(target is not None, search)
        if target is None:
            read, limit = self.trained.source, self.trained.limits.longest_source
            tokens = read.length(read.encode(source)) if source.strip() else 0
            if tokens > limit:
                raise UserError(
                    f"the source has {tokens} tokens, and a search reads the first {limit}; shorten it, or give a "
                    f"target"
                )
            (found,) = self.stream([[source]], self.search_options(**search))
            target = found.text
        self.trained.limits.require_short([source], [target])
        return target

    def _options_of_one(self, search: Mapping[str, Any]) -> SearchOptions:
        """The options of a search for one output that is then read step by step."""
        from seq2seq_attn.analysis.stepwise import exact

        return self.search_options(base=exact(self.config.search, n_best=1), **search)

    @cached_property
    def _state_index(self) -> StateIndex:
        from seq2seq_attn.analysis.neighbors import StateIndex

        return StateIndex.of_run(self.trained, self.folder, warn)

    def evaluate(self, *, per_line: bool = False, progress: Progress | None = None, say: Say = warn) -> Scores:
        """Predicts the targets of the test set of the configuration and scores them, as the command `evaluate` does.

        Outputs and scores are saved in the run folder.

        Args:
            per_line: Add the scores of each line, which are not saved, as `s2s.evaluate` does.
            progress: Called after each batch with its number of sentences.
            say: Called with warnings.

        Returns:
            Scores of outputs as {key: {value, signature}}, and of forced decoding as {key: value}.

        Raises:
            UserError: The configuration names no test set.
        """
        from seq2seq_attn.analysis.scoring import evaluate
        from seq2seq_attn.api.scores import Scores

        self._require_weights_of_run("evaluate")
        scores = evaluate(self.trained, self.folder, progress, say, per_line=per_line)
        return Scores(scores, self.trained.config.source_unit)

    @takes(FaithfulnessOptions)
    def faithfulness(self, pairs: Pairs, *, progress: Progress | None = None, **options: Any) -> Faithfulness:
        """Tests whether the weights explain the predictions: predictions under changed weights, and rank correlations.

        Args:
            pairs: Sources and their targets.
            progress: Called after each batch with its number of pairs.
            **options: Fields of `seq2seq_attn.options.FaithfulnessOptions`.

        Raises:
            UserError: There are fewer than two pairs, or the model has no weights.
        """
        from seq2seq_attn.analysis.faithfulness import faithfulness

        chosen = parse(FaithfulnessOptions, options)
        corpus = self._short(pairs)
        return faithfulness(self.trained, corpus, chosen, progress or (lambda _: None))

    def average(self, output: Path | str, *, last: int | None = None, overwrite: bool = False) -> Model:
        """Averages the weights of the last epochs of the run, and writes a run with them.

        Args:
            output: The folder of that run.
            last: How many epochs, by default all that the run keeps (`training.keep_epochs`).
            overwrite: Whether an earlier run in the folder is replaced.

        Returns:
            The model with the mean of the weights.

        Raises:
            UserError: The run keeps fewer epochs, or the folder exists.
        """
        from seq2seq_attn.runs.average import average

        self._require_weights_of_run("average")
        average(self.folder, Path(output), last, overwrite=overwrite)
        return Model.load(output, self.trained.device)

    def push(self, repository: str, *, private: bool = False) -> str:
        """Uploads the run to the Hugging Face hub, with a model card, for `load("hf:OWNER/NAME")`.

        Checkpoints and logs are left out. The token of `hf auth login`, or in HF_TOKEN, says who uploads.

        Args:
            repository: OWNER/NAME, which is created if it does not exist.
            private: Whether only its owner can see a new repository.

        Returns:
            The address.

        Raises:
            UserError: A file is damaged, huggingface_hub is not installed, or the hub refuses.
        """
        from seq2seq_attn.runs.hub import push

        self._require_weights_of_run("push")
        return push(self.folder, repository, private=private)

    def export(self, to: ExportTarget, output: Path | str, *, overwrite: bool = False) -> Path:
        """Writes the model in the format of another program.

        Args:
            to: "ctranslate2" (Transformers only), "html" (a page that works offline), "onnx" or "torch"; see
                docs/export.md.
            output: The folder to write.
            overwrite: Whether an earlier export in the folder is replaced.

        Returns:
            The folder.

        Raises:
            UserError: The other program does not know a part of the model, its library is not installed, or the folder
                exists.
        """
        from seq2seq_attn.export import export_model

        return export_model(self.trained, to, Path(output), overwrite=overwrite)

    @property
    def _name(self) -> str:
        return f"{DEMO}/{self.folder.name}" if is_shipped(self.folder) else str(self.folder)

    def __repr__(self) -> str:
        return f"Model({self._name!r}: {', '.join(f'{key} {value}' for key, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self._name)}</b>{html_table([], list(self._facts().items()))}"

    def _facts(self) -> dict[str, str]:
        model, metrics, main = self.config.model, self.metrics, self.config.evaluation.main
        options = model.model_dump(mode="json")
        context = options.get("context", {})
        facts = {
            "model": f"{model.kind}, {options.get('decoder', {}).get('kind', '')} decoder".removesuffix(",  decoder"),
            "context": context.get("kind", ""),
            "scorer": _scorer_name(context.get("scorer")) if context.get("kind") == "attention" else "",
            "parameters": f"{self.parameters:,}",
            "vocabulary": f"{self.trained.source.size_in_words}, and {self.trained.target.size_in_words}",
        }
        if "average" in metrics:
            epochs = metrics["average"]["epochs"]
            score = metrics["average"]["validation_score"]
            facts[f"validation {main.label}"] = f"{score:.2f} (mean of {len(epochs)} epochs)"
        elif "training" in metrics:
            best, epochs = metrics["training"]["best"], metrics["training"]["epochs"]
            score = "not finite" if best is None else f"{best:.2f}"
            facts[f"validation {self.config.monitored.label}"] = f"{score} ({epochs} epochs)"
        if "test" in metrics:
            facts[f"test {main.label}"] = f"{score_value(metrics['test'], main.key):.2f}"
        return {name: fact for name, fact in facts.items() if fact}


def _refuse_unused_options(nothing_is_searched: bool, search: Mapping[str, Any]) -> None:
    """UserError for options of a search where none is made: they would have no effect."""
    if nothing_is_searched and search:
        raise UserError(f"{', '.join(search)}: options of a search, and nothing is searched for here; leave them out")


def _scorer_name(scorer: Any) -> str:
    return str(scorer.get("name", "") if isinstance(scorer, dict) else scorer or "")
