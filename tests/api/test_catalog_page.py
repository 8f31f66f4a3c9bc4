"""The catalog and docs/scorers.md agree with the classes."""

from pathlib import Path

import pytest

from seq2seq_attn.api.catalog import scorers
from seq2seq_attn.attention import (
    Additive,
    normalizer,
    normalizer_classes,
    position,
    position_classes,
    scorer,
    scorer_classes,
    window,
    window_classes,
)

PAGE = Path(__file__).parents[2] / "docs/scorers.md"


@pytest.fixture(autouse=True)
def _without_scorers_of_other_tests(monkeypatch):
    for registry, classes in (
        (scorer._scorers, scorer_classes()),
        (normalizer._normalizers, normalizer_classes()),
        (window._windows, window_classes()),
        (position._positions, position_classes()),
    ):
        own = {name: part for name, part in classes.items() if part.__module__.startswith("seq2seq_attn.")}
        monkeypatch.setattr(registry, "_classes", own)
        monkeypatch.setattr("seq2seq_attn.attention.registry.load_installed", tuple)


def test_the_page_in_docs_is_current():
    command = "seq2seq-attn scorers --query-size 512 --key-size 512 --markdown > docs/scorers.md"
    assert PAGE.read_text(encoding="utf-8") == scorers(512, 512).markdown(), f"regenerate it: {command}"


def test_an_entry_has_the_equation_and_the_options_of_its_class():
    entry = next(entry for entry in scorers(5, 7) if entry.name == "additive")
    assert (entry.equation, entry.source) == (Additive.equation, Additive.source)
    assert entry.parameters == sum(parameter.numel() for parameter in Additive(5, 7).parameters())
    assert entry.settings == ["hidden_size=null"]


def test_every_part_has_an_equation_and_a_source():
    entries = scorers(512, 512)
    assert {entry.kind for entry in entries} == {"scorer", "normalizer", "window", "position"}
    for entry in entries:
        assert entry.equation, entry.name
        assert entry.source, entry.name
        assert entry.error is None, entry.name


def test_sizes_that_a_part_cannot_take_are_reported_in_place_of_its_parameters():
    found = scorers(5, 7)
    (dot,) = (entry for entry in found if entry.name == "dot")
    assert dot.parameters is None
    assert "got 5 and 7; use General" in dot.error
    assert dot.error in repr(found)
    (dot,) = (entry for entry in scorers(5, 5) if entry.name == "dot")
    assert (dot.parameters, dot.error) == (0, None)


def test_the_listing_names_every_part_under_its_kind():
    first_words = [line.split()[0] for line in repr(scorers(5, 7)).splitlines() if line[0] != " "]
    classes = scorer_classes(), normalizer_classes(), window_classes(), position_classes()
    kinds = "SCORERS", "NORMALIZERS", "WINDOWS", "POSITIONS"
    assert first_words == [word for kind, each in zip(kinds, classes, strict=True) for word in (kind, *each)]


def test_a_bar_in_an_equation_does_not_end_its_cell():
    rows = [line for line in scorers(512, 512).markdown().splitlines() if line.startswith("| `cosine`")]
    assert r"`q · k / (\|q\| \|k\| τ)`" in rows[0]
    assert rows[0].replace(r"\|", "").count("|") == 6
