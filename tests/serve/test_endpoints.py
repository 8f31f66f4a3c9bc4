"""Every endpoint answers what the Python API answers."""

import json
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from students import STUDENTS

import seq2seq_attn as s2s
from seq2seq_attn.analysis.sentence_vector import sentence_vector
from seq2seq_attn.analysis.step_interventions import Intervention
from seq2seq_attn.analysis.stepwise import continuations
from seq2seq_attn.config import TestFiles as Files
from seq2seq_attn.errors import UserError
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.runs.corpora import sample_pairs
from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.tasks import ServedModel
from seq2seq_attn.strict import parse


def test_libretranslate_translates_a_text_and_a_list(post, model):
    assert post("/translate", {"q": "a b c", "source": "en", "target": "zh"}) == {"translatedText": "c b a"}
    answer = post("/translate", {"q": ["a b", "", "c"], "source": "auto", "target": "zh", "unknown": 1})
    assert answer["translatedText"] == ["b a", "", "c"]
    assert answer["detectedLanguage"] == [{"confidence": 100, "language": "en"}] * 3


def test_libretranslate_keeps_the_lines_of_a_text(post, model):
    first, _, last = model.translate(["a b", "", "b c"]).sentences
    assert post("/translate", {"q": "a b\n\nb c\n", "target": "zh"})["translatedText"] == f"{first}\n\n{last}\n"


def test_libretranslate_gives_alternatives(post, model):
    answer = post("/translate", {"q": "a b c", "target": "zh", "alternatives": 2})
    (wanted,) = model.translate(["a b c"], n_best=3).n_best
    assert [answer["translatedText"], *answer["alternatives"]] == wanted
    listed = post("/translate", {"q": ["a b c", ""], "target": "zh", "alternatives": 2})
    assert listed["alternatives"] == [wanted[1:], []]


@pytest.mark.parametrize(
    "own", [{"mbr": "chrf"}, {"mbr": "chrf", "candidates": 3}, {"beam_groups": 2, "beam_size": 4}, {"sampling": True}]
)
def test_any_search_of_a_run_can_be_asked_for_several_outputs(own):
    options = parse(SearchOptions, own)
    several = parse(SearchOptions, options.model_dump() | options.for_several(6))
    assert several.n_best == 6
    assert several.hypotheses >= 6
    assert (several.mbr_candidates >= 6) or several.mbr is None


def test_a_run_may_be_asked_for_the_beam_of_its_own_search(post, ask, model):
    beam = model.config.search.beam_size
    assert beam > 1
    narrow, body = {"settings": Settings(max_beam=1)}, {"source": "a b", "beam_size": beam}
    assert post("/v1/translate", body, **narrow) == post("/v1/translate", {"source": "a b"})
    assert post("/v1/hypotheses", body | {"n_best": beam}, **narrow)["hypotheses"]
    wider = ask("POST", "/v1/translate", json=body | {"beam_size": beam + 1}, **narrow)
    assert wider.status_code == 400
    assert wider.json()["error"] == f"beam_size = {beam + 1}: this server allows at most {beam}"


def test_hypotheses_may_be_distinct_texts(post, model, monkeypatch):
    monkeypatch.setattr(type(model.trained.target), "decode", lambda _, ids: f"{len(ids)} tokens")
    asked = {"source": "a b c", "beam_size": 6, "n_best": 3}
    several = [each["text"] for each in post("/v1/hypotheses", asked | {"n_best": 6})["hypotheses"]]
    found = [each["text"] for each in post("/v1/hypotheses", asked | {"distinct": True})["hypotheses"]]
    assert found == list(dict.fromkeys(several))[:3] != several[:3]


def test_libretranslate_takes_a_form(ask, model):
    answer = ask("POST", "/translate", data={"q": ["a b", "b c"], "source": "en", "target": "zh"})
    assert answer.json() == {"translatedText": model.translate(["a b", "b c"]).sentences}


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=7f3a", 'Multipart/Form-Data; BOUNDARY="7f3a"'])
def test_libretranslate_takes_a_form_in_parts_as_browsers_send_it(ask, kind):
    parts = {"q": "a b\r\n\r\n--b", "target": "zh", "source": "en", "alternatives": "0", "api_key": ""}
    body = "".join(
        f'--7f3a\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts.items()
    )
    answer = ask("POST", "/translate", content=f"{body}--7f3a--\r\n".encode(), headers={"content-type": kind})
    wanted = ask("POST", "/translate", json={"q": "a b\n\n--b", "source": "en", "target": "zh"})
    assert answer.status_code == 200
    assert answer.json() == wanted.json()


