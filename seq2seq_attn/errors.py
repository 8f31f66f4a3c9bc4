"""The one exception that a user's mistake raises: its text is all that the user sees."""


class UserError(Exception):
    """A mistake in what the user gave: input file, configuration or command.

    The message is one line that names the place (file, line), the value, the rule and the way out. The command
    line prints it and exits with code 2; nothing else in the package catches it.
    """
