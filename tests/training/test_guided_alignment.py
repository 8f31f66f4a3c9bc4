"""Guided alignment: links between words as links between tokens, and the cross-entropy of the attention weights."""

import numpy as np
import pytest
import torch
from plain_recipe import NO_DROPOUT, constant

from seq2seq_attn import ops
from seq2seq_attn.config import Config
from seq2seq_attn.corpora.corpus import ParallelCorpus
from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.corpora.learning import train_codecs
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.corpora.text_config import TextConfig
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.runs.corpora import linked_tokens
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import parse
from seq2seq_attn.training.batches import Batch, EncodedPairs
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.guided_alignment import CorpusLinks, alignment_loss
from seq2seq_attn.training.loss import training_loss

DECODERS = {
    "bahdanau": {"kind": "bahdanau"},
    "luong": {"kind": "luong"},
    "luong, no input feeding": {"kind": "luong", "input_feeding": False},
    "conditional": {"kind": "conditional"},
    "hard": {"kind": "hard"},
}
# Links of three pairs between words, and the word of each source and each target token.
LINKS = [{(0, 0), (1, 0), (1, 1)}, set(), {(0, 2), (1, 1), (2, 0)}]
WORDS = [([0, 0, 1], [0, 1, 1, 2]), ([0], [0, 1]), ([0, 1, 2], [0, 1, 2])]
CORPUS = CorpusLinks.between(LINKS, WORDS)
SOURCE, TARGET = [[4, 5, 6, 3], [7, 3], [8, 9, 4, 3]], [[4, 5, 6, 5, 3], [6, 5, 3], [4, 6, 7, 3]]
BATCH = Batch(pad(SOURCE), pad(TARGET), CORPUS.of(np.arange(3)))


def model_and_options(decoder="bahdanau", weight=2.0, dropout=0.0, scorer="additive", **training):
    torch.manual_seed(4)
    config = {
        "embedding_size": 6,
        "encoder": {"hidden_size": 5},
        "decoder": {"hidden_size": 8, **DECODERS[decoder]},
        "tie_embeddings": "none",
        "dropout": NO_DROPOUT | {"readout": dropout},
        "context": {"scorer": scorer},
    }
    guided = None if weight is None else {"weight": weight, "links": "links"}
    model = RecurrentConfig.model_validate(config).build(11, 9, False)
    plain = constant(0.001)
    return model, TrainingConfig.model_validate(plain | {"guided_alignment": guided} | training)


def dense(rows):
    """A_ij (pairs, target tokens, source tokens): 1 / n_i where the words of i and j are linked."""
    linked = np.zeros((len(rows), 5, 4))
    for b, row in enumerate(rows):
        source, target = WORDS[row]
        for i, j in np.ndindex(len(target), len(source)):
            linked[b, i, j] = (source[j], target[i]) in LINKS[row]
    return linked / np.maximum(linked.sum(axis=2, keepdims=True), 1)


def cross_entropy(weights, rows):
    weights = weights.detach().double().numpy()
    linked = dense(rows)[:, : weights.shape[1], : weights.shape[2]]
    return -(linked * np.log(np.where(linked > 0, weights, 1))).sum()


def test_the_tokens_of_linked_words_are_linked():
    """The words of pair 0 have 2, 1 source tokens and 1, 2, 1 target tokens."""
    _, target, source, share = CORPUS.of(np.array([0]))
    assert list(zip(target.tolist(), source.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)]
    torch.testing.assert_close(share, torch.tensor([1 / 3, 1 / 3, 1 / 3, 1, 1]))


def test_a_batch_carries_the_links_of_its_pairs_without_those_left_out():
    text = EncodedLines.of(SOURCE), EncodedLines.of(TARGET)
    pairs = EncodedPairs(*text, 2, links=CORPUS)
    links = pairs[[2, 1]].links
    assert [part.tolist() for part in links] == [[0, 0, 0], [0, 1, 2], [2, 1, 0], [1, 1, 1]]
    assert pairs[[1]].links.row.tolist() == []


def test_the_loss_is_the_cross_entropy_between_links_and_weights():
    torch.manual_seed(2)
    weights = torch.randn(3, 5, 4).softmax(dim=-1)
    assert alignment_loss(weights, BATCH.links).item() == pytest.approx(cross_entropy(weights, range(3)), rel=1e-5)
    one_word = torch.tensor([[[0.25, 0.75]]])
    links = CorpusLinks.between([{(1, 0)}], [([0, 1], [0])]).of(np.array([0]))
    assert alignment_loss(one_word, links).item() == pytest.approx(np.log(4 / 3))


def test_a_linked_token_without_weight_has_a_finite_loss_and_no_gradient():
    weights = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    loss = alignment_loss(weights, CorpusLinks.between([{(1, 0)}], [([0, 1], [0])]).of(np.array([0])))
    (gradient,) = torch.autograd.grad(loss, weights)
    assert loss.isfinite()
    assert gradient.tolist() == [[[0, 0]]]


