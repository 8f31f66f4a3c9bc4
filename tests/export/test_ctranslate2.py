"""CTranslate2 itself finds the translations and scores that the search here finds."""

import json

import pytest

from seq2seq_attn.errors import UserError
from seq2seq_attn.export import export_model

LINES = ["a", "b c d e", "k j i h g f e", "a zebra a", "d d d d d d d d d", "</s> c"]
TRANSFORMER = {"kind": "transformer", "embedding_size": 16, "context": {"heads": 2}}
LAYERS = {"layers": 2, "heads": 2, "feed_forward_size": 24}
ARMS = {
    "pre-norm": {"encoder": LAYERS, "decoder": LAYERS | {"layers": 1, "activation": "gelu"}},
    "post-norm": {
        "encoder": LAYERS | {"norm": "post", "heads": 4, "activation": "swiglu"},
        "decoder": LAYERS | {"norm": "post", "position": {"name": "learned", "max_positions": 300}},
        "tie_embeddings": "all",
    },
}


@pytest.mark.parametrize("arm", ARMS)
def test_ctranslate2_translates_as_the_search_here(trained, tmp_path, arm):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra [export] is not installed")
    joint = "tie_embeddings" in ARMS[arm]
    model = trained(TRANSFORMER | ARMS[arm], text={"tokenizer": "word", "joint": joint})
    folder = model.export("ctranslate2", tmp_path / "exported")
    positions = json.loads((folder / "export.json").read_text())["positions"]
    assert positions == {"source": 1024, "target": 300 if joint else 1024}
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    source, target = (codec.vocabulary for codec in (model.trained.source, model.trained.target))
    tokens = [source.lookup_tokens(model.trained.source.encode(line)[:-1]) for line in LINES]
    for beam_size in (1, 5):
        options = model.search_options(beam_size=beam_size, length_penalty=0)
        ours = [best for (best,) in model.trained.search(LINES, options)]
        theirs = translator.translate_batch(
            tokens,
            beam_size=beam_size,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=options.max_length,
            return_scores=True,
        )
        assert len({tuple(each.tokens) for each in ours}) > 3
        assert [each.hypotheses[0] for each in theirs] == [target.lookup_tokens(each.tokens) for each in ours]
        assert [each.scores[0] for each in theirs] == pytest.approx([each.score for each in ours], abs=1e-4)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"kind": "recurrent"}, "model.kind=recurrent: CTranslate2 knows only transformer"),
        ({"encoder": {"kind": "recurrent"}}, "model.encoder.kind=recurrent: CTranslate2 knows only transformer"),
        (
            {"tie_embeddings": "all", "head": {"kind": "pointer_generator"}},
            "model.head.kind=pointer_generator: CTranslate2 knows only softmax",
        ),
        ({"context": {"kind": "fixed"}}, "model.context.kind=fixed: CTranslate2 knows only attention"),
        ({"context": {"scorer": "additive"}}, "model.context.scorer=additive: CTranslate2 knows only scaled_dot"),
        ({"encoder": {"scorer": "additive"}}, "model.encoder.scorer=additive: CTranslate2 knows only scaled_dot"),
        (
            {"decoder": {"normalizer": "sparsemax"}},
            "model.decoder.normalizer=sparsemax: CTranslate2 knows only softmax",
        ),
        (
            {"context": {"normalizer": {"name": "softmax", "temperature": 2}}},
            "softmax {'temperature': 2.0}: ",
        ),
        ({"context": {"window": "local_m"}}, "model.context.window=local_m: CTranslate2 knows only null"),
        ({"encoder": {"position": "rotary"}}, "model.encoder.position=rotary: .* sinusoidal and learned"),
        ({"decoder": {"position": None}}, "model.decoder.position=null: .* sinusoidal and learned"),
        ({"context": {"heads": 2}}, "model.context.heads=2: CTranslate2 knows only 4"),
    ],
)
def test_a_part_that_ctranslate2_does_not_know_is_named(untrained, tmp_path, model, words):
    model = untrained({"kind": "transformer", "embedding_size": 16} | model)
    with pytest.raises(UserError, match=words) as error:
        export_model(model, "ctranslate2", tmp_path / "exported")
    assert "export to onnx or torch instead" in str(error.value)


def test_a_module_that_a_user_changed_is_refused(untrained, tmp_path):
    model = untrained({"kind": "transformer", "embedding_size": 16})
    model.translator.head.projection.register_forward_hook(lambda module, inputs, output: -output)
    with pytest.raises(UserError, match=r"Linear \(head\.projection\) has hooks"):
        export_model(model, "ctranslate2", tmp_path / "exported")


def test_the_readme_of_an_export_says_how_to_translate_with_it(untrained, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ctranslate2", reason="the extra [export] is not installed")
    model = untrained({"kind": "transformer", "embedding_size": 16})
    folder = export_model(model, "ctranslate2", tmp_path / "exported")
    monkeypatch.chdir(folder)
    exec((folder / "README.md").read_text().split("```")[1].removeprefix("python"), {})
    assert set(capsys.readouterr().out.split()) <= set("abcdefghijk.")


def test_a_softmax_of_temperature_1_is_known(untrained, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra [export] is not installed")
    softmax = {"name": "softmax", "temperature": 1}
    model = untrained({"kind": "transformer", "embedding_size": 16, "decoder": {"normalizer": softmax}})
    assert export_model(model, "ctranslate2", tmp_path / "exported").is_dir()