def test_media_types_are_compared_without_case(ask):
    kind = {"content-type": "Application/X-WWW-Form-Urlencoded; Charset=UTF-8"}
    answer = ask("POST", "/translate", content=b"q=a+b&source=en&target=zh", headers=kind)
    assert answer.json() == {"translatedText": "b a"}


def test_languages_are_those_of_the_runs(ask, served, model):
    other = ServedModel.load("other", model, ("en", "fr"), print)
    answer = ask("GET", "/languages", models=[served, other])
    assert answer.json() == [
        {"code": "en", "name": "en", "targets": ["fr", "zh"]},
        {"code": "zh", "name": "zh", "targets": []},
        {"code": "fr", "name": "fr", "targets": []},
    ]


def test_the_model_is_chosen_by_its_languages_or_by_name(post, ask, served, model):
    other = ServedModel.load("other", s2s.Model(model.trained, model.folder), ("fr", "de"), print)
    both = [served, other]
    assert post("/translate", {"q": "a b", "source": "fr", "target": "de"}, models=both)["translatedText"] == "b a"
    assert post("/v1/translate", {"source": "a", "model": "other"}, models=both)["model"] == "other"
    assert post("/v1/translate", {"source": "a"}, models=both)["model"] == "backwards"
    names = [each["name"] for each in ask("GET", "/v1/models", models=both).json()["models"]]
    assert names == ["backwards", "other"]


def test_a_model_lists_the_normalizers_that_an_intervention_takes(ask, post):
    (about,) = ask("GET", "/v1/models").json()["models"]
    assert {"entmax15", "hard", "sigmoid", "softmax", "sparsemax"} <= set(about["normalizers"])
    for name in about["normalizers"]:
        post("/v1/intervene", {"source": "a", "interventions": [{"replace": "normalizer", "normalizer": name}]})


@pytest.mark.parametrize(
    "ranking", [{"length_penalty": 0.5}, {"coverage_penalty": 0.3, "length_reward": 0.2}, {"beam_groups": 2}], ids=str
)
def test_translations_come_with_scores_tokens_weights_and_links(post, model, ranking):
    options = {"beam_size": 4, "n_best": 2, **ranking}
    (found,) = post("/v1/translate", {"source": "a b c", "weights": True, "align": True, **options})["results"]
    (wanted,) = model.translate(["a b c"], weights=True, **options)
    assert found["tokens"] == ["a", "b", "c", "</s>"]
    assert len(found["translations"]) == 2
    for each, candidate, tokens in zip(
        found["translations"], wanted.candidates, wanted.token_attention.translations, strict=True
    ):
        assert each["text"] == candidate.text
        assert each["score"] == pytest.approx(candidate.score, rel=1e-5)
        assert each["log_probability"] == pytest.approx(candidate.log_probability, rel=1e-5)
        assert each["tokens"] == tokens.tokens
        for row, other in zip(each["weights"], tokens.weights.tolist(), strict=True):
            assert row == pytest.approx(other, abs=1e-5)
        (links,) = model.align([("a b c", each["text"])]).links
        assert each["links"] == [list(link) for link in sorted(links)]


def test_samples_are_those_of_their_seed(post, model):
    options = {"temperature": 2.0, "top_k": 4, "seed": 5, "n_best": 3}
    (found,) = post("/v1/translate", {"source": "a b c", **options})["results"]
    assert [each["text"] for each in found["translations"]] == model.translate(["a b c"], **options).n_best[0]


def test_translations_keep_what_is_asked_of_them_and_say_where(post, model):
    body = {
        "source": ["a b c", "b", "a"],
        "prefix": ["a", "", ""],
        "constraints": [["b b"], [], []],
        "glossary": {"a": "c c"},
        "avoid": ["a b"],
    }
    first, second, third = (found["translations"][0] for found in post("/v1/translate", body)["results"])
    words = first["text"].split()
    assert words[0] == "a"
    assert "a b" not in first["text"]
    phrases = ["a", "b b", "c c"]
    assert [each["phrase"] for each in first["constraints"]] == phrases
    assert [each["by"] for each in first["constraints"]] == ["prefix", "constraint", "glossary"]
    assert [" ".join(words[slice(*each["steps"])]) for each in first["constraints"]] == phrases
    assert second["text"] == model.translate(["b"]).sentences[0]
    assert "constraints" not in second
    assert "c c" in third["text"]


