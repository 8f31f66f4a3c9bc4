"""Clients of LibreTranslate: what each of them sends, and what it reads of the answer."""

import json
import urllib.error
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from libretranslatepy import LibreTranslateAPI

import seq2seq_attn as s2s
from seq2seq_attn.corpora.vocabulary import Vocabulary
from seq2seq_attn.runs import shipped_runs
from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.answers import Detected
from seq2seq_attn.serve.documents import Document
from seq2seq_attn.serve.libretranslate import detect
from seq2seq_attn.serve.tasks import ServedModel

JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def demo():
    """The attention model of the demo, from English to Chinese."""
    return ServedModel.load("attention", s2s.load(shipped_runs()["demo/attention"]), ("en", "zh"), print)


@pytest.fixture
def chinese(demo):
    """The translation of a sentence."""
    return lambda source: demo.model.translate([source]).sentences[0]


def test_libretranslatepy_translates_detects_and_lists_languages(live, model):
    with live() as address:
        client = LibreTranslateAPI(address)
        assert client.translate("a b c", "en", "zh") == model.translate(["a b c"]).sentences[0]
        assert client.detect("a b c")[0] == {"confidence": 100, "language": "en"}
        assert [each["code"] for each in client.languages()] == ["en", "zh"]
        assert client.languages()[0] == {"code": "en", "name": "en", "targets": ["zh"]}
        with pytest.raises(urllib.error.HTTPError) as error:
            client.translate("a", "en", "xx")
        assert "no model translates" in json.load(error.value)["error"]


def test_libretranslatepy_sends_its_key(live):
    with live(api_keys=frozenset({"secret"})) as address:
        client = LibreTranslateAPI(address, "secret")
        assert client.translate("a", "en", "zh") == "a"
        assert client.detect("a")[0]["language"] == "en"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            LibreTranslateAPI(address).translate("a", "en", "zh")


@pytest.mark.parametrize("source", ["en", "auto"])
def test_mastodon_translates_the_texts_of_a_post(ask, demo, chinese, source):
    """app/lib/translation_service/libre_translate.rb: a list of HTML, as JSON; it fails on anything but a Hash."""
    texts = [
        '<p>Tom chases Jerry .</p><p>Jerry chases Tom . <span translate="no">:cat:</span></p>',
        "",
        "Tom chases Jerry .",
    ]
    body = {"q": texts, "source": source, "target": "zh", "format": "html", "api_key": None}
    answer = ask("POST", "/translate", content=json.dumps(body), headers=JSON, models=[demo]).json()
    first, second, third = map(chinese, ("Tom chases Jerry .", "Jerry chases Tom .", "Tom chases Jerry ."))
    post = f'<p>{first}</p><p>{second} <span translate="no">:cat:</span></p>'
    assert answer["translatedText"] == [post, "", third]
    if source == "auto":
        assert [each["language"] for each in answer["detectedLanguage"]] == ["en"] * 3
    listed = ask("GET", "/languages", headers=JSON, models=[demo]).json()
    assert {each["code"]: each["targets"] for each in listed} == {"en": ["zh"], "zh": []}


def test_discourse_detects_the_language_of_a_post_and_translates_it(ask, demo, chinese):
    """discourse-translator, libre_translate.rb: forms, in which the key that is not set has no value."""
    post = "<p>Tom chases Jerry .</p>"

    def send(path, **fields):
        content = urlencode(fields) + "&api_key"
        answer = ask("POST", path, content=content, headers=FORM, models=[demo])
        assert answer.status_code == 200
        return answer.json()

    (found, *_) = send("/detect", q="Tom chases Jerry .")
    assert found["language"] == "en"
    codes = [each["code"] for each in ask("GET", "/languages", models=[demo]).json()]
    assert {"en", "zh"} <= set(codes)  # or it refuses to translate
    answer = send("/translate", q=post, source="en", target="zh", format="html")
    assert answer["translatedText"] == f"<p>{chinese('Tom chases Jerry .')}</p>"


def test_akkoma_translates_a_status_whose_language_it_does_not_know(ask, demo, chinese):
    """lib/pleroma/akkoma/translators/libre_translate.ex: HTML as JSON; it needs detectedLanguage.language."""
    body = {
        "q": "Tom chases Jerry .<br>Jerry chases Tom .",
        "source": "auto",
        "target": "zh",
        "format": "html",
        "api_key": "",
    }
    answer = ask("POST", "/translate", content=json.dumps(body), headers=JSON, models=[demo]).json()
    assert answer["translatedText"] == f"{chinese('Tom chases Jerry .')}<br>{chinese('Jerry chases Tom .')}"
    assert answer["detectedLanguage"]["language"] == "en"


