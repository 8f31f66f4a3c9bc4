"""The program `seq2seq-attn`, also as `python -m seq2seq_attn`."""

import sys


def main() -> None:
    """Run it. Ctrl-C ends it without a traceback even while it is imported, which takes a fifth of a second."""
    try:
        from seq2seq_attn.cli import main as program
    except KeyboardInterrupt:
        sys.exit(130)
    program()


if __name__ == "__main__":
    main()