def test_a_blank_line_has_no_translation(post):
    results = post("/v1/translate", {"source": ["", "a b"], "weights": True, "align": True})["results"]
    assert [[each["text"] for each in found["translations"]] for found in results] == [[], ["b a"]]


def test_scores_are_those_of_the_model(post, model):
    pairs = [("a b", "b a"), ("a b c", "a"), ("", "a")]
    sources, targets = zip(*pairs, strict=True)
    results = post("/v1/score", {"source": sources, "target": targets})["results"]
    for found, wanted in zip(results, model.score(pairs), strict=True):
        assert close(found, wanted._asdict())


def test_links_are_those_of_the_model(post, model):
    (found,) = post("/v1/align", {"source": "a b c", "target": "c b a", "threshold": 0.1})["results"]
    (links,) = model.align([("a b c", "c b a")], threshold=0.1).links
    assert found["links"] == [list(link) for link in sorted(links)]


@pytest.mark.parametrize("target", [None, "c b"])
@pytest.mark.parametrize("words", [False, True])
def test_attention_is_that_of_the_model(post, model, target, words):
    found = post("/v1/attention", {"source": "a b c", "target": target, "words": words, "heads": True})
    wanted = model.attention("a b c", target, words=words)
    assert (tuple(found["source"]), tuple(found["target"])) == (wanted.source, wanted.target)
    assert found["weights"][0] == pytest.approx(wanted.weights[0].tolist(), abs=1e-5)
    maps = model.attention_maps("a b c", target or "c b a")
    assert found["cross"][0][0][0] == pytest.approx(maps.cross.layers[0][0, 0].tolist(), abs=1e-5)
    assert tuple(found["target_tokens"]) == maps.cross.target


@pytest.mark.parametrize("heads", [False, True])
def test_the_attention_of_a_best_translation_that_is_blank_has_no_row(post, model, heads):
    search = model.config.search.model_copy(update={"avoid": ("a", "b", "c", "<unk>")})
    config = model.config.model_copy(update={"search": search})
    silent = s2s.Model(replace(model.trained, config=config), model.folder)
    assert silent.translate(["a b"]).sentences == [""]
    models = [ServedModel.load("silent", silent, ("en", "zh"), print)]
    found = post("/v1/attention", {"source": "a b", "heads": heads}, models=models)
    assert (found["source"], found["target"], found["weights"]) == (["a", "b", "</s>"], [], [])
    assert ("cross" in found) == heads
    assert post("/v1/attention", {"source": "a b", "words": True}, models=models)["source"] == ["a", "b"]


