"""The page: its numbers equal those of the JSON files, it is self-contained, and text is escaped."""

import base64
import json
import re
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from html_tree import parse

from seq2seq_attn.report import html_page as html_page_module
from seq2seq_attn.report.conclusion import conclusion, evidence, summary
from seq2seq_attn.report.html_attention import ArmView, StepView, TranslationPath
from seq2seq_attn.report.html_page import html_page
from seq2seq_attn.report.table import markdown
from seq2seq_attn.report.write import read_contents


@pytest.fixture
def render_page(all_values, write):
    """A function that renders the page after a change of the values."""

    def render_page(change=lambda values: None):
        change(all_values)
        return html_page(read_contents(write(all_values)))

    return render_page


@pytest.fixture
def tree(render_page):
    return parse(render_page())


def cells(table):
    return [[cell.text for cell in row.all("th") + row.all("td")] for row in table.all("tr")]


def data(tree):
    return json.loads(tree.id("data").parts[0])


def packed(tree):
    return json.loads(zlib.decompress(base64.b64decode(tree.id("packed").parts[0])))


def views(tree):
    """The views of the only example."""
    (found,) = packed(tree)["examples"].values()
    return found


def test_every_table_is_that_of_markdown(tree, all_values, write):
    text = markdown(read_contents(write(all_values)).results)
    expected = [
        [[cell.strip() for cell in line[2:-2].split(" | ")] for line in table.splitlines() if "---" not in line]
        for table in re.findall(r"(?:^\| .*\n)+", text, re.MULTILINE)
    ]
    shown = [cells(table) for name in ("results", "breakdowns") for table in tree.id(name).all("table")]
    assert len(shown) == 6
    assert sorted(zip(*shown[0], strict=True)) == sorted(
        {each for table in expected[:3] for each in zip(*table, strict=True)}
    )
    assert shown[1:] == expected[3:]


def test_question_conclusion_and_reproduction_are_shown(tree, folder, all_values):
    assert tree.one("h1").text == "What is attention for?"
    words = [item.text for item in tree.id("conclusion").all("li")]
    results = read_contents(folder).results
    limited = tree.id("limits").text
    assert set(words) < set(conclusion(results))
    assert [each for each in conclusion(results) if each not in words] == [
        each for each in conclusion(results) if each in limited
    ]
    leads = [each.text for each in tree.one("header").all("p", "lead")]
    assert leads[0].startswith("3 models, called arms, were each trained 2 times and tested on the same 12 sentences;")
    assert leads[1:] == summary(results)
    assert len(leads) == 3
    assert not any("95 %" in each for each in leads)  # which students need not know; it follows in a paragraph
    assert tree.one("header").one("p", "evidence").text == evidence(results)
    reproduction = tree.id("reproduction").text
    for text in ("seq2seq-attn compare toy.yaml 'seeds=[1,2]'", "abc1234", "two cores", "Seeds 1, 2", "ar:10000"):
        assert text in reproduction
    changed = tree.id("reproduction").one("table", "changed")
    assert [row.text for row in changed.all("tr")][1:] == ["model.context.kind fixed mean attention"]
    assert [pre.text for pre in tree.id("reproduction").all("pre")][
        2
    ] == "seed: 1 model: context: kind: attention size: 5"


def test_the_score_chart_shows_the_results_with_the_best_arm_on_top(tree, all_values):
    drawn = tree.id("scores").one("figure")
    bleu = sorted((arm["scores"]["bleu"] for arm in all_values["results.json"]["arms"]), key=lambda bleu: -bleu["mean"])
    lines = points(drawn)
    assert [line[0][2] for line in lines] == [each["mean"] for each in bleu]
    scale = (lines[0][0][0] - lines[-1][0][0]) / (bleu[0]["mean"] - bleu[-1]["mean"])
    for line, interval, each in zip(lines, drawn.all("path", "interval"), bleu, strict=True):
        ends = [float(number) for number in re.findall(r"[MH]([\d.]+)", interval.attributes["d"])]
        limits = ("joint_low", "joint_high") if "joint_low" in each else ("low", "high")  # training runs, where known
        expected = [line[0][0] + scale * (each[limit] - each["mean"]) for limit in limits]
        assert ends == pytest.approx(expected, abs=0.05)
    assert [text.text for text in drawn.all("text")][-2:] == ["mean of states", "18.0 [17.0, 19.0]"]
    assert "95 % intervals over training runs and sentences" in drawn.one("p", "hint").text


