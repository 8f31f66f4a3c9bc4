"""The LightningModule: training step, validation, optimizer, and the checkpointed state for an exact resumption."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.lr_scheduler import ReduceLROnPlateau

from seq2seq_attn.errors import UserError
from seq2seq_attn.models.translator import Translator
from seq2seq_attn.ops.dispatch import is_synchronous
from seq2seq_attn.ops.host import free_memory, is_out_of_memory
from seq2seq_attn.ops.loss import paired_loss, vocabulary_loss
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig, make_optimizer, plateau, rate_per_step
from seq2seq_attn.training.guided_alignment import alignment_loss

Validate = Callable[[Translator], float]


class DivergenceError(UserError):
    """A loss or gradient that is not finite has ended training; `batch` is where, if one batch is to blame."""

    def __init__(self, message: str, batch: Batch | None = None) -> None:
        super().__init__(message)
        self.batch = batch


class _Step(NamedTuple):
    """A step whose outcome was not read yet, because reading synchronizes with an accelerator."""

    number: int  # from 1
    batch: Batch
    values: Tensor  # (2,): the mean loss of a token, and the norm of the gradient
    is_finite: Tensor  # (): both of them


class TranslationModule(lightning.LightningModule):
    """Trains a translator by teacher forcing; `validate` returns its BLEU on the validation set."""

    def __init__(self, translator: Translator, config: TrainingConfig, validate: Validate | None = None) -> None:
        super().__init__()
        self.translator = translator
        self.config = config
        self.validate = validate
        trained = [parameter for parameter in translator.parameters() if parameter.requires_grad]
        self.average = None if config.ema_decay is None else WeightAverage(trained, config.ema_decay)
        self.plateau: ReduceLROnPlateau | None = None
        self._plateau_state: dict[str, Any] | None = None
        self.tokens = 0  # target tokens trained on in this process, padding excluded
        self.epoch_tokens = 0  # those of this epoch
        self._epoch_negative = torch.zeros(())
        self._random_states: dict[str, Any] = {}  # of the checkpoint that was loaded
        self.skipped_steps = 0  # whose loss or gradient was not finite
        self.split_steps = 0  # whose batch was halved because memory ran out
        self._unread: list[_Step] = []
        self._graph: tuple[Tensor, Tensor, int] | None = None  # of the forward pass, as from `training_loss`

    def loss(self, batch: Batch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor, int]:
        """The loss to minimize and -log p, both summed over the batch's target tokens, and their number."""
        features, targets, weights = self._decode(batch)
        model = self.translator
        loss, negative = vocabulary_loss(model, model.project, model.output, features, targets, label_smoothing)
        return loss + self._guidance(weights, batch), negative, len(targets)

    def _decode(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Features (M, R) that predict the M target tokens, sentence by sentence without padding, and the tokens.

        The third result are the attention weights (B, T, S), if the loss depends on them.
        """
        inputs, memory = self.translator.decoder_inputs(batch.target), self.translator.encode(batch.source)
        if self.config.guided_alignment is None:
            features, weights = self.translator.features(inputs, memory), None
        else:
            features, weights = self.translator.decode(inputs, memory)
        is_token = batch.target.is_token
        return features[is_token], batch.target.tokens[is_token], weights

    def _guidance(self, weights: Tensor | None, batch: Batch) -> Tensor | float:
        """What the attention weights add to the loss of a batch that carries links, summed over its target tokens."""
        guided = self.config.guided_alignment
        if guided is None or batch.links is None or weights is None:
            return 0.0
        return guided.weight * alignment_loss(weights, batch.links)

    def training_loss(self, batch: Batch) -> tuple[Tensor, Tensor, int]:
        """As `loss`, with the options of the configuration."""
        if not self.config.r_drop:
            return self.loss(batch, self.config.label_smoothing)
        batch = batch.twice()  # one pass over twice the rows is faster than two passes
        features, targets, weights = self._decode(batch)
        model, count = self.translator, len(targets) // 2
        alpha, smoothing = self.config.r_drop, self.config.label_smoothing
        loss, negative = paired_loss(model, model.project, model.output, features, targets[:count], alpha, smoothing)
        return loss + self._guidance(weights, batch) / 2, negative, count

    @torch.no_grad()
    def _refuse_r_drop_without_dropout(self, batch: Batch) -> None:
        if torch.equal(self._decode(batch)[0], self._decode(batch)[0]):
            raise UserError(
                f"training.r_drop={self.config.r_drop} needs a model with dropout, but two passes over a batch gave "
                f"the same features; set model.dropout, for example model.dropout.readout=0.3, or training.r_drop=0"
            )

    def on_train_epoch_start(self) -> None:
        self.epoch_tokens = 0
        self._epoch_negative = torch.zeros((), device=self.device)

    def epoch_loss(self) -> float:
        """The mean of -log p over the target tokens of this epoch so far, without label smoothing."""
        return self._epoch_negative.item() / max(1, self.epoch_tokens)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The forward pass. Lightning gets a stand-in for the loss, whose graph `backward` can then let go of."""
        self._batch, self._graph = batch, None
        try:
            if self.config.r_drop and self.global_step == 0:
                self._refuse_r_drop_without_dropout(batch)
            self._graph = self.training_loss(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        if self._graph is not None:
            self._log(self._graph[1], self._graph[2])
        return torch.zeros((), device=self.device, requires_grad=True)

    def backward(self, loss: Tensor, *_: Any, **__: Any) -> None:
        """The gradient of the mean loss of a token. Where memory runs out, in two halves of the batch, once."""
        if (graph := self._graph) is not None:
            self._graph = None
            try:
                torch.autograd.backward(graph[0] / graph[2])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                self._add(*graph)
                return
            del graph
        self._backward_in_halves(self._batch)

    def _backward_in_halves(self, batch: Batch) -> None:
        """The same gradient: the losses of the halves are sums over tokens, divided by the tokens of the batch."""
        pairs, tokens = len(batch.source.lengths), int(batch.target.lengths.sum())
        sizes = " and ".join(str(side.tokens.shape[1]) for side in (batch.source, batch.target))
        about = f"memory ran out in a batch of {pairs} sentence pairs with up to {sizes} tokens"
        size = f"training.batch_size={self.config.batch_size}"
        if pairs == 1:
            raise UserError(f"{about}; lower data.max_length or data.max_training_length, or the sizes of the model")
        done: list[tuple[Tensor, Tensor, int]] = []
        for parameter in self.parameters():
            parameter.grad = None  # a part of it may have been computed
        free_memory()
        try:
            for half in batch.halves():
                with self.trainer.precision_plugin.train_step_context():
                    loss, negative, count = self.training_loss(half)
                torch.autograd.backward(loss / tokens)
                done.append((loss.detach(), negative.detach(), count))
                del loss
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(f"{about}, and in a half of it; lower {size}, and start again with --overwrite") from None
        self.split_steps += 1
        losses, negatives, counts = zip(*done, strict=True)
        self._add(sum(losses), sum(negatives), sum(counts))

    def _add(self, loss: Tensor, negative: Tensor, count: int) -> None:
        """Adds a batch to the sums of the epoch, on the device, without synchronization."""
        self._loss = loss.detach() / count
        self.tokens += count
        self.epoch_tokens += count
        so_far = self._epoch_negative.to(negative.device)  # elsewhere only when it was loaded
        self._epoch_negative = so_far + negative.detach().nan_to_num(0.0, 0.0, 0.0)

    def _log(self, negative: Tensor, count: int) -> None:
        # Reading the value synchronizes with an accelerator, where it is therefore read only every 50 steps.
        if self.global_step % 50 == 0 or (self.global_step % 10 == 0 and is_synchronous(negative)):
            self.log("train_loss", negative.item() / count, batch_size=1)

    def optimizer_step(self, *arguments: Any, **rest: Any) -> None:
        super().optimizer_step(*arguments, **rest)
        if self.average is not None:  # here, because the callbacks that follow may write a checkpoint
            self.average.update(self.global_step + 1)

    def _refuse_broken_weights(self, step: _Step | None = None) -> None:
        """DivergenceError if a weight is not finite, after the step with a bad loss or before weights are saved."""
        if not all(torch.isfinite(parameter).all() for parameter in self.parameters()):
            found = (
                f"the weights are not finite after step {self.global_step}"
                if step is None
                else f"the loss is {step.values[0].item()} at step {step.number}"
            )
            raise DivergenceError(
                f"training diverged: {found}, epoch {self.current_epoch + 1}; earlier checkpoints are kept; "
                f"{self._way_out()}"
            )

    def _way_out(self) -> str:
        clip = (
            f"lower training.clip_norm={self.config.clip_norm}" if self.config.clip_norm else "set training.clip_norm"
        )
        return f"lower training.optimizer.learning_rate={self.config.optimizer.learning_rate} or {clip}"

    def on_validation_start(self) -> None:
        if self.average is not None:
            self.average.swap()

    def on_validation_end(self) -> None:
        # Lightning calls the callbacks first, so `BestWeights` saves the averages.
        if self.average is not None:
            self.average.swap()

    def on_validation_epoch_start(self) -> None:
        self._refuse_broken_weights()
        self._negative, self._count = 0.0, 0

    def validation_step(self, batch: Batch, index: int) -> None:
        _, negative, count = self.loss(batch)
        self._negative += negative.item()
        self._count += count

    def on_validation_epoch_end(self) -> None:
        scores = {"validation_loss": self._negative / max(1, self._count)}
        if self.validate is not None:
            try:
                scores["validation_bleu"] = self.validate(self.translator)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                raise UserError(
                    "memory ran out while the validation set was translated; lower search.batch_size or "
                    "search.batch_tokens, and start again with --overwrite"
                ) from None
        self.log_dict(scores, batch_size=1)
        score = scores[f"validation_{self.config.monitor}"]
        if self.plateau is not None and self.config.is_informative(score):
            self.plateau.step(score)

    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        """Clips the gradients, and leaves the step out if the loss or a gradient is not finite."""
        # Lightning refuses to clip with fused optimizers, although only scaled fp16 gradients require that.
        gradients = [parameter.grad for parameter in self.parameters() if parameter.grad is not None]
        norm = get_total_norm(gradients)
        if self.config.clip_norm is not None:
            clip_grads_with_norm_(self.parameters(), self.config.clip_norm, norm)
        is_finite = torch.isfinite(norm) & torch.isfinite(self._loss)
        optimizer.found_inf = (~is_finite).float()  # a fused optimizer then changes nothing, on the device
        self._unread.append(_Step(self.global_step + 1, self._batch, torch.stack([self._loss, norm]), is_finite))
        if is_synchronous(norm) or len(self._unread) >= 50:
            self._count_skipped()

    def _count_skipped(self) -> None:
        """Reads which steps were left out. DivergenceError: there were too many, or the weights are not finite."""
        steps, self._unread = self._unread, []
        if not steps or bool(torch.stack([step.is_finite for step in steps]).all()):
            return
        skipped = [step for step in steps if not step.is_finite]
        self._refuse_broken_weights(skipped[0])
        self.skipped_steps += len(skipped)
        if self.skipped_steps > self.config.max_skipped_steps:
            last = skipped[-1]
            loss, norm = last.values.tolist()
            raise DivergenceError(
                f"the loss or its gradient was not finite in {self.skipped_steps} steps, more than "
                f"training.max_skipped_steps={self.config.max_skipped_steps}; in the last one, step {last.number}, "
                f"epoch {self.current_epoch + 1}, the loss was {loss} and the norm of the gradient {norm}; "
                f"earlier checkpoints are kept; {self._way_out()}",
                last.batch,
            )

    def configure_optimizers(self) -> Any:
        config = self.config.optimizer
        optimizer = make_optimizer([p for p in self.parameters() if p.requires_grad], config)
        if config.schedule != "plateau":
            steps = int(self.trainer.estimated_stepping_batches) if config.decays_to_zero else 0
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": rate_per_step(optimizer, config, steps), "interval": "step"},
            }
        # Lightning would step it only after writing the checkpoint of the epoch, and a resumed run would miss the step.
        self.plateau = plateau(optimizer, config, "max" if self.config.monitor == "bleu" else "min")
        if self._plateau_state is not None:
            self.plateau.load_state_dict(self._plateau_state)
        return optimizer

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._count_skipped()
        self._refuse_broken_weights()
        checkpoint["skipped_steps"], checkpoint["split_steps"] = self.skipped_steps, self.split_steps
        # A resumed run then has the dropout masks and learning rates of an uninterrupted one.
        checkpoint["random_state"] = torch.get_rng_state()
        checkpoint["python_random_state"] = random.getstate()
        kind, keys, *rest = np.random.get_state()
        checkpoint["numpy_random_state"] = (kind, np.asarray(keys).tolist(), *rest)  # for a user's own part
        if torch.cuda.is_available():
            checkpoint["cuda_random_state"] = torch.cuda.get_rng_state_all()
        checkpoint["plateau"] = self.plateau and self.plateau.state_dict()
        checkpoint["epoch_so_far"] = self.epoch_tokens, self._epoch_negative

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._random_states = {key: state for key, state in checkpoint.items() if key.endswith("random_state")}
        self.restore_random_states()
        self._plateau_state = checkpoint["plateau"]
        self.epoch_tokens, self._epoch_negative = checkpoint.get("epoch_so_far", (0, torch.zeros(())))

    def restore_random_states(self) -> None:
        """Sets the random states of the checkpoint that was loaded; those that an earlier version did not save stay."""
        states = self._random_states
        torch.set_rng_state(states["random_state"].cpu())
        if "python_random_state" in states:
            random.setstate(states["python_random_state"])
            np.random.set_state(states["numpy_random_state"])
        if torch.cuda.is_available() and "cuda_random_state" in states:
            visible = states["cuda_random_state"][: torch.cuda.device_count()]  # a run may go on with fewer devices
            torch.cuda.set_rng_state_all([state.cpu() for state in visible])


class WeightAverage(nn.Module):
    """An exponential moving average of the weights of all steps (Polyak & Juditsky 1992 average them equally).

    a_t = d_t a_{t-1} + (1 - d_t) w_t after step t, with d_t = min(decay, (1 + t) / (10 + t)): early averages forget the
    initial weights sooner (the warm-up of TensorFlow's `ExponentialMovingAverage`). The average is over about the last
    1 / (1 - decay) steps; Marian's option `--exponential-smoothing` is the same with another warm-up.

    The weights that are trained never depend on the average. It is a buffer per weight, so checkpoints contain it.
    """

    def __init__(self, weights: list[nn.Parameter], decay: float) -> None:
        super().__init__()
        self.weights: list[Tensor] = [*weights]  # in a list, and therefore not parameters of this module
        self.decay = decay
        for index, weight in enumerate(weights):
            self.register_buffer(str(index), weight.detach().clone())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After step t = `step`, counted from 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.buffers()), self.weights, 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and averages, in place: what refers to a weight's memory remains valid."""
        for average, weight in zip(self.buffers(), self.weights, strict=True):
            trained = weight.clone()
            weight.copy_(average)
            average.copy_(trained)
