"""Sentences as students type them, with what the models of the demo read for each word that is not read as written."""

STUDENTS = {
    "Tom chases Jerry.": {"Jerry.": ["Jerry", "."]},
    "I love you": {"I": ["<unk>"], "love": ["<unk>"], "you": ["<unk>"]},
    "TOM CHASES JERRY": {"TOM": ["Tom"], "CHASES": ["chases"], "JERRY": ["Jerry"]},
    "Tom likes the mouse!": {"likes": ["<unk>"], "mouse!": ["mouse", "<unk>"]},
    "The cat is in the kichen .": {"The": ["the"], "kichen": ["<unk>"]},
}