def test_a_score_beside_its_arm_has_the_digits_of_its_metric(render_page):
    page = render_page(lambda values: values["results.json"]["metrics"][0].update(digits=3))
    drawn = parse(page).id("scores").one("figure")
    assert [text.text for text in drawn.all("text")][-1] == "18.000 [17.000, 19.000]"


def points(chart):
    """(x, y, value) of each point of each line that has any."""
    lines = []
    for group in chart.all("g", "series"):
        places = [(each.attributes["transform"], float(each.attributes["data-y"])) for each in group.all("g", "point")]
        if places:
            lines.append([(*map(float, re.findall(r"[\d.]+", place)), value) for place, value in places])
    return lines


def assert_drawn_to_scale(lines):
    """The vertical scale is linear and points upwards."""
    drawn = sorted((value, y) for line in lines for _, y, value in line)
    (least, bottom), (most, top) = drawn[0], drawn[-1]
    assert top < bottom
    for value, y in drawn:
        assert y == pytest.approx(bottom + (value - least) * (top - bottom) / (most - least), abs=0.02)


def test_the_score_by_length_draws_the_bands_of_each_arm_to_scale(tree):
    lines = points(tree.id("length").one("figure"))
    assert [[value for _, _, value in line] for line in lines] == [[47.5, 44.4], [40.0, 12.3], [38.0, 10.0]]
    assert_drawn_to_scale(lines)
    titles = [title.text for title in tree.id("length").all("title")]
    assert titles[1] == "注意力, 11+: BLEU 44.4, 95 % [43.4, 45.9], chrF 54.4; sentences: 5"
    assert [tick.text for tick in tree.id("length").all("text")][-4:-2] == ["1-10 (7)", "11+ (5)"]
    hollow = tree.id("length").all("g", "few")
    assert len(hollow) == 6, "no band has 30 sentences"
    assert "Hollow: fewer than 30 sentences." in tree.id("length").text
    assert not tree.id("breakdowns").all("g", "few")


def test_many_arms_are_rows_of_dots_with_intervals_and_no_lines(render_page):
    def change(values):
        results = values["results.json"]
        results["arms"] = [{**results["arms"][0], "name": f"arm {number}"} for number in range(14)]

        def band(sentences, value, low, high):
            return {"sentences": sentences, "scores": {"bleu": {"value": value, "low": low, "high": high}}}

        results["by_length"]["arms"] = {
            f"arm {number}": [band(29, 30.0 + number, 28.0, 45.0), band(30, 50.0 - number, 20.0, 60.0)]
            for number in range(14)
        }
        results |= {"comparisons": []}
        del results["where"]
        for name in ("curves.json", "attention.json", "examples.json", "sentences.json", "making.json"):
            del values[name]
        values |= {"curves.json": {}, "attention.json": []}

    page = parse(render_page(change))
    (drawn,) = page.one("div", "first").all("figure")  # the names of the arms are there once
    assert not drawn.all("path", "line")
    lines = points(drawn)
    assert len(lines) == 14
    assert len(drawn.all("path", "interval")) == 42
    assert [len({y for _, y, _ in line}) for line in lines] == [1] * 14, "an arm is one row"
    assert {line[0][2] for line in lines} == {20.04}, "the score on the whole test set"
    for place in (1, 2):  # each panel to the same scale
        column = sorted((value, x) for x, _, value in (line[place] for line in lines))
        steps = {round((b[1] - a[1]) / (b[0] - a[0]), 1) for a, b in pairwise(column)}
        assert len(steps) == 1
    assert [len(line) for line in lines] == [3] * 14
    assert len(drawn.all("g", "few")) == 14


