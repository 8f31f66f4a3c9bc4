"""An option is declared in a record, from which functions, commands and requests are made."""

import inspect
from typing import Literal

import pytest
import typer
from pydantic import Field, PositiveInt
from typer.main import get_command

import seq2seq_attn as s2s
from seq2seq_attn.cli.app import app
from seq2seq_attn.cli.command import App
from seq2seq_attn.options import AlignOptions, SearchOptions, SearchRequest, takes
from seq2seq_attn.serve import Settings
from seq2seq_attn.serve.requests import AlignBody, TranslateBody
from seq2seq_attn.strict import Strict, parse


class Cooking(Strict):
    eggs: PositiveInt = Field(default=2, le=12, description="How many eggs.")
    salt: float = Field(default=0.5, ge=0.0, description="In grams.")
    style: Literal["fried", "boiled"] = Field(default="fried", description="How they are cooked.")
    covered: bool = Field(default=False, description="With a lid.")
    sides: tuple[int, ...] = Field(default=(), description="Repeatable.")


@pytest.fixture
def cook(capsys):
    """Runs a command that takes `Cooking`, and returns its exit code, what it was called with, and its help."""
    program, called = App(rich_markup_mode=None, pretty_exceptions_enable=False), {}

    @program.command()
    @takes(Cooking)
    def cook(pan: str, *, quiet: bool = False, **options) -> None:
        called.update(options, pan=pan, quiet=quiet)

    def run(*arguments):
        called.clear()
        try:
            code = get_command(program)(arguments, standalone_mode=False)
        except typer.BadParameter.__mro__[1] as error:
            code = error.format_message()
        return code or 0, dict(called), " ".join(capsys.readouterr().out.split())

    return run


def test_every_field_is_an_option_with_its_type_default_limits_and_help(cook):
    assert cook("small") == (
        0,
        {"pan": "small", "quiet": False, "eggs": 2, "salt": 0.5, "style": "fried", "covered": False, "sides": []},
        "",
    )
    given = ("--eggs", "3", "--salt", "0", "--style", "boiled", "--covered", "--sides", "1", "--sides", "2", "--quiet")
    _, called, _ = cook("small", *given)
    assert called == {
        "pan": "small", "quiet": True, "eggs": 3, "salt": 0.0, "style": "boiled", "covered": True, "sides": [1, 2]
    }  # fmt: skip
    help = cook("--help")[2]
    assert "How many eggs. [default: 2; 1<=x<=12]" in help
    assert "--style <fried|boiled>" in help
    assert help.index("--eggs") < help.index("--quiet")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (("--eggs", "0"), "greater than or equal to 1"),
        (("--eggs", "13"), "less than or equal to 12"),
        (("--salt", "-1"), "greater than or equal to 0"),
        (("--style", "raw"), "fried"),
        (("--egs", "1"), "--eggs"),
        (("--eggs", "1", "--eggs", "2"), "given 2 times"),
    ],
)
def test_what_a_field_does_not_allow_is_refused(cook, given, wanted):
    message, called, _ = cook("small", *given)
    assert wanted in message
    assert not called


def test_a_request_has_the_options_that_it_gives():
    body = parse(TranslateBody, {"source": "a", "beam_size": None, "top_k": 3, "seed": None})
    assert body.options(Settings(), SearchOptions()) == {"top_k": 3}


@pytest.mark.parametrize(
    ("record", "function", "command", "request_record"),
    [
        (SearchOptions, s2s.Model.translate, "translate", TranslateBody),
        (AlignOptions, s2s.Model.align, "align", AlignBody),
    ],
)
def test_functions_commands_and_requests_have_the_options_of_the_record(record, function, command, request_record):
    options = {each.name: each for each in get_command(app).commands[command].params}
    for name, field in record.model_fields.items():
        assert name in inspect.signature(function).parameters
        assert options[name].help == field.description
        if name in SearchRequest.model_fields or record is AlignOptions:
            assert request_record.model_fields[name].description == field.description
    for part in (SearchRequest, AlignOptions):
        if issubclass(request_record, part):
            assert not [name for name, field in part.model_fields.items() if not field.description]
