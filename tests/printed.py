"""The code blocks of the pages and the examples of the help, and the small input files that they speak of."""

import json
import random
import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import typer
import yaml

from seq2seq_attn.cli.app import app
from seq2seq_attn.errors import UserError

ROOT = Path(__file__).parents[1]
READ = ["README.md", "CONTRIBUTING.md", *(str(page.relative_to(ROOT)) for page in sorted(ROOT.glob("docs/*.md")))]
PAGES = READ + [
    str(page.relative_to(ROOT))
    for pattern in ("data/README.md", "examples/README.md", "benchmarks/**/*.md", "experiments/**/README.md")
    for page in sorted(ROOT.glob(pattern))
]


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str
    reason: str | None  # why it is not run

    @property
    def name(self) -> str | None:
        """The file that the block is: `# mine.yaml` in its first line."""
        first = re.match(r"# ([\w.-]+\.(?:yaml|py))\n", self.text)
        return first[1] if first else None


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(
        r"(?:<!-- not run: ([^>]*) -->\n)?^```([\w{}-]*)[^\n]*\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE
    )
    return [
        Block(page, text[: each.start(2)].count("\n") + 1, each[2], each[3], each[1])
        for each in found
        if not each[2].startswith("{")  # a directive of the site
    ]


def needs_files(block: Block) -> bool:
    return bool(re.search(r"\"[\w./-]+\.(yaml|txt|npz|en|de)\"|\"runs/", block.text))


def help_examples() -> list[str]:
    """The examples at the end of every help text."""
    found = []
    for each in [
        *app.registered_commands,
        *(e for g in app.registered_groups for e in g.typer_instance.registered_commands),
    ]:
        found += [line.strip() for line in (each.epilog or "").splitlines() if "seq2seq-attn " in line]
    return found


def commands(text: str) -> list[list[str]]:
    """The words of each call of the program in a block of shell."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found = []
    for line in joined.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;<>&")
        lexer.whitespace_split = True
        words = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|;&"):
                if words[:1] == ["seq2seq-attn"]:
                    found.append(words)
                words = []
            elif set(word) <= set("<>"):
                words.append(">")
            else:
                words.append(word)
    return [_without_redirections(words) for words in found]


def _without_redirections(words: list[str]) -> list[str]:
    """Without `> FILE` and `2> FILE`."""
    kept: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if word == ">" and kept[-1] in ("1", "2"):
            kept.pop()
        elif ">" not in (before, word):
            kept.append(word)
    return kept


def check_command(words: list[str]) -> None:
    """Parses one call, as the program would; nothing is run. Variables of the shell stand for any value."""
    if any("$" in word for word in words):
        return
    command, context = typer.main.get_command(app), None
    name, *rest = words
    while True:
        group = getattr(command, "commands", None)
        if group is None or not rest or rest[0].startswith("-"):
            if "--help" not in rest and "--version" not in rest:
                with suppress(UserError):  # options are known; that a run or a file is missing here is no mistake
                    command.make_context(name, list(rest), parent=context)
            return
        context = command.make_context(name, [], parent=context)
        name, *rest = rest
        assert name in group, name
        command = group[name]


# Input files

BASIC = [f"{part}.{side}" for part in ("train", "dev", "test") for side in ("en", "de")] + ["test.align"]
COUNTS = {"all": 3000, "train": 60, "dev": 9}  # any other name: those of `test`


def tiny(**training: object) -> dict[str, object]:
    """A configuration that trains within seconds."""
    sides = {
        key: {"source": f"{name}.en", "target": f"{name}.de"}
        for key, name in {"train": "train", "validation": "dev", "test": "test"}.items()
    }
    return {
        "data": sides | {"test": sides["test"] | {"alignments": "test.align"}},
        "text": {"tokenizer": "word", "vocabulary_size": 99},
        "model": {
            "embedding_size": 6,
            "encoder": {"hidden_size": 5},
            "decoder": {"hidden_size": 11},
            "context": {"scorer": {"name": "additive", "hidden_size": 7}},
        },
        "training": {"max_epochs": 2, "keep_epochs": 2, "monitor": "loss", "accelerator": "cpu"} | training,
        "search": {"max_length": 20},
        "evaluation": {"metrics": ["bleu", "chrf", "exact_match"]},
    }


def provide(folder: Path, text: str, made: set[str], model: Path) -> None:
    """Puts into an empty folder the files that a text speaks of, but for those that it makes itself."""
    (folder / "docs").mkdir()  # pages are written into it
    for name in BASIC:
        _write(folder / name)
    outputs = set(re.findall(r"(?:> ?|--output |--page |--attention )(\S+)", text))
    outputs |= set(re.findall(r"train\(.*?\"(runs/[\w-]+)\"", text))
    words = set(re.findall(r"[\w./+-]+", text)) - made
    for word in sorted(word.strip(".,:") for word in words):
        path = folder / word
        if word.startswith(("/", "..", "comparisons/")) or path.exists():  # a comparison is made by the page itself
            continue
        if word.partition("/")[0] in outputs:  # of a folder that a command makes
            continue
        if re.fullmatch(r"runs/[\w-]+", word):
            if word not in outputs or f"{word} --resume" in text:
                shutil.copytree(model, path)
        elif f"data stats {word}" in text and "/" in word:
            path.mkdir(parents=True)
            for name in BASIC:
                _write(path / name)
        elif f"seq2seq-attn report {word}" in text:
            shutil.copytree(ROOT / word, path)
        elif word not in outputs:
            _write(path)


def _write(path: Path) -> None:
    name, draw = path.name.removesuffix(".gz"), random.Random(path.name.partition(".")[0])
    kind = name.rpartition(".")[2]
    count = COUNTS.get(name.partition(".")[0], 7)
    if kind in ("en", "de", "zh", "tok"):
        # Words of random letters: enough different pieces for the vocabularies that the pages name.
        sentences = [
            " ".join("".join(draw.choices("abcdefghijklmnop", k=8)) for _ in range(6 if count > 9 else 4))
            for _ in range(count)
        ]
        if kind in ("de", "zh"):  # no target is a copy of its source
            sentences = [" ".join(reversed(line.split())) for line in sentences]
        content = "".join(f"{line}\n" for line in sentences)
    elif kind in ("align", "links"):
        content = "0-0 1-1 2p2 3-3\n" * count
    elif kind == "tsv":
        content = "".join(f"{number} dogs run\t{number} Hunde laufen\n" for number in range(3000))
    elif kind in ("txt", "vec"):
        content = "".join(f"w{row} {' '.join(str(draw.random()) for _ in range(300))}\n" for row in range(3))
    elif name == "experiment.yaml":
        arms = {"fixed": {"model": {"context": {"kind": "fixed"}}}, "additive": {}}
        content = json.dumps({"name": "tiny", "base": tiny(), "baseline": "fixed", "arms": arms})
    elif kind == "yaml":
        content = yaml.safe_dump(tiny())
    elif kind == "py":
        content = "from seq2seq_attn.attention import Additive\n\n\nclass MyScorer(Additive):\n    pass\n"
    else:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".gz"):
        import gzip

        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content, encoding="utf-8")
