"""A message of an error is one line, whatever it quotes."""

import pytest

from seq2seq_attn.errors import MAX_MESSAGE, FailedError, UserError, did_you_mean
from seq2seq_attn.strict import ConfigError


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n\n  ", "\u2028", "\x85", "\x0b", "\x0c", "\x1c"])
def test_a_message_has_no_line_ends(end):
    assert str(UserError(f"a.txt: cannot be read:{end}no  such file{end}")) == "a.txt: cannot be read: no  such file"


def test_a_message_gives_a_terminal_no_orders():
    assert str(ConfigError("a\x1b[2J\0b.txt\t: ä", ("a",))) == "a\\x1b[2J\\x00b.txt\t: ä"


def test_a_long_message_keeps_both_of_its_ends():
    said = str(FailedError("a" * 3000 + "b" * 3000))
    assert len(said) == MAX_MESSAGE
    assert (said[0], said[-1]) == ("a", "b")


def test_the_known_name_that_is_most_like_a_wrong_one_is_suggested_if_any_is_like_it():
    known = ["additive", "dot", "scaled_dot"]
    assert did_you_mean("aditive", known, "choose from ...") == "did you mean 'additive'?"
    assert did_you_mean("scaled-dot", known) == "did you mean 'scaled_dot'?"
    assert did_you_mean("quaternion", known, "choose from ...") == "choose from ..."


def test_of_a_long_name_the_beginning_is_compared():
    assert did_you_mean("additive" + "x" * 10_000_000, ["additive" + "x" * 192]).startswith("did you mean 'additivex")
