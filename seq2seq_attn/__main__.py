"""The program `seq2seq-attn`, also as `python -m seq2seq_attn`."""

import sys


def main() -> None:
    """Run it. Ctrl-C ends it without a traceback even while it is imported, which takes a fifth of a second.

    The command line needs typer. Where torch alone is installed, `check` works without it, for those who write scorers.
    """
    try:
        from seq2seq_attn.cli import main as program
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        from seq2seq_attn import torch_alone

        torch_alone.main(sys.argv[1:], error)
    program()


if __name__ == "__main__":
    main()
