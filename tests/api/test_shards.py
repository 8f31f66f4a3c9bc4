"""A file translated in shards: the outputs of one process, line by line, whatever ends in between."""

import codecs
import gzip

import pytest

from seq2seq_attn.api import shards
from seq2seq_attn.api.shards import RECORD, FileTask, asked, shown, translate_file
from seq2seq_attn.comparison.launchers import Ended
from seq2seq_attn.errors import FailedError, UserError
from seq2seq_attn.files.reading import index_lines, iterate_lines, lines_from

LINES = ["a b c", "", "d e", "c c a", "e d", "b\u2028a", "a", "c b", "  ", "d", "a b", "e e e", "c"]
NAMES = ["00000000-00000003.txt", "00000004-00000007.txt", "00000008-00000011.txt", "00000012-00000012.txt"]


@pytest.mark.parametrize("form", ["plain", "gzip", "utf-16", "marked", "windows"])
def test_lines_are_found_again_at_their_offsets(form, tmp_path):
    text = "".join(f"{line}\n" for line in LINES)
    content = {
        "plain": text.encode()[:-1],
        "gzip": gzip.compress(text.encode()),
        "utf-16": text.encode("utf-16"),
        "marked": codecs.BOM_UTF8 + text.encode(),
        "windows": text.replace("\n", "\r\n").encode(),
    }[form]
    (tmp_path / "lines").write_bytes(content)
    index = index_lines(tmp_path / "lines", 3)
    assert index.lines == len(LINES) == len([*iterate_lines(tmp_path / "lines")])
    for number, offset in enumerate(index.offsets):
        assert [*lines_from(tmp_path / "lines", offset, 3 * number)] == LINES[3 * number :]
    (tmp_path / "lines").write_bytes(b"a\nb\n\xff\n")
    with pytest.raises(UserError, match="line 3"):
        index_lines(tmp_path / "lines", 2)


@pytest.fixture
def task(model, tmp_path, monkeypatch):
    """Shards of four lines, which are decoded two at a time."""
    monkeypatch.setattr(shards, "CHUNK", 2)
    monkeypatch.setattr(shards, "SHARD", 4)
    (tmp_path / "all.en").write_text("".join(f"{line}\n" for line in LINES))
    return FileTask(model.folder.absolute(), tmp_path / "all.en", tmp_path / "out", model.config.search)


def written(task):
    return {path.name: path.read_text() for path in task.output.glob("*-*")}


def expected(model, task):
    """The lines that one process prints, which decodes as many at a time."""
    batches = [LINES[start : start + 2] for start in range(0, len(LINES), 2)]
    found = model.stream(asked(batches, None, None, task.tabs, task.glossary), task.options)
    return [line for number, each in enumerate(found) for line in shown(number, each, task.options, task.as_json)]


@pytest.mark.parametrize("change", ["", "n_best", "json", "tabs"])
def test_shards_one_after_the_other_are_what_one_process_prints(model, task, change):
    if change == "n_best":
        task = task._replace(options=task.options.model_copy(update={"beam_size": 3, "n_best": 2}))
    if change == "json":
        task = task._replace(as_json=True)
    if change == "tabs":
        task.source.write_text("".join(f"{line}\tb\n" if line.strip() else "\n" for line in LINES))
        task = task._replace(tabs="prefix")
    unknown, _ = translate_file(task)
    found = written(task)
    assert sorted(found) == [name.replace("txt", "jsonl") if change == "json" else name for name in NAMES]
    lines = "".join(found[name] for name in sorted(found)).splitlines()
    if change == "tabs":
        assert [line[:1] for line in lines] == ["b" if line.strip() else "" for line in LINES]
    else:
        assert lines == expected(model, task)
    assert unknown.lines == len(LINES)


def test_what_is_there_is_not_translated_again(task):
    translate_file(task)
    found = written(task)
    (task.output / NAMES[1]).unlink()
    (task.output / NAMES[2]).write_text("by hand\n")
    said, progress = [], []
    unknown, _ = translate_file(task, say=said.append, progress=progress.append)
    assert written(task) == found | {NAMES[2]: "by hand\n"}
    assert (unknown.lines, sum(progress)) == (4, len(LINES))
    assert "3 of 4 shards" in said[0]


@pytest.mark.parametrize("other", ["source", "options", "json", "record", "folder"])
def test_a_folder_with_other_outputs_is_refused(task, other):
    translate_file(task)
    before = written(task)
    if other == "source":
        task.source.write_text("a\n")
    elif other == "options":
        task = task._replace(options=task.options.model_copy(update={"length_penalty": 0.5}))
    elif other == "json":
        task = task._replace(as_json=True)
    elif other == "record":
        (task.output / RECORD).write_text("{")
    else:
        (task.output / RECORD).unlink()
    with pytest.raises(UserError, match=str(task.output)):
        translate_file(task)
    assert written(task) == before


class Ending:
    """A launcher whose processes end after some shards; `limits` has the numbers, one for each call."""

    def __init__(self, *limits):
        self.limits = list(limits)

    def launch(self, work, parts, say):
        left = self.limits.pop(0)
        for part in parts:
            some = part._replace(shards=tuple(part.missing[:left]))
            left -= len(some.shards)
            done = work(some)
            yield part, Ended("its process was killed") if part.missing else done


def test_a_part_that_lost_its_process_continues_after_its_last_shard(model, task):
    said = []
    unknown, _ = translate_file(task, Ending(1, 2, 9), say=said.append)
    assert "".join(written(task)[name] for name in NAMES).splitlines() == expected(model, task)
    assert [text.count("killed") for text in said] == [1, 1]
    assert unknown.lines == 1  # of what the others have written, nobody said anything


def test_processes_that_end_again_and_again_end_the_command(task):
    with pytest.raises(FailedError, match="its process was killed"):
        translate_file(task, Ending(1, 0))
    assert [*written(task)] == NAMES[:1]


@pytest.mark.parametrize(("jobs", "sizes"), [(1, [4]), (2, [2, 2]), (3, [1] * 4), (None, [1] * 4)])
def test_every_job_gets_a_part_and_parts_are_not_too_large(task, jobs, sizes):
    parts = shards._parts(task, range(4), len(LINES), jobs, shards.Resources())
    assert [len(part.shards) for part in parts] == sizes
    many = shards._parts(task, range(4000), 16_000, 2, shards.Resources())
    assert {len(part.shards) for part in many} == {shards.NEIGHBORS}


def test_a_mistake_of_one_process_is_that_of_the_command(task):
    task = task._replace(tabs="constraints", options=task.options.greedy())
    task.source.write_text("a\tb\n")
    with pytest.raises(UserError, match="beam"):
        translate_file(task)
    assert not written(task)