def test_known_intervals_of_length_bands_are_shaded_and_in_the_tooltip(render_page):
    def change(values):
        short, long = values["results.json"]["by_length"]["arms"]["注意力"]
        short["scores"]["bleu"] |= {"low": 45.0, "high": 50.0}
        long["scores"]["bleu"] |= {"low": 40.0, "high": 46.25}

    length = parse(render_page(change)).id("length")
    band, *_ = length.all("path", "band")
    ((x0, y0, _), (x1, y1, _)) = points(length.one("figure"))[0]
    corners = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+)", band.attributes["d"])]
    assert [x for x, _ in corners] == [x0, x1, x1, x0]
    scale = (y1 - y0) / (44.4 - 47.5)
    assert [y for _, y in corners] == pytest.approx(
        [y0 + scale * (limit - 47.5) for limit in (50.0, 46.25, 40.0, 45.0)], abs=0.02
    )
    assert "BLEU 44.4, 95 % [40.0, 46.2]" in length.text
    assert not parse(render_page()).id("curves").all("path", "band")


def test_a_line_halfway_between_two_bands_says_where_sentences_are_longer_than_in_training(render_page):
    def change(values):
        for bands in values["results.json"]["by_length"]["arms"].values():
            bands[1]["longer_than_training"] = True

    assert not parse(render_page()).id("length").all("g", "divider")
    length = parse(render_page(change)).id("length")
    ((x0, _, _), (x1, _, _)) = points(length.one("figure"))[0]
    (divider,) = length.all("g", "divider")
    assert divider.one("path").attributes["d"].startswith(f"M{(x0 + x1) / 2}")
    assert divider.text == "longer than in training →"


def test_each_breakdown_has_a_chart_to_scale_with_intervals_and_a_table(tree, all_values):
    section = tree.id("breakdowns")
    drawn = section.all("figure")
    for figure, breakdown in zip(drawn, all_values["results.json"]["where"]["breakdowns"], strict=True):
        ranked = sorted(breakdown["arms"], key=["注意力", "distracted (C at every step)", "mean of states"].index)
        expected = [[each["scores"]["bleu"]["value"] for each in breakdown["arms"][arm] if each] for arm in ranked]
        lines = points(figure)
        assert [[value for _, _, value in line] for line in lines] == expected
        assert_drawn_to_scale(lines)
        assert len(figure.all("path", "band")) == len(expected)
        assert figure.one("figcaption").text == breakdown["name"].capitalize()
        assert breakdown["meaning"] in section.text
    assert [item.text for item in drawn[1].one("ul", "legend").all("li")] == ["注意力", "mean of states"]
    titles = [title.text for title in section.all("title")]
    assert "distracted (C at every step), 1-5: BLEU 10.5, 95 % [9.5, 12.0], chrF 20.2; sentences: 31 of 12 words" in (
        titles
    )
    assert any(title.startswith("注意力, most even (over 0.5 bits): BLEU 42.0") for title in titles)


def test_learning_curves_show_the_mean_over_seeds_and_each_seed(tree):
    bleu, loss = tree.id("curves").all("figure")
    assert [[value for _, _, value in line] for line in points(bleu)] == [[22.0], [5.0, 6.0]]
    assert [[value for _, _, value in line] for line in points(loss)] == [[4.0, 2.25], [4.0, 3.5]]
    assert_drawn_to_scale(points(loss))
    assert len(loss.all("path", "seed")) == 2
    assert [item.text for item in loss.one("ul", "legend").all("li")] == [
        "注意力", "distracted (C at every step)", "mean of states",
    ]  # fmt: skip


def test_an_arm_has_the_same_style_in_all_charts(tree):
    def style(element):
        return next(name for name in element.attributes["class"].split() if re.fullmatch(r"s\d", name))

    rows = tree.id("results").all("tbody")[0].all("tr") + tree.id("scores").all("g", "series")
    third = {style(row) for row in rows if "注意力" in row.text}
    assert data(tree)["styles"]["注意力"] == 2
    legends = {style(item.one("svg")) for item in tree.all("li") if item.text == "注意力"}
    assert third == legends == {"s2"}