def close(found, wanted):
    """Equal but for rounding, at any depth."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(close(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return found == (pytest.approx(wanted, abs=1e-5) if isinstance(wanted, float) else wanted)


def record(steps):
    """What the endpoint is to answer for these steps of the Python API."""
    return {
        "model": "backwards",
        "source": steps.source,
        "read_as": [each._asdict() for each in steps.read_as],
        "text": steps.text,
        "log_probability": steps.log_probability,
        "steps": [
            step._asdict()
            | {
                "layers": [layer._asdict() for layer in step.layers],
                "likely": [{"token": token, "probability": probability} for token, probability in step.likely],
            }
            for step in steps.steps
        ],
    }


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"target": "a b"}, {"prefix": "a"}, {"prefix": ["b", "b"]}])
def test_steps_are_those_of_the_model(post, model, options):
    assert close(post("/v1/steps", {"source": "a b c", **options}), record(model.steps("a b c", **options)))


NEAR = {"you": "your", "kichen": "kitchen"}  # what is suggested first


@pytest.mark.parametrize("source", STUDENTS)
def test_what_a_model_reads_otherwise_than_it_is_written_is_marked(ask, post, demo, source):
    found = post("/v1/steps", {"source": source}, models=[demo])
    assert {each["word"]: each["tokens"] for each in found["read_as"]} == STUDENTS[source]
    words = source.split()
    assert all(words[each["place"]] == each["word"] for each in found["read_as"])
    first = {each["word"]: each["suggestions"][0] for each in found["read_as"] if each["suggestions"]}
    assert first.items() >= {word: near for word, near in NEAR.items() if word in words}.items()
    marked = [token for token in found["source"] if token.endswith(" (<unk>)")]
    assert len(marked) == sum(tokens.count("<unk>") for tokens in STUDENTS[source].values())
    (_, start), *_ = events(ask("POST", "/v1/stream", json={"source": source}, models=[demo]).text)
    assert {name: start[name] for name in ("source", "read_as")} == {
        name: found[name] for name in ("source", "read_as")
    }
    unknown = [word for word, tokens in STUDENTS[source].items() if "<unk>" in tokens]
    assert post("/translate", {"q": source, "target": "zh"}, models=[demo]).get("unknownWords", []) == unknown
    assert post("/v1/translate", {"source": source}, models=[demo])["results"][0]["tokens"] == found["source"]


def test_a_suggestion_is_read_as_it_is_written(post, demo):
    (read,) = post("/v1/steps", {"source": "Tom is in the kichen ."}, models=[demo])["read_as"]
    assert post("/v1/steps", {"source": f"Tom is in the {read['suggestions'][0]} ."}, models=[demo])["read_as"] == []


def test_a_beginning_without_spaces_is_read_in_words(post, demo):
    found = post("/v1/steps", {"source": "the lazy girl runs .", "prefix": "懒女孩"}, models=[demo])
    assert [step["token"] for step in found["steps"]][:2] == ["懒", "女孩"]


def test_a_source_may_be_given_as_tokens(ask, post, refused, model):
    tokens = ["a", "<unk>", "c"]
    for path in ("/v1/steps", "/v1/hypotheses", "/v1/stream"):
        assert ask("POST", path, json={"source": tokens}).status_code == 200
    found = post("/v1/steps", {"source": tokens})
    assert close(found, record(model.steps(tokens)))
    assert found["source"] == [*tokens, "</s>"]
    assert "'zz' is not in this model's vocabulary" in refused(400, "POST", "/v1/steps", json={"source": ["a", "zz"]})
    assert "21 tokens; at most 20" in refused(400, "POST", "/v1/steps", json={"source": ["a"] * 21})


@pytest.mark.parametrize(
    "intervention",
    [
        {"replace": "weights", "step": 0, "weights": [1.0, 0.0, 0.0, 0.0]},
        {"replace": "mean", "step": 1},
        {"replace": "nothing"},
        {"replace": "sentence", "other": "b b", "step": 0},
        {"replace": "temperature", "temperature": 3.0},
        {"replace": "normalizer", "normalizer": "sigmoid"},
        {"replace": "normalizer", "normalizer": {"name": "softmax", "temperature": 4.0}, "step": 0},
    ],
    ids=lambda each: each["replace"],
)
def test_a_dragged_weight_gives_the_translation_of_the_same_intervention_in_python(post, model, intervention):
    found = post("/v1/intervene", {"source": "a b c", "interventions": [intervention]})
    wanted = model.steps("a b c", interventions=[intervention])
    assert close(found, record(wanted))
    assert found["steps"][0]["likely"] != post("/v1/steps", {"source": "a b c"})["steps"][0]["likely"] or (
        intervention.get("step") == 1
    )


@pytest.mark.parametrize("options", [{}, {"prefix": ["b"], "interventions": [{"replace": "mean", "step": 1}]}])
def test_hypotheses_are_the_continuations_of_the_model(post, model, options):
    found = post("/v1/hypotheses", {"source": "a b c", "beam_size": 3, "n_best": 3, **options})["hypotheses"]
    changes = [Intervention.model_validate(each) for each in options.get("interventions", ())]
    search = model.search_options(beam_size=3, n_best=3)
    wanted = continuations(
        model.trained, "a b c", prefix=options.get("prefix", ()), interventions=changes, options=search
    )
    assert close(found, [each._asdict() for each in wanted])
    assert len({tuple(each["tokens"]) for each in found}) == 3


def test_examples_are_pairs_of_the_test_set_with_their_gold_links(tmp_path):
    lines = {"source": ["a b c d e", "a b", "a b c d e f g"], "target": ["e d c b a", "b a", "g f"]}
    for name, texts in (*lines.items(), ("links", ["0-4 4-0", "0-1", ""])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    files = {"source": tmp_path / "source", "target": tmp_path / "target"}
    found = sample_pairs(Files(**files, alignments=tmp_path / "links"))
    assert found == [
        {"source": "a b c d e", "target": "e d c b a", "links": [(0, 4), (4, 0)]},
        {"source": "a b c d e f g", "target": "g f", "links": []},
    ]
    assert [each["links"] for each in sample_pairs(Files(**files))] == [None, None]
    (tmp_path / "source").unlink()
    assert sample_pairs(Files(**files)) == sample_pairs(None) == []


def events(text):
    """The events of a stream: (name, data)."""
    return [
        (lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: ")))
        for lines in (block.splitlines() for block in text.strip().split("\n\n"))
    ]


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"interventions": [{"replace": "mean", "step": 0}]}])
def test_a_stream_has_every_step_and_the_whole_at_its_end(ask, model, options):
    answer = ask("POST", "/v1/stream", json={"source": "a b c", **options})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"  # nginx passes every event on as it comes
    (_, start), *steps, (_, end) = events(answer.text)
    wanted = record(model.steps("a b c", **({"beam_size": 1} | options)))
    assert start == {"model": "backwards", "source": ["a", "b", "c", "</s>"], "read_as": []}
    texts = [step.pop("text") for _, step in steps]
    assert close([step for _, step in steps], wanted["steps"])
    assert texts[-1] == end["text"] == wanted["text"]
    assert end["tokens"] == [step["token"] for step in wanted["steps"]]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"source": ["a", "c"]},
        {"step": 1},
        {"source": ["b"], "step": 0},
        {"target": ["b", "c"], "step": 2, "most": 3},
    ],
)
def test_neighbors_are_those_of_the_model(ask, post, served, model, asked, monkeypatch, tmp_path):
    pytest.importorskip("usearch", reason="the extra [neighbors] is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    request = {"source": "a b c"} | asked
    first = ask("POST", "/v1/neighbors", json=request)
    assert first.status_code in (200, 503)
    if first.status_code == 503:  # until the training sentences are read
        assert first.headers["retry-after"] == "5"
        served.index.result(timeout=60)
    answer = post("/v1/neighbors", request)
    assert close(answer["neighbors"], model.neighbors(**request).to_records())


def test_the_plane_of_the_values_is_that_of_the_model(post, refused, model):
    wanted = model.value_plane("a b c")
    for source in ("a b c", ["a", "b", "c"]):
        answer = post("/v1/plane", {"source": source})
        assert close({name: answer[name] for name in wanted._fields}, wanted._asdict())
    assert "head 1: this model has heads 0 to 0" in refused(400, "POST", "/v1/plane", json={"source": "a", "head": 1})


def test_the_vector_of_a_sentence_is_that_of_the_model(post, refused, demo, model, served):
    text = "Tom chases Jerry ."
    answer = post("/v1/vector", {"source": text}, models=[demo])
    found = sentence_vector(demo.model.trained, text)
    assert answer == {"model": "demo", **found._asdict(), "source": list(found.source)}
    assert post("/v1/vector", {"source": text.split()}, models=[demo]) == answer
    assert "blank" in refused(400, "POST", "/v1/vector", json={"source": " "}, models=[demo])


def test_a_model_lists_the_glosses_of_the_words_of_the_embedded_corpus(ask, demo, served):
    ours, other = (ask("GET", "/v1/models", models=[each]).json()["models"][0]["glosses"] for each in (demo, served))
    assert {ours[word] for word in ("汤姆", "追逐", "杰瑞")} == {"Tom", "chase", "Jerry"}
    assert other == {}


def test_neighbors_that_cannot_be_prepared_are_400(refused, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch", None)
    served = ServedModel.load("backwards", model, ("en", "zh"), print)
    for _ in range(2):
        with suppress(UserError):
            served.state_index()
            served.index.result(timeout=60)
    answer = refused(400, "POST", "/v1/neighbors", json={"source": "a"}, models=[served])
    assert "needs usearch, which is not installed: pip install 'seq2seq_attn[" in answer


def test_health_and_metrics(ask, served):
    assert ask("GET", "/health").json() == {"status": "ok"}
    text = ask("GET", "/metrics").text
    assert "seq2seq_attn_requests_running 1.0" in text
    assert "seq2seq_attn_lines_waiting 0.0" in text


def test_docs_list_every_endpoint_and_its_fields_without_network(ask):
    page, described = ask("GET", "/docs"), ask("GET", "/openapi.json").json()
    for path, methods in described["paths"].items():
        assert f" {path}</h2>" in page.text
        for method in methods:
            schema = methods[method].get("requestBody", {}).get("content", {}).get("application/json", {})
            for field in schema.get("schema", {}).get("properties", ()):
                assert f"<td>{field}<td>" in page.text
    assert "<tr><td>beam_size<td>integer<td>null<td>Hypotheses per " in page.text
    assert {"/translate", "/v1/translate", "/v1/stream", "/v1/intervene", "/v1/neighbors", "/health"} <= described[
        "paths"
    ].keys()
    assert "$ref" not in json.dumps(described["paths"]["/v1/intervene"]["post"]["requestBody"])
    assert "<td>results[].translations[].text<td>string<td>always<td>" in page.text
    assert "<td>interventions[].replace<td>" in page.text
    assert "http" not in page.text
    assert "href=/docs.css" in page.text
    assert ask("GET", "/docs.css").headers["content-type"].startswith("text/css")
    assert "default-src 'none'" in page.headers["content-security-policy"]


def described_fields(schema):
    """Every field of a schema at any depth: (name, description)."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if isinstance(schema, dict):
        yield from (
            (name, field.get("description"))
            for name, field in schema.get("properties", {}).items()
            if "properties" in schema and isinstance(field, dict)
        )
        for each in schema.values():
            yield from described_fields(each)


