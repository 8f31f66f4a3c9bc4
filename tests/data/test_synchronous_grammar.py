from random import Random

import pytest

from generator.clauses import ACTIVE, ASK_DID, FRONTED, GAVE, WAS_DONE
from generator.constituents import DOER, IN, NOMINAL, PERFECTIVE, counting
from generator.grammar import EMPTY, Draw, Phrase, Rule, shuffled, word

TOM, JERRY = word("Tom", "汤姆"), word("Jerry", "杰瑞")
CHASED = word("chased", "追逐")
YESTERDAY = word("yesterday", "昨天")
IN_THE_PARK = IN(word("in", "里"), word("park", "公园"))


def texts(phrase: Phrase) -> tuple[str, str]:
    return " ".join(phrase.source), " ".join(phrase.target)


def test_a_word_links_all_its_source_words_to_all_its_target_words() -> None:
    assert word("last week", "上周") == Phrase(("last", "week"), ("上周",), ((0, 0), (1, 0)))
    assert word("the", "") == Phrase(("the",), (), ())


def test_a_rule_shifts_the_links_of_its_parts_with_their_words() -> None:
    swap = Rule("ONE between TWO", "TWO 之间 的 ONE", "between-之间")
    phrase = swap(word("a b", "甲"), word("c", "丙 丁"))
    assert texts(phrase) == ("a b between c", "丙 丁 之间 的 甲")
    assert phrase.pharaoh == "0-4 1-4 2-2 3-0 3-1"


def test_a_rule_may_link_a_whole_part_to_a_word_of_its_own() -> None:
    assert PERFECTIVE(CHASED) == Phrase(("chased",), ("追逐", "了"), ((0, 0), (0, 1)))


@pytest.mark.parametrize(("source", "target"), [("ONE TWO", "TWO"), ("ONE x x", "ONE"), ("ONE", "TWO")])
def test_a_rule_that_repeats_a_symbol_or_loses_a_part_is_refused(source: str, target: str) -> None:
    with pytest.raises(ValueError, match="repeats a symbol or loses a part"):
        Rule(source, target)


def test_time_and_place_move_before_the_verb() -> None:
    phrase = ACTIVE(TOM, EMPTY, PERFECTIVE(CHASED), JERRY, EMPTY, IN_THE_PARK, YESTERDAY)
    assert texts(phrase) == ("Tom chased Jerry in the park yesterday", "汤姆 昨天 在 公园 里 追逐 了 杰瑞")
    assert phrase.pharaoh == "0-0 1-5 1-6 2-7 3-2 3-4 5-3 6-1"


def test_a_relative_clause_moves_before_its_noun_and_after_the_measure_word() -> None:
    cat = word("cat", "猫")
    phrase = counting("只")(word("a", "一"), word("big", "大"), cat, DOER(PERFECTIVE(CHASED), JERRY))
    assert texts(phrase) == ("a big cat that chased Jerry", "一 只 追逐 了 杰瑞 的 大 猫")
    assert phrase.pharaoh == "0-0 1-6 2-1 2-7 3-5 4-2 4-3 5-4"


def test_the_agent_of_a_passive_moves_before_the_verb() -> None:
    phrase = WAS_DONE(JERRY, word("was", "了"), CHASED, TOM, EMPTY, YESTERDAY)
    assert texts(phrase) == ("Jerry was chased by Tom yesterday", "杰瑞 昨天 被 汤姆 追逐 了")
    assert phrase.pharaoh == "0-0 1-5 2-4 3-2 4-3 5-1"


def test_a_question_with_did_has_its_verb_in_the_base_form_and_ends_in_ma() -> None:
    phrase = ASK_DID(TOM, word("chase", "追逐"), JERRY, IN_THE_PARK, EMPTY)
    assert texts(phrase) == ("did Tom chase Jerry in the park ?", "汤姆 在 公园 里 追逐 了 杰瑞 吗 ？")
    assert phrase.pharaoh == "0-5 1-0 2-4 3-6 4-1 4-3 6-2 7-7 7-8"


def test_the_object_of_a_ditransitive_verb_moves_before_it() -> None:
    book = NOMINAL(word("the", ""), EMPTY, word("book", "书"), EMPTY)
    phrase = FRONTED(YESTERDAY, GAVE(TOM, word("sold", "卖"), book, JERRY, EMPTY))
    assert texts(phrase) == ("yesterday Tom sold the book to Jerry", "昨天 汤姆 把 书 卖 给 了 杰瑞")
    assert phrase.pharaoh == "0-0 1-1 2-4 2-6 4-3 5-5 6-7"


class OnlyRandom(Random):
    """Has `random()`, whose sequence Python promises, and nothing that `choice` and `shuffle` are made of."""

    def getrandbits(self, k: int, /) -> int:
        raise AssertionError("not reproducible between versions of Python")


def test_words_are_dealt_without_replacement_until_the_table_is_used_up() -> None:
    draw, table = Draw(OnlyRandom(3)), ("a", "b", "c", "d")
    first, second = ([draw.deal(table) for _ in table] for _ in range(2))
    assert sorted(first) == sorted(second) == list(table)


def test_a_shuffle_gives_every_order_about_equally_often() -> None:
    random, counts = OnlyRandom(5), dict[str, int]()
    for _ in range(6000):
        order = "".join(shuffled(random, "abc"))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(850 < count < 1150 for count in counts.values())
