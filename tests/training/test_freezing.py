"""Frozen parts have no gradient, and that of all others is as if nothing were frozen, also in fused forms."""

import pytest
import torch
from test_loop import reversal_pairs, small_model

from seq2seq_attn.models.config import ModelConfig
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.freezing import freezing, frozen_parameters
from seq2seq_attn.training.loop import Loop

RECURRENT = ["encoder", "encoder.embedding", "decoder", "decoder.context.scorer", "head", "readout", "target_embedding"]


def transformer():
    torch.manual_seed(1)
    sizes = {"layers": 1, "heads": 2}
    values = {"kind": "transformer", "embedding_size": 12, "encoder": sizes, "decoder": sizes, "dropout": {}}
    return ModelConfig.model_validate(values | {"tie_embeddings": "target"}).build(11, 11, False).eval()


def gradients(model, parts, folder):
    from seq2seq_attn.ops import fuse

    pairs = reversal_pairs(6, 6)
    options = TrainingConfig(max_epochs=1, accelerator="cpu", clip_norm=None)
    with freezing(model, parts):
        loop = Loop(fuse(model), options, pairs, pairs, None, folder)
        loop.add_gradient([pairs[[0, 1, 2]], pairs[[3, 4]]])
        found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    return {name: gradient.clone() for name, gradient in found.items()}


@pytest.mark.parametrize(
    ("build", "parts"),
    [(small_model, part) for part in RECURRENT] + [(transformer, "encoder"), (transformer, "decoder")],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_what_is_trained_has_the_gradient_that_it_has_when_nothing_is_frozen(tmp_path, build, parts):
    whole, some = gradients(build(), [], tmp_path), gradients(build(), [parts], tmp_path)
    assert whole.keys() - some.keys() == {name for name in whole if name.startswith(f"{parts}.")}
    torch.testing.assert_close(some, {name: whole[name] for name in some}, rtol=1e-5, atol=1e-7)


def test_a_tied_table_is_frozen_and_counted_once():
    model = transformer()
    by_either_name = [frozen_parameters(model, [part]) for part in ("target_embedding", "head.projection.weight")]
    assert [[id(weight) for weight in each] for each in by_either_name] == [[id(model.head.projection.weight)]] * 2
    assert len(frozen_parameters(model, ["target_embedding", "head"])) == 2  # the table, and the bias


@pytest.mark.parametrize("build", [small_model, transformer], ids=["recurrent", "transformer"])
def test_embeddings_are_the_tables_of_both_sides(build):
    model = build()
    tables = model.embedding_tables()
    assert {*map(id, frozen_parameters(model, ["embeddings"]))} == {id(table.weight) for table in tables}
