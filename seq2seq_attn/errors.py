"""The exception for invalid input from the user."""


class UserError(Exception):
    """An error in the user's input: a file, a configuration or a command line.

    The message is one line with the place (file, line), the value, the rule and a remedy. The command line prints it
    and exits with code 2.
    """
