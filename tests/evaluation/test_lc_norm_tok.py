from __future__ import annotations

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.lc_norm_tok import bleu_lc_tok, lc_norm_tok
from seq2seq_attn.evaluation.metrics import bleu


@pytest.mark.parametrize(
    ("language", "raw", "processed"),
    [
        ("de", "Ein Junge im T-Shirt fährt Ski.", "ein junge im t-shirt fährt ski ."),
        ("de", "Er läuft , (sehr) schnell!", "er läuft , ( sehr ) schnell !"),
        ("de", "Ein Hund namens „Rex“ bellt.", "ein hund namens &quot; rex &quot; bellt ."),
        ("de", "Auf dem Schild steht: „Halt.“", "auf dem schild steht : &quot; halt &quot; ."),
        ("de", "Toms Bruder isst bei McDonald's", "toms bruder isst bei mcdonald &apos; s"),
        ("en", "A boy's dog runs.", "a boy &apos;s dog runs ."),
        ("en", 'A ship named "Sun" sails.', "a ship named &quot; sun &quot; sails ."),
        ("en", "5,000 people & one cat…", "5,000 people &amp; one cat ..."),
        ("en", "", ""),
    ],
)
def test_a_raw_line_becomes_what_the_moses_scripts_make_of_it(language, raw, processed):
    assert lc_norm_tok(raw, language) == processed


def test_raw_output_equal_to_the_processed_reference_scores_100():
    hypotheses = ["Ein Hund namens „Rex“ bellt.", "Zwei Männer, beide im T-Shirt, laufen."]
    references = [
        "ein hund namens &quot; rex &quot; bellt .",
        "zwei männer , beide im t-shirt , laufen .",
    ]
    assert bleu_lc_tok(hypotheses, references, "de").value == pytest.approx(100)
    assert bleu(hypotheses, references).value < 60


def test_the_signature_tells_the_steps_before_sacrebleu():
    score = bleu_lc_tok(["Ja."], ["ja ."], "de")
    sacrebleu, steps = score.signature.split("|hyp:")
    assert sacrebleu == bleu(["ja ."], ["ja ."], tokenize="none", lowercase=True).signature
    assert "tok:none" in sacrebleu
    assert steps.startswith("lowercase+moses-normalise+moses-tokenise.de|sacremoses:")


def test_numbers_of_lines_that_differ_are_refused_in_this_flavour_too():
    with pytest.raises(UserError, match="1 hypotheses but 2 references"):
        bleu_lc_tok(["Ja."], ["ja .", "nein ."], "de")
