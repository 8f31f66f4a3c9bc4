"""Toy trainings in several processes, which import this file: so nothing here imports pytest."""

import multiprocessing
import os
import signal
import socket
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import torch
from torch import nn

from seq2seq_attn.corpora.encoded import EncodedLines
from seq2seq_attn.errors import UserError
from seq2seq_attn.evaluation.metrics import METRICS
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.transformer.config import TransformerConfig
from seq2seq_attn.training import loop
from seq2seq_attn.training.batches import EncodedPairs
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.guided_alignment import CorpusLinks
from seq2seq_attn.training.loop import Fitted, Validation, fit
from seq2seq_attn.training.processes import joined

FORKS = multiprocessing.get_context("forkserver")  # its server loads torch, once for all processes
FORKS.set_forkserver_preload(["torch.distributed", "seq2seq_attn.training.loop"])
END = 3


def in_processes(world, work, *arguments):
    """What `work` returns in each of the processes, which are its first argument, or the exception that ends it."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with ProcessPoolExecutor(world, FORKS) as pool:
        found = [pool.submit(_in_process, rank, world, port, work, *arguments) for rank in range(world)]
        return [each.exception() or each.result() for each in found]


def _in_process(rank, world, port, work, *arguments):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    with joined() as processes:
        return work(processes, *arguments)


def toy_pairs(size, unit="sentences", seed=0, count=49):
    """Sentences and their reversals: of the last batch of 8, the first of several processes has the only pair."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 6, (count,), generator=draw).tolist()
    sentences = [torch.randint(4, 11, (length,), generator=draw).tolist() for length in lengths]
    source, target = ([[*each[::step], END] for each in sentences] for step in (1, -1))
    words = [(range(length), range(length)) for length in lengths]
    links = CorpusLinks.between([{(0, length - 1)} for length in lengths], words)
    return EncodedPairs(EncodedLines.of(source), EncodedLines.of(target), size, unit, 5, links=links)


def recurrent(dropout):
    sizes = {"encoder": {"hidden_size": 10}, "decoder": {"hidden_size": 20}, "embedding_size": 12}
    without = {"embedding": dropout, "state": 0.0, "readout": 0.0}
    return RecurrentConfig.model_validate(sizes | {"tie_embeddings": "none", "dropout": without}).build(11, 11, False)


def transformer(dropout):
    layers = {"layers": 2, "heads": 2, "feed_forward_size": 12}
    sizes = {"encoder": layers, "decoder": layers, "embedding_size": 8, "context": {"heads": 2}}
    without = {"embedding": dropout, "state": 0.0}
    return TransformerConfig.model_validate(sizes | {"tie_embeddings": "none", "dropout": without}).build(11, 11, False)


FAMILIES = {"recurrent": recurrent, "transformer": transformer}


class TwoMasks(nn.Module):
    """In place of dropout, for R-Drop: one mask for the first half of the rows, another for the second."""

    def forward(self, x):
        if not self.training:
            return x
        size = torch.arange(x.shape[-1])
        masks = torch.stack([size % 3 > 0, size % 4 > 0])
        return x * masks[torch.arange(2).repeat_interleave(len(x) // 2)][:, None]


def settings(**changes):
    optimizer = {"learning_rate": 0.01, "schedule": "inverse_sqrt", "warmup_steps": 10}
    plain = {"label_smoothing": 0.0, "ema_decay": None, "patience": None, "accelerator": "cpu", "batch_size": 8}
    limits = {"max_steps": 100, "monitor": "loss", "loggers": []}
    return TrainingConfig.model_validate(plain | limits | {"optimizer": optimizer} | changes)


class Toy(NamedTuple):
    """The outcome of a training in one of its processes."""

    weights: dict
    fitted: Fitted
    said: list
    gradients: int  # that this process has computed, halves of batches included


def sum_of_weights(model):
    """A score."""
    return sum(weight.sum().item() for weight in model.parameters())


def train(processes, folder, family="recurrent", recipe=None, *, resume=False, dropout=0.0, fault=None):
    """A training in double, as one of its processes; `fault(rank, model, batch, loss)` may change each loss."""
    options, losses = settings(**recipe or {}), loop.training_loss
    gradients = []

    def changed_loss(model, batch, config):
        gradients.append(1)
        loss = losses(model, batch, config)
        return loss if fault is None else loss._replace(total=fault(processes.rank, model, batch, loss.total))

    loop.training_loss = changed_loss
    torch.manual_seed(1)
    model = FAMILIES[family](dropout).double()
    if options.r_drop:
        loop.refuse_r_drop_without_dropout = lambda *_: None  # it compares two passes over one half
        model.encoder.embedding.dropout = TwoMasks()
    said = []
    try:
        fitted = fit(
            model,
            options,
            toy_pairs(options.batch_size, options.batch_unit),
            toy_pairs(7, seed=9, count=16),
            Validation(METRICS["bleu"], sum_of_weights),
            folder,
            resume=resume,
            bar=None,
            say=said.append,
            processes=processes,
        )
    finally:
        loop.training_loss = losses
    weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
    return Toy(weights, fitted, said, len(gradients))


# Faults, and what may happen to one of several processes.


def no_memory_for_many_pairs(rank, model, batch, loss):
    """In the last process, a batch of three pairs is too many."""
    if rank == 1 and batch.pairs > 2:
        torch.empty(2**60)
    return loss


def no_number(rank, model, batch, loss):
    """In the last process, the loss of every batch in which the first pair is long."""
    return loss * torch.nan if rank == 1 and batch.target.lengths[0] == 6 else loss


def drift(rank, model, batch, loss):
    """One process changes a weight by itself."""
    if rank == 1:
        with torch.no_grad():
            model.head.projection.bias[0] += 1e-6
    return loss


def killed(rank, model, batch, loss):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return loss


def interrupted(processes, folder, recipe, step):
    """A training that ends before this step, with a checkpoint before every step."""
    loop.INTERVAL, loop.SHARE = 0.0, 1e9
    steps = loop.Loop.step

    def stop(self, batches):
        if self.state.step == step:
            raise UserError("interrupted")
        steps(self, batches)

    loop.Loop.step = stop
    try:
        train(processes, folder, recipe=recipe, dropout=0.3)
    except UserError as error:
        return str(error)


def resumed(processes, folder, recipe):
    return train(processes, folder, recipe=recipe, dropout=0.3, resume=True)


def ended(processes, folder, fault):
    """The class and message of the error that ends a training."""
    try:
        train(processes, folder, recipe={"max_steps": 7, "max_skipped_steps": 0}, fault=fault)
    except UserError as error:
        return type(error).__name__, str(error)


class WithLoss(nn.Module):
    """As docs/scale.md has it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        decoded, memory = self.model.teach(batch.source, batch.target)
        places, tokens = batch.target.placed
        read, of_source = self.model.reads(decoded, memory, places)
        return self.model.head.loss(read, tokens, of_source).total


def sharded(processes):
    """The losses of five steps, and the number of weights that this process holds."""
    torch.manual_seed(1)
    module = transformer(0.0)
    training = WithLoss(module)
    if processes.world > 1:
        from torch.distributed.device_mesh import init_device_mesh  # these take a second to import
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (processes.world,))
        for layer in module.encoder.network.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(training, mesh=mesh)
    optimizer = torch.optim.Adam(training.parameters(), lr=0.01)
    batch, losses = toy_pairs(8)[range(8)], []
    for _ in range(5):
        optimizer.zero_grad()
        loss = training(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, sum(getattr(each, "to_local", lambda each=each: each)().numel() for each in training.parameters())