def test_the_page_of_libretranslate_gets_its_settings_and_languages_and_translates(ask, demo, chinese):
    """static/js/app.js: a FormData, which a browser sends in parts."""
    settings = ask("GET", "/frontend/settings", models=[demo]).json()
    begin = settings["language"]
    assert (begin["source"]["code"], begin["target"]["code"]) == ("en", "zh")
    assert settings["supportedFilesFormat"] == []
    assert not any(settings[name] for name in ("suggestions", "filesTranslation", "apiKeys", "keyRequired"))
    listed = {each["code"]: each for each in ask("GET", "/languages", models=[demo]).json()}
    assert all(target in listed for each in listed.values() for target in each["targets"])
    fields = {"q": "Tom chases Jerry .\nJerry chases Tom .", "source": "auto", "target": "zh", "format": "text"}
    fields |= {"alternatives": "3", "api_key": "", "secret": ""}  # secret: of later versions, for the page alone
    answer = ask("POST", "/translate", files={name: (None, value) for name, value in fields.items()}, models=[demo])
    found = answer.json()
    assert len(found.pop("alternatives")) == 3
    assert found == {
        "translatedText": f"{chinese('Tom chases Jerry .')}\n{chinese('Jerry chases Tom .')}",
        "detectedLanguage": {"confidence": 100, "language": "en"},
    }
    with_keys = Settings(api_keys=frozenset({"secret"}))
    answer = ask("GET", "/frontend/settings", models=[demo], settings=with_keys).json()
    assert answer["apiKeys"]
    assert answer["keyRequired"]


@pytest.mark.parametrize("path", ["/suggest", "/translate_file", "/spec"])
def test_what_libretranslate_has_and_this_server_has_not_is_404(refused, path):
    refused(404, "GET" if path == "/spec" else "POST", path)


def test_the_source_language_is_detected_among_those_of_the_models(post, served, demo):
    letters = ServedModel.load("letters", served.model, ("xx", "zh"), print)
    both = [letters, demo]

    def translated(text):
        return post("/translate", {"q": text, "target": "zh"}, models=both)

    assert translated("a b c") == {
        "translatedText": "c b a",
        "detectedLanguage": {"confidence": 100, "language": "xx"},
    }
    assert translated("Tom chases Jerry .")["detectedLanguage"] == {"confidence": 100, "language": "en"}
    nothing = translated("\u0416")  # nothing of it is known: the first model, and no confidence
    assert nothing["detectedLanguage"] == {"confidence": 0, "language": "xx"}
    (found, *_) = post("/detect", {"q": "\u6c64\u59c6 \u8ffd\u9010 \u6770\u745e"}, models=[demo])
    assert found == {"confidence": 100, "language": "zh"}
    assert post("/detect", {"q": "\u0416"}, models=[demo]) == []


def test_a_language_is_detected_by_what_its_vocabulary_knows_and_then_by_its_number_of_tokens():
    def codec(pieces, *tokens):
        return SimpleNamespace(pieces=pieces, vocabulary=Vocabulary(tokens))

    words, letters = codec(str.split, "ab", "cde", "f"), codec(list, *"abcdef")
    found = detect([("en", words), ("de", codec(str.split, "ab"))], "ab cde fg")
    assert found == [Detected(71, "en"), Detected(29, "de")]  # 5 of 7 characters, and 2 of 7
    assert [each.language for each in detect([("xx", letters), ("en", words)], "ab\ncde")] == ["en", "xx"]
    assert detect([("xx", letters), ("xx", codec(list))], "ab") == [Detected(100, "xx")]
    assert detect([("en", words)], " \n") == []


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Tom <b>sees</b> Jerry", "[TOM] <b>[SEES]</b> [JERRY]"),
        ('<P CLASS=x\n>Tom<BR/>sees<img src="a>b"> </P>', '<P CLASS=x\n>[TOM]<BR/>[SEES]<img src="a>b"> </p>'),
        ("<p>Tom\n  sees</p>\n<p> . </p>", "<p>[TOM SEES]</p>\n<p> . </p>"),
        ("<pre>Tom\n  sees\n</pre>", "<pre>[TOM]\n  [SEES]\n</pre>"),
        ("<code>a &lt; b</code>Tom", "<code>a &lt; b</code>[TOM]"),
        ("<script>a < b && c</script>Tom", "<script>a < b && c</script>[TOM]"),
        ("<i translate=no>a<p>b<u translate>Tom</u>c</i>Tom", "<i translate=no>a<p>b<u translate>[TOM]</u>c</i>[TOM]"),
        ("Tom</b> sees<hr>", "[TOM]</b> [SEES]<hr>"),
        ("<!DOCTYPE html><!-- a -->&amp; Tom &lt;b&gt;", "<!DOCTYPE html><!-- a -->[&amp; TOM &lt;B&gt;]"),
        ("<title>Tom &lt;b&gt;</title>", "<title>[TOM &lt;B&gt;]</title>"),
        ("<textarea>&lt;/textarea&gt;&lt;img&gt;</textarea>", "<textarea>[&lt;/TEXTAREA&gt;&lt;IMG&gt;]</textarea>"),
        ("<svg><![CDATA[x]]></svg>", "<svg><![CDATA[x]]></svg>"),
        ("", ""),
    ],
)
def test_html_keeps_its_tags_and_what_is_not_to_be_translated(text, filled):
    document = Document.of(text, "html")
    assert document.filled(f"[{each.upper()}]" for each in document.sentences) == filled


def test_html_of_any_nesting_is_read_in_linear_time():
    depth = 10_000  # where a search among the open elements at each tag would take seconds
    document = Document.of("<b>" * depth + "Tom" + "</i>" * depth, "html")
    assert document.filled(["x"]) == "<b>" * depth + "x" + "</i>" * depth