def test_the_heat_map_shows_weights_between_words_and_outlines_gold_links(tree):
    """The columns of the pieces of "chases" are summed; 追逐 is one piece."""
    (table,) = tree.all("table", "heat")
    assert [cell.text for cell in table.one("thead").all("th")] == ["Tom", "chases", "</s>"]
    rows = table.one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == ["汤姆 Tom", "追逐 chase", "</s>"]
    assert [[float(cell.text) for cell in row.all("td")] for row in rows] == [
        [0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.0, 0.2, 0.8],
    ]  # fmt: skip
    for cell in table.one("tbody").all("td"):
        assert cell.attributes.get("style") == (None if cell.text == "0" else f"--w:{cell.text}")
    gold = [(column, row) for row, line in enumerate(rows) for column, cell in enumerate(line.all("td"))
            if "gold" in (cell.attributes.get("class") or "")]  # fmt: skip
    assert gold == [(0, 0), (1, 1)]
    assert "This arm does not attend to single positions of the source" in tree.id("attention").text


def test_rows_of_the_pieces_of_a_target_word_are_averaged():
    steps = [
        StepView("睡", -0.1, (0.2, 0.6, 0.2)),
        StepView("着", -0.2, (0.4, 0.0, 0.6)),
        StepView("</s>", -0.1, (0, 0, 1)),
    ]
    view = ArmView("a", ["as", "leep", "</s>"], [0, 0, 1], steps, [TranslationPath("", range(3), [0, 0, 1])], ())
    source, target, weights = view.between_words()
    assert (source, target) == (["asleep", "</s>"], ["睡着", "</s>"])
    assert weights == [[pytest.approx(0.6), pytest.approx(0.4)], [0, 1]]


