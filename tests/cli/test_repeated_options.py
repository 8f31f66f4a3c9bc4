"""An option is given once, unless it takes several values."""

import pytest
from typer.main import get_command

from seq2seq_attn.cli.app import app


@pytest.mark.parametrize(
    "given",
    [
        ["evaluate", "--hypotheses", "h", "--references", "r", "--source", "s", "--source", "t"],
        ["evaluate", "--hypotheses", "h", "--references", "r", "--tokenize", "zh", "--tokenize=zh"],
        ["translate", "demo", "--beam-size", "2", "--beam-size", "3"],
        ["translate", "demo", "--sampling", "--no-sampling"],
        ["data", "split", "x", "--columns", "0", "1", "--columns", "1", "0"],
        ["data", "list", "--json", "--json"],
        ["align", "demo", "s", "t", "--gold", "a", "--gold", "b"],
        ["train", "x.yaml", "--output", "a", "--output", "b"],
    ],
)
def test_a_repeated_option_is_refused_by_its_name(refused, given):
    message = refused(*given)
    assert "given 2 times; give it once" in message
    assert given[-2] in message or given[-1] in message or given[-3] in message


def test_options_that_take_several_values_are_read_in_full(program, refused, trained, toy):
    answer = program("translate", trained, toy / "test.src", "--ensemble", trained, "--ensemble", trained)
    assert (answer.code, answer.out) == (0, program("translate", trained, toy / "test.src").out)
    assert "no such file" in refused("evaluate", "--hypotheses", "h", "--references", "r", "--references", "s")


@pytest.mark.parametrize(
    "given",
    [
        ["train", "{toy}/toy.yaml", "--output", "x", "seed=1", "training.max_epochs=2", "seed=2"],
        ["walk", "additive", "hidden_size=2", "hidden_size=3"],
    ],
)
def test_a_repeated_override_is_refused_by_its_key(refused, toy, given):
    assert "given more than once" in refused(*(each.format(toy=toy) for each in given))


def test_every_command_refuses_repeated_options():
    def commands(group):
        for command in group.commands.values():
            yield from commands(command) if hasattr(command, "commands") else [command]

    assert {type(command).__module__ for command in commands(get_command(app))} == {"seq2seq_attn.cli.command"}
