"""A comparison of lowercased models on cased text with two references."""

import pytest
import sacrebleu

import seq2seq_attn as s2s
from seq2seq_attn.comparison.evidence import recompute
from seq2seq_attn.results.evidence import EVIDENCE, Evidence


@pytest.mark.usefixtures("no_figures")
def test_runs_and_comparisons_count_all_references_and_no_case(backwards, tmp_path):
    folder, values = backwards
    targets = (folder / "target").read_text().splitlines()
    cased, second = [line.upper() for line in targets], [line[::-1] if len(line) > 1 else "" for line in targets]
    for name, lines in {"cased": cased, "second": second}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    test = {"source": str(folder / "source"), "references": [str(tmp_path / "cased"), str(tmp_path / "second")]}
    experiment = {
        "name": "references",
        "baseline": "distracted",
        "arms": {
            "distracted": {"model": {"context": {"kind": "fixed"}}},
            "attention": ["model.context.scorer=general"],
        },
        "base": values
        | {"data": values["data"] | {"test": test}, "text": {"tokenizer": "word", "lowercase": True}}
        | {"evaluation": {"bands": [1, 2]}},
        "seeds": [1],
    }
    changes = {"training": {"max_epochs": 1, "validate_every": 1}}
    found = s2s.compare(experiment, tmp_path / "x", silent=True, **changes).results
    for key, start in {
        "bleu": "nrefs:var|case:lc|",
        "chrf": "nrefs:var|case:lc|",
        "exact_match": "nrefs:var|case:lc|",
    }.items():
        assert found.signatures[key].startswith(start)
    assert not found.missing
    assert found.signatures["paired_bootstrap"].startswith("nrefs:var|")
    references = [cased, [line or None for line in second]]
    evidence = Evidence.load(tmp_path / "x" / EVIDENCE)
    for arm, scored in zip(evidence.arms, found.arms, strict=True):
        lines = arm.runs[0].translations
        assert scored.scores["bleu"].mean == pytest.approx(
            sacrebleu.corpus_bleu(lines, references, lowercase=True).score
        )
        chrf = sacrebleu.CHRF(lowercase=True).corpus_score(lines, references).score
        assert scored.scores["chrf"].mean == pytest.approx(chrf)
    assert str(tmp_path / "second") in evidence.data
    assert recompute(tmp_path / "x").differences == []
