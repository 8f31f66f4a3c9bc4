"""The states of several sources are those of each, one source after the other."""

import pytest
import torch

from seq2seq_attn.corpora.multi_source import Sources
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.vocabulary import EOS
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.ops import fuse
from seq2seq_attn.strict import parse

SIZES = 11, 7
FIRST, SECOND = [[4, 5, 6, EOS], [7, EOS], [EOS]], [[4, EOS], [5, 6, 4, EOS], [6, 5, EOS]]
TARGETS = [[4, 5, EOS], [6, EOS], [4, 4, 4, EOS]]
RECURRENT = {"kind": "recurrent", "hidden_size": 5}
TRANSFORMER = {"kind": "transformer", "layers": 1, "heads": 2}


def sources(*texts):
    each = torch.tensor([list(map(len, row)) for row in zip(*texts, strict=True)])
    return Sources(*pad([[token for text in row for token in text] for row in zip(*texts, strict=True)]), each)


def model_of(*encoders, sizes=SIZES, **options):
    family = {"kind": "recurrent", "decoder": {"hidden_size": 8}} | options
    values = {"embedding_size": 10, "encoder": {"kind": "multi_source", "encoders": encoders}}
    return parse(ModelConfig, family | values).build(sizes, 12, joint=False).eval()


@pytest.mark.parametrize(
    "encoders", [(RECURRENT, RECURRENT), (RECURRENT, TRANSFORMER), (TRANSFORMER, TRANSFORMER), (RECURRENT,)]
)
def test_the_states_are_those_of_the_single_encoders_and_so_is_the_mask(encoders):
    if RECURRENT in encoders and TRANSFORMER in encoders:
        encoders = RECURRENT | {"bidirectional": False, "hidden_size": 10}, TRANSFORMER
    model = model_of(*encoders, sizes=(11, 11) if len(encoders) == 1 else SIZES)
    states, is_state = model.encoder_states(sources(FIRST, SECOND))
    assert is_state.sum(dim=1).tolist() == [6, 6, 4]
    for row, texts in enumerate(zip(FIRST, SECOND, strict=True)):
        own = [
            encoder(pad([text])).states[0]
            for encoder, text in zip(list(model.encoder.encoders) * 2, texts, strict=False)
        ]
        torch.testing.assert_close(states[row, is_state[row]], torch.cat(own))
        assert is_state[row].tolist() == sorted(is_state[row].tolist(), reverse=True)  # padding comes last


FAMILIES = {
    "recurrent": {},
    "local": {"context": {"window": "local_p"}},
    "fixed": {"context": {"kind": "fixed"}, "summary": "mean"},
    "transformer": {"kind": "transformer", "decoder": {"layers": 1, "heads": 2}, "context": {"heads": 2}},
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("is_fused", [False, True])
def test_steps_equal_teacher_forcing_and_padding_changes_nothing(family, is_fused):
    encoder = TRANSFORMER if family == "transformer" else RECURRENT
    model = model_of(encoder, encoder, **FAMILIES[family])
    model = fuse(model, constant=True) if is_fused else model
    with torch.inference_mode():
        logits = model(sources(FIRST, SECOND), pad(TARGETS))
        for row, target in enumerate(TARGETS):
            source = sources(FIRST[row : row + 1], SECOND[row : row + 1])
            alone = model(source, pad([target]))[0]
            torch.testing.assert_close(logits[row, : len(target)], alone, atol=1e-5, rtol=1e-4)
            memory = model.encode(source)
            state = model.start(memory)
            for token, expected in zip([model.start_token, *target], alone, strict=False):
                step = model.step(torch.tensor([token]), state, memory)
                state = step.state
                torch.testing.assert_close(step.logits[0], expected, atol=1e-5, rtol=1e-4)


def test_both_sources_matter_to_every_state_of_the_decoder():
    model = model_of(RECURRENT, RECURRENT)
    whole = model(sources(FIRST, SECOND), pad(TARGETS))
    for changed in (
        sources([[9, *row[1:]] if len(row) > 1 else row for row in FIRST], SECOND),
        sources(FIRST, [[6 if row[0] != 6 else 4, *row[1:]] for row in SECOND]),
    ):
        assert not torch.allclose(model(changed, pad(TARGETS))[0, 0], whole[0, 0])


@pytest.mark.parametrize(
    ("encoders", "sizes", "named"),
    [
        ((RECURRENT,) * 3, SIZES, "3 encoders for 2 sources"),
        ((RECURRENT,), SIZES, r"source\.shared"),
        ((RECURRENT, RECURRENT | {"hidden_size": 6}), SIZES, "10 and 12"),
        ((RECURRENT, RECURRENT | {"hidden_size": 10, "bidirectional": False}), SIZES, "2 and 1 directions"),
    ],
)
def test_encoders_that_do_not_fit_are_refused(encoders, sizes, named):
    with pytest.raises(UserError, match=named):
        model_of(*encoders, sizes=sizes)
