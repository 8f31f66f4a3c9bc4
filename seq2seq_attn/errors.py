"""The exceptions that the command line reports in one line."""


class UserError(Exception):
    """An error in the user's input: a file, a configuration or a command line.

    The message is one line with the place (file, line), the value, the rule and a remedy. The command line prints it
    and exits with `exit_code`.
    """

    exit_code = 2


class FailedError(UserError):
    """Correct input, but the work failed: the command line exits with code 1."""

    exit_code = 1
