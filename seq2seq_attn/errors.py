"""The exception for invalid input from the user, and how its message shows a value."""

SHOWN = 60  # characters of a value in a message


class UserError(Exception):
    """An error in the user's input: a file, a configuration or a command line.

    The message is one line with the place (file, line), the value, the rule and a remedy. The command line prints it
    and exits with code 2.
    """


def shown(value: object) -> str:
    """The value as Python writes it, cut to `SHOWN` characters, for a message."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]}...{text[-1]}"