def test_openapi_describes_every_field_of_bodies_and_answers_at_any_depth(ask):
    paths = ask("GET", "/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for about in methods.values():
            (kind,) = about["responses"]["200"]["content"]
            is_json = path not in ("/v1/stream", "/metrics")
            assert (kind == "application/json") == is_json
            assert "error" in str(about["responses"]["default"]["content"])
            found = list(described_fields(about))
            assert not [name for name, meaning in found if not meaning]
            assert is_json <= (len(found) > 1)


def test_openapi_has_the_scheme_of_keys_where_keys_are_needed(ask):
    described = ask("GET", "/openapi.json", settings=Settings(api_keys=frozenset({"secret"}))).json()
    schemes = described["components"]["securitySchemes"]
    assert {(each["type"], each.get("scheme"), each.get("in")) for each in schemes.values()} == {
        ("http", "bearer", None),
        ("apiKey", None, "query"),
    }
    for path, methods in described["paths"].items():
        for about in methods.values():
            names = [name for each in about.get("security", ()) for name in each]  # one of them is enough
            assert names == ([] if path in ("/health", "/languages", "/frontend/settings") else list(schemes))
    assert "securitySchemes" not in json.dumps(ask("GET", "/openapi.json").json())


def test_the_root_is_the_page_with_the_font_that_it_names(ask):
    answer = ask("GET", "/")
    assert "<attention-page>" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    for path in ("/assets/page.js", "/assets/index.css", "/fonts/NotoSansSC-Subset.ttf"):
        assert ask("GET", path).status_code == 200
    assert "/fonts/NotoSansSC-Subset.ttf" in ask("GET", "/assets/index.css").text
    assert ask("GET", "/health").json() == {"status": "ok"}


def test_a_page_of_an_allowed_origin_may_ask(ask):
    settings = Settings(cors=("https://x.org",))
    preflight = {"origin": "https://x.org", "access-control-request-method": "POST"}
    answer = ask("OPTIONS", "/translate", headers=preflight, settings=settings)
    assert answer.headers["access-control-allow-origin"] == "https://x.org"
    for origin, given in (("https://x.org", settings), ("https://y.org", settings), ("https://x.org", None)):
        allowed = ask("GET", "/health", headers={"origin": origin}, settings=given).headers
        assert ("access-control-allow-origin" in allowed) == (origin == "https://x.org" and given is settings)


def test_unknown_words_are_in_the_answers(post):
    (found,) = post("/v1/translate", {"source": "a x b"})["results"]
    assert (found["tokens"], found["unknown"]) == (["a", "x (<unk>)", "b", "</s>"], ["x"])
    assert post("/translate", {"q": "a\nx b y", "target": "zh"})["unknownWords"] == ["x", "y"]
    assert post("/translate", {"q": ["a", "x"], "target": "zh"})["unknownWords"] == [[], ["x"]]
    assert "unknownWords" not in post("/translate", {"q": "a b", "target": "zh"})
