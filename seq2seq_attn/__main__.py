"""`python -m seq2seq_attn` is the program `seq2seq-attn`."""

from seq2seq_attn.cli import main

if __name__ == "__main__":
    main()