def test_a_step_that_reads_nothing_keeps_its_row():
    steps = [StepView(token, -0.1, weights) for token, weights in (("a", (0.9, 0.1)), ("b", None), ("</s>", (0, 1)))]
    view = ArmView("monotonic", ["x", "</s>"], [0, 1], steps, [TranslationPath("", range(3), [0, 1, 2])], ())
    assert view.between_words() == (["x", "</s>"], ["a", "b", "</s>"], [[0.9, 0.1], [0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("reference", "glosses", "has_font"),
    [("汤姆 追逐", {"汤姆": "Tom", "追逐": "chase"}, True), ("汤姆 跳舞", {}, False), ("Tom chasse", {}, False)],
)
def test_the_words_and_the_font_of_the_embedded_corpus_are_for_its_text(render_page, reference, glosses, has_font):
    def change(values):
        values["examples.json"][0]["reference"] = reference

    page = render_page(change)
    assert data(parse(page))["glosses"] == glosses
    assert [each.text for each in parse(page).id("attention").all("ruby")] == [
        " ".join(each) for each in glosses.items()
    ]
    assert ("@font-face" in page) == has_font


def test_the_page_contains_the_corpus_and_states_if_only_a_part_is_included(render_page, corpus, all_values):
    assert "contain the attention on 1 sentences only" in parse(render_page()).id("attention").text
    tree = parse(render_page(lambda values: values.update({"corpus_attention.json": corpus})))
    assert "The page contains 3 of the 12 test sentences" in tree.id("attention").text
    held = packed(tree)
    assert held["lines"] == [2, 4, 7]
    assert held["gold"] == [[[0, 0], [2, 1]], None, None]
    assert held["arms"]["mean of states"]["translations"] == ["斯派克 看", "汤姆 看", "杰瑞"]
    assert held["arms"]["注意力"]["translations"] == [0, 0, 0], "the references"
    pieces, whole = held["segmentations"]
    assert pieces["source"] == corpus["segmentations"][0]["source"]
    assert pieces["sourceWords"][0] == [0, 1, 2, 2, 3]
    assert whole is None, "its tokens are the words"
    weights = [script.parts[0] for script in tree.all("script", "weights")]
    assert weights == [corpus["arms"][arm]["weights"] for arm in ("mean of states", "注意力")]
    corpus["sentences"] = 3
    tree = parse(render_page(lambda values: values.update({"corpus_attention.json": corpus})))
    assert "The page contains" not in tree.text


def test_the_script_gets_every_translation_with_its_scores_and_weights(tree, all_values):
    view = views(tree)[0]
    given = all_values["examples.json"][0]["readings"][0]
    paths = {path["name"]: [view["steps"][place][:4] for place in path["steps"]] for path in view["paths"]}
    assert list(paths) == ["the reference", "hypothesis 1", "hypothesis 2"]
    beam = given["beam"]
    for name, places in {"hypothesis 1": (0, 2, 4), "hypothesis 2": (0, 3, 5)}.items():
        steps = [beam[place] for place in places]
        assert paths[name] == [[s["token"], s["log_probability"], s["weights"], s["scores"]] for s in steps]
    assert [path["score"] for path in view["paths"]] == [None, -0.45, -2.625]
    assert data(tree)["best"] == "注意力"


def test_the_script_gets_the_tree_of_each_beam(tree):
    """Per step: its index, row, column, row of its parent, and rank; the reference has three steps."""
    attention, distracted = views(tree)
    assert sorted(attention["tree"]) == [
        [3, 1, 2, 1, 1], [4, 2, 2, 1, None], [5, 1, 3, 1, 1], [6, 2, 3, 1, 2], [7, 1, 4, 1, 1], [8, 2, 4, 2, 2],
    ]  # fmt: skip
    assert distracted["tree"] == [[3, 1, 2, 1, 1], [4, 1, 3, 1, 1]]


def test_the_share_of_a_source_token_is_its_weight_times_the_norm_of_its_value(tree):
    attention, distracted = views(tree)
    shares = [attention["steps"][place][4] for place in attention["paths"][0]["steps"]]
    # The norms are 1, 2, 2 and 4; so the first row is 0.7, 0.2, 0.2 and 0.4 of 1.5.
    assert shares == [[0.4667, 0.1333, 0.1333, 0.2667], [0.0, 0.4545, 0.3636, 0.1818], [0.0, 0.0, 0.1111, 0.8889]]
    assert {step[4] for step in distracted["steps"]} == {None}


def test_the_beam_is_a_tree_of_steps_with_probabilities(tree):
    beam, *_ = tree.all("div", "tree")
    nodes = {(node.text, node.attributes["style"]) for node in beam.all("span")}
    assert nodes == {
        ("<s>", "grid-area: 1/1"),
        ("汤姆 0.90", "grid-area: 1/2"),
        ("追逐 0.82", "grid-area: 1/3"),
        ("</s> 0.74 #1", "grid-area: 1/4"),
        ("看 0.05", "grid-area: 2/3"),
        ("</s> 0.67 #2", "grid-area: 2/4"),
        ("杰瑞 0.08", "grid-area: 2/2"),
    }
    translations = [item.text for item in tree.all("ol", "found")[0].all("li")]
    assert translations == ["汤姆 追逐 </s> score −0.450", "汤姆 看 </s> score −2.625"]


def test_each_comparison_shows_the_sentences_with_the_largest_gains_and_losses(tree):
    _, *details = tree.id("sentences").all("details")
    assert [each.one("summary").text for each in details] == [
        "mean of states against distracted (C at every step)",
        "注意力 against distracted (C at every step)",
    ]
    shown = [article.one("p", "eyebrow").text for article in details[1].all("article")]
    assert shown == ["Sentence 2 +80.5", "Sentence 5 +30.0", "Sentence 3 −20.0", "Sentence 8 +30.0"]
    first = details[1].all("article")[0].text
    assert first.startswith(
        "Sentence 2 +80.5 source 2 reference 2 注意力 90.5 注2 distracted (C at every step) 10.0 d2"
    )


def test_the_page_needs_no_network(render_page):
    text = render_page()
    for element in parse(text):
        for name, value in element.attributes.items():
            if name in {"src", "href", "action", "srcset", "poster", "data", "xlink:href"}:
                assert value.startswith("#") or value == "data:,", f"{element.name} {name}={value}"
    assert not re.search(r"url\((?!data:)|@import|https?:|//cdn|fetch\(|XMLHttp|import\(", text)
    assert "default-src 'none'" in text


def test_the_notices_of_the_packages_in_the_script_are_in_the_page(tree):
    assert "Google LLC" in tree.one("details", "notices").text  # Lit, which asks for it


FRONTEND = Path(html_page_module.__file__).parents[1] / "serve" / "frontend" / "src"
SOURCES = [FRONTEND / "report.ts", *sorted((FRONTEND / "report").glob("*.ts"))]
ODD = "</script><img src=x onerror=alert(1)> & \"quotes\" 'x' {{ 7*7 }} مرحبا \u2028 <!--"


def test_all_elements_that_the_script_selects_exist(render_page):
    text = render_page()
    script = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    ids = {element.attributes.get("id") for element in parse(text)}
    selected = set(re.findall(r'byId\("([\w-]+)"\)', script))
    assert "packed" in selected
    assert selected <= ids
    sections = {link.attributes["href"] for link in parse(text).one("nav").all("a")}
    assert {address.removeprefix("#") for address in sections} <= ids


def test_text_is_escaped(render_page):
    def change(values):
        for name, value in values.items():
            values[name] = json.loads(json.dumps(value).replace("mean of states", "<i>&amp;</i>"))
        values["making.json"]["question"] = values["making.json"]["command"] = ODD
        values["examples.json"][0]["source"] = values["examples.json"][0]["readings"][0]["source"][1] = ODD
        values["examples.json"][0]["readings"][0]["reference"][0]["token"] = ODD
        values["examples.json"][0]["readings"][0]["beam"][0]["token"] = ODD
        values["sentences.json"]["sentences"][0]["source"] = ODD

    tree = parse(render_page(change))
    odd = " ".join(ODD.split())
    assert tree.one("h1").text == odd
    assert not tree.all("img")
    assert len(tree.all("script")) == 3
    assert views(tree)[0]["source"][1] == ODD
    assert any(odd.replace(" ", "") in bdi.text.replace(" ", "") for bdi in tree.one("table", "heat").all("bdi"))
    assert "<i>&amp;</i>" in [text.text for text in tree.id("scores").all("text")]
    assert {place.attributes["dir"] for place in tree.all("p", "text")} == {"auto"}  # Arabic is written right to left


def test_the_page_of_older_results_states_what_is_missing(folder):
    tree = parse(html_page(read_contents(folder)))
    assert tree.one("h1").text == "toy"
    missing = [each.text for each in tree.all("p", "missing")]
    assert [text.partition(";")[0] for text in missing] == [
        "These results contain no scores and no beams",
        "These results contain no breakdowns",
        "These results contain no example sentences",
        "These results contain no configurations",
    ]
    first, *_ = tree.all("table", "heat")
    assert [[float(cell.text) for cell in row.all("td")] for row in first.one("tbody").all("tr")] == [
        [0.7, 0.2, 0.1], [0.05, 0.9, 0.05],
    ]  # fmt: skip
    assert not tree.all("div", "tree")
    assert [each[0]["steps"][0] for each in packed(tree)["examples"].values()] == [
        ["汤姆", None, [0.7, 0.2, 0.1], None, None], ["斯派克", None, [0.6, 0.4], None, None],
    ]  # fmt: skip


def test_an_experiment_with_one_arm_and_no_weights_or_curves_has_a_page(values, write):
    results = values["results.json"]
    results |= {"arms": results["arms"][:1], "comparisons": []}
    results["by_length"]["arms"] = {
        results["arms"][0]["name"]: results["by_length"]["arms"][results["arms"][0]["name"]]
    }
    tree = parse(html_page(read_contents(write(values | {"curves.json": {}, "attention.json": []}))))
    assert "No arm attends to individual source positions" in tree.id("attention").text
    assert "contain no learning curves" in tree.id("curves").text


def test_what_the_results_cannot_show_stands_at_the_top_and_equal_results_give_equal_pages(write, values):
    values["results.json"]["note"] = "Two epochs show little."
    page, again = (html_page(read_contents(write(values))) for _ in range(2))
    assert "Two epochs show little." in page.partition("</header>")[0]
    assert page.count("Two epochs show little.") == 1
    assert page == again
