"""The exception for mistakes of the user."""


class UserError(Exception):
    """A mistake in what the user gave: input file, configuration or command.

    The message is one line with the place (file, line), the value, the rule and a remedy. The command line prints it
    and exits with code 2; nothing else in the package catches it.
    """
