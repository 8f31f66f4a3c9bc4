"""No input ends in a traceback: each is taken, or refused by one line.

Inputs are mistakes of people and of storage: text of any kind, and real files in which something was cut, changed,
doubled or replaced by what has broken readers before. The suite tries about 250 of them; 100,000 take an hour:

    python -m pytest -m slow -n 0 tests/cli/test_fuzzing.py
"""

import contextlib
import gzip
import io
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_attn.cli import main
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import read_tsv
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.alignment import read_gold
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.results.evidence import Evidence
from seq2seq_attn.results.results import Results
from seq2seq_attn.runs.folder import read_metrics
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.runs.warm_start import read_configuration
from seq2seq_attn.strict import override, parse, read_yaml

RESULTS = Path(__file__).parents[2] / "experiments" / "capacity" / "results"

# What has broken readers of text before.
NASTY = [
    "", " ", "\0", "\n", "\r", "\u2028", "\ufeff", "\U0001f600", "a\0b", "-1", "0", "1e999", ".inf", "-.inf", ".nan",
    "nan", "inf", "true", "null", "~", "9" * 30, "9" * 5000, "0x" + "f" * 2000, "1:99", "2001-01-01", "2001-99-99",
    "!!int x", "!!python/object/apply:os.system [true]", "&a [*a]", "*a", "<<: 1", "{", "[", "}", "]", "[" * 2000,
    "{a: " * 500, "- " * 2000, "? a", "=: 1", "%YAML 9", "---", "...", "\t", "'", '"', "a" * 5000, "..", "/",
    "/dev/null", "a.py:B", "\ud800", "[1, 2]", "{a: 1, a: 2}", "{null: 1}", "{1.5: 1}", "99999999999", "0-0", "1?1",
    "0-" + "9" * 4300,
]  # fmt: skip
nasty = st.sampled_from(NASTY) | st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | nasty,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty | st.integers(), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "seed", "data", "data.train", "data.train.source", "data.train.columns", "data.max_length", "text.tokenizer",
    "text.vocabulary_size", "text.sampling", "model", "model.kind", "model.embedding_size", "model.encoder",
    "model.encoder.kind", "model.encoder.encoders", "model.encoder.layers", "model.decoder.cell", "model.context",
    "model.context.kind", "model.context.scorer", "model.context.scorer.name", "model.context.scorer.hidden_size",
    "model.context.normalizer", "model.context.window", "model.context.chunk", "model.dropout.state",
    "model.pretrained_embeddings", "training.optimizer.betas", "training.optimizer.learning_rate",
    "training.optimizer.schedule", "training.patience", "training.guided_alignment", "search.top_p", "search.mbr",
    "search.beam_size", "search.length_penalty", "evaluation.bands", "evaluation.comet", "arms", "", ".", "a.b",
]  # fmt: skip
keys = st.sampled_from(KEYS) | nasty | st.integers(1, 3000).map(lambda count: ".".join("a" * count))
overrides = st.lists(st.builds("{}={}".format, keys, nasty) | keys, min_size=1, max_size=3)


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """The content with a few changes."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        length = draw(st.sampled_from([0, 1, 2, 8, 100]))
        what = draw(st.sampled_from(["cut", "remove", "insert", "flip", "double"]))
        if what == "cut":
            content = content[:place]
        elif what == "remove":
            content = content[:place] + content[place + length :]
        elif what == "insert":
            content = content[:place] + draw(nasty).encode(errors="surrogatepass") + content[place + length :]
        elif what == "flip" and content:
            content = content[:place] + bytes([content[place] ^ 1 << draw(st.integers(0, 7))]) + content[place + 1 :]
        else:
            content = content[:place] + content[place : place + 1000] * 2 + content[place + 1000 :]
    return content


texts = st.binary(max_size=60) | st.lists(nasty, max_size=5).map(
    lambda lines: "\n".join(lines).encode(errors="surrogatepass")
)


class World:
    """Files to read and to spoil, and the readers."""

    def __init__(self, folder: Path, toy: Path, run: Path) -> None:
        self.folder, self.toy, self.run = folder, toy, run
        self.spoilt = shutil.copytree(run, folder / "run")
        names = "config.yaml metrics.json model.safetensors source.tokenizer.json target.vocabulary.txt"
        self.files = {name: (run / name).read_bytes() for name in names.split()}
        self.config = (toy / "toy.yaml").read_bytes()
        self.values = yaml.safe_load(self.config)
        self.results = {name: (RESULTS / name).read_bytes() for name in ("results.json", "evidence.json.gz")}

    def write(self, name: str, content: bytes) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def read_config(self, content: bytes) -> None:
        path = self.write("config.yaml", content)
        read_configuration(read_yaml(path), path=path)

    def read_values(self, changes: list[tuple[str, object]]) -> None:
        parse(Config, override(self.values, changes))

    def read_overrides(self, given: list[str]) -> None:
        parse(Config, override(self.values, given))

    def read_corpus(self, content: bytes) -> None:
        path = self.write("corpus", content)
        read_lines(path)
        read_tsv(path)

    def read_links(self, content: bytes) -> None:
        read_gold(self.write("links", content))

    def read_packed_links(self, content: bytes) -> None:
        read_gold(self.write("links.gz", content))

    def read_run(self, change: tuple[str, bytes]) -> None:
        name, content = change
        (self.spoilt / name).write_bytes(content)
        try:
            read_metrics(self.spoilt)
            TrainedModel.load(self.spoilt).translate(["a b"])
        finally:
            (self.spoilt / name).write_bytes(self.files[name])

    def read_results(self, change: tuple[str, bytes]) -> None:
        name, content = change
        (Results if name == "results.json" else Evidence).load(self.write(name, content))

    def read_arguments(self, arguments: list[str]) -> None:
        places = {"RUN": self.run, "TEXT": self.toy / "test.src", "LINKS": self.toy / "test.align"}
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\n")))
            with pytest.raises(SystemExit) as end:
                main([str(places.get(each, each)) for each in arguments])
        assert end.value.code == 0 or (end.value.code, err.getvalue().count("\n")) == (2, 1)


COMMANDS = [
    ["translate", "RUN"], ["translate", "RUN", "TEXT"], ["translate"], ["score", "RUN", "TEXT", "TEXT"],
    ["align", "RUN", "TEXT", "TEXT"], ["align", "RUN", "TEXT", "TEXT", "--gold", "LINKS"], ["evaluate"],
    ["evaluate", "--links", "LINKS", "--gold", "LINKS"], ["walk"], ["walk", "self-attention"], ["walk", "additive"],
    ["data"], ["data", "stats"], ["data", "stats", "TEXT"], ["data", "get"], ["report"], ["train"], ["compare"],
    ["scorers"], ["--version"], [],
]  # fmt: skip
OPTIONS = [
    "--beam-size", "--n-best", "--length-penalty", "--min-length", "--max-length", "--precision", "--temperature",
    "--top-k", "--top-p", "--seed", "--mbr", "--candidates", "--ensemble", "--attention", "--json", "--plugin",
    "--gold", "--threshold", "--row", "--reverse", "--symmetrize", "--layer", "--head", "--heads", "--links",
    "--first-word", "--query", "--states", "--values", "--words", "--normalizer", "--columns", "--source", "--target",
    "--help",
]  # fmt: skip
no_training = st.lists(st.sampled_from(OPTIONS) | nasty, max_size=4).filter(lambda given: "--output" not in given)
arguments = st.builds(list.__add__, st.sampled_from(COMMANDS), no_training)

# By the name of a reader: how to make inputs, and how many of each 2,000 are for it.
TARGETS = {
    "read_config": (lambda w: damaged(w.config) | texts, 80),
    "read_values": (lambda w: st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=3), 500),
    "read_overrides": (lambda w: overrides, 400),
    "read_corpus": (lambda w: texts | texts.map(gzip.compress) | texts.map(gzip.compress).flatmap(damaged), 300),
    "read_links": (lambda w: texts | damaged((w.toy / "test.align").read_bytes()), 250),
    "read_packed_links": (lambda w: texts | texts.map(gzip.compress).flatmap(damaged), 150),
    "read_run": (
        lambda w: st.sampled_from(sorted(w.files)).flatmap(
            lambda name: st.tuples(st.just(name), damaged(w.files[name]) | texts)
        ),
        120,
    ),
    "read_results": (
        lambda w: st.sampled_from(sorted(w.results)).flatmap(
            lambda name: st.tuples(st.just(name), damaged(w.results[name]) | texts)
        ),
        100,
    ),
    "read_arguments": (lambda w: arguments, 100),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory, toy, trained):
    return World(tmp_path_factory.mktemp("fuzzing"), toy, trained)


def try_inputs(world, reader, times):
    make, examples = TARGETS[reader]

    @settings(max_examples=round(examples * times), suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
    @given(make(world))
    def read(given):
        with contextlib.suppress(UserError):
            getattr(world, reader)(given)

    read()


@pytest.mark.parametrize("reader", TARGETS)
def test_no_input_ends_in_a_traceback(world, reader):
    try_inputs(world, reader, 1 / 8)


@pytest.mark.slow
@pytest.mark.parametrize("reader", TARGETS)
def test_none_of_100_000_inputs_ends_in_a_traceback(world, reader):
    assert sum(examples for _, examples in TARGETS.values()) == 2000
    try_inputs(world, reader, 50)