@pytest.mark.parametrize("decoder", DECODERS)
def test_training_adds_it_to_the_loss_of_the_target_with_any_decoder(decoder):
    model, options = model_and_options(decoder)
    plain, plain_options = model_and_options(decoder, weight=None)
    weights = model.decode(model.decoder_inputs(BATCH.target), model.encode(BATCH.source)).weights
    loss, negative, count = training_loss(model, BATCH, options)
    without, same_negative, _ = training_loss(plain, BATCH, plain_options)
    assert (loss - without).item() == pytest.approx(2 * cross_entropy(weights, range(3)), rel=1e-4)
    assert (negative.item(), count) == (pytest.approx(same_negative.item()), 12)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("scorer", ["additive", "general"])
def test_fused_forms_have_the_gradient_of_the_reference_implementation(decoder, scorer):
    gradients = []
    for is_fused in (True, False):
        model, options = model_and_options(decoder, scorer=scorer)
        training_loss(ops.fuse(model) if is_fused else model, BATCH, options).total.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(
            gradient, gradients[1][name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_with_r_drop_it_is_the_mean_over_both_passes():
    losses = []
    for weight in (3.0, None):
        model, options = model_and_options(weight=weight, dropout=0.4, r_drop=1.0)
        torch.manual_seed(1)
        losses.append(training_loss(model, BATCH, options).total.item())
    torch.manual_seed(1)
    doubled = BATCH.twice()  # dropout of the readout has no effect on the weights
    weights = model.decode(model.decoder_inputs(doubled.target), model.encode(doubled.source)).weights
    assert losses[0] - losses[1] == pytest.approx(3 * cross_entropy(weights, [0, 1, 2, 0, 1, 2]) / 2, rel=1e-4)


def test_the_weights_learn_the_links():
    model, options = model_and_options(weight=10.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(80):
        optimizer.zero_grad()
        training_loss(model, BATCH, options).total.backward()
        optimizer.step()
    weights = model.decode(model.decoder_inputs(BATCH.target), model.encode(BATCH.source)).weights.detach().numpy()
    linked = dense(range(3))
    np.testing.assert_allclose(weights[linked.sum(axis=2) > 0], linked[linked.sum(axis=2) > 0], atol=0.1)


def test_links_reach_subwords_through_the_words_of_a_line(tmp_path):
    pairs = ParallelCorpus(["abc de", "de abc"], ["x yz", "yz x"])
    codecs = train_codecs(pairs, TextConfig(tokenizer="character"))
    for name, lines in (("s", pairs.source), ("t", pairs.target), ("links", ["0-1", "1-1 0-0"])):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    files = parse(Config, {"data": {side: {"source": tmp_path / "s", "target": tmp_path / "t"} for side in
                                    ("train", "validation")}}).data.train  # fmt: skip
    _, target, source, _ = linked_tokens(tmp_path / "links", files, codecs).of(np.array([0]))
    assert codecs[0].word_indices("abc de")[:3] == [0, 0, 0]
    yz = [i for i, word in enumerate(codecs[1].word_indices("x yz")) if word == 1]
    abc = [j for j, word in enumerate(codecs[0].word_indices("abc de")) if word == 0]
    assert list(zip(target.tolist(), source.tolist(), strict=True)) == [(i, j) for i in yz for j in abc]


def guided(grid, links, run=2, **changes):
    values = grid.runs[run].config.model_dump(mode="json")
    values["training"] |= {"guided_alignment": {"weight": 3.0, "links": str(links)}, "max_epochs": 3}
    return parse(Config, values | changes)


def test_a_run_learns_the_alignment_from_a_file(grid, toy_corpus, tmp_path):
    config = guided(grid, toy_corpus / "train.align.gz")
    distances = []
    for options in (config, guided(grid, toy_corpus / "train.align.gz", training=grid.runs[2].config.training)):
        model = train(options, tmp_path / str(len(distances)))
        assert model.config.training.guided_alignment == options.training.guided_alignment
        (forced,) = model.force(["a b c d"], ["d c b a"])
        distances.append((forced.weights[:4, :4].flip(1).diagonal()).sum().item())
    assert distances[0] > distances[1] + 0.1


def test_what_cannot_be_guided_is_refused_with_the_way_out(grid, toy_corpus, tmp_path):
    with pytest.raises(UserError, match=r"has no attention weights to train.*model\.context\.kind=attention"):
        train(guided(grid, toy_corpus / "train.align.gz", run=0), tmp_path / "fixed")
    with pytest.raises(UserError, match=r"test\.align: \d+ lines for 40 sentence pairs"):
        train(guided(grid, toy_corpus / "test.align"), tmp_path / "short")
    assert not (tmp_path / "fixed").exists()
    with pytest.raises(UserError, match=r"text\.sampling draws another one in every epoch; leave out one of the two"):
        guided(grid, "links", text={"tokenizer": "bpe", "vocabulary_size": 20, "sampling": {"alpha": 0.1}})
