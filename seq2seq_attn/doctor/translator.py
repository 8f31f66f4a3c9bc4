"""The law of the translator: it uses what the part computes. It needs the whole package, the other laws torch alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_attn.attention import Context
from seq2seq_attn.doctor.subject import Finding, Subject, is_close, max_error, note, ok, wrong
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.models.recurrent.translator import RecurrentTranslator
from seq2seq_attn.models.translator import Sentences
from seq2seq_attn.options import SearchOptions
from seq2seq_attn.search.beam import beam_search
from seq2seq_attn.text.vocabulary import EOS

_DECODERS: dict[str, dict[str, Any]] = {
    "bahdanau": {},
    "luong": {"input_feeding": False},  # so that it attends for all steps in one call
    "conditional": {},
}
_SOURCE_WORDS, _TARGET_WORDS, _STEPS = 17, 13, 4
_SEARCH = SearchOptions(beam_size=3, min_length=3, max_length=4)


def in_translators(subject: Subject) -> Finding:
    """A translator uses what the part computes, with each of the three decoders.

    `decode` and single steps give the same logits, weights and gradients. A parameter of the part that has a gradient
    outside a translator has one inside. The log-probability of a hypothesis in beam search equals that from `decode`.
    Changing the parameters or the results of the part changes `decode`, `step` and beam search.
    """
    context = subject.context()
    if context.value_size not in (0, subject.key_size):
        return note(f"not checked: a translator needs value_size {subject.key_size}, and this is {context.value_size}")
    for kind in _DECODERS:
        defect = _defect(subject, kind)
        if defect:
            return wrong(f"{kind} decoder: {defect}")
    return ok(f"all steps in one call, single steps and beam search agree, with {', '.join(_DECODERS)} decoders")


def _defect(subject: Subject, kind: str) -> str | None:
    part = subject.fresh(seed=0)
    model = _translator(subject, kind, subject.context(part)).double()
    tokens, source = _batch()
    inputs = model.decoder_inputs(Sentences(tokens, torch.full((len(tokens),), _STEPS)))
    decoded = model.decode(inputs, model.encode(source))
    logits = model.project(decoded.features)
    step_logits, step_weights = _step_by_step(model, inputs, source)
    for what, at_once, by_steps in (
        ("logits", logits, step_logits),
        ("weights", decoded.weights, step_weights),
    ):
        error = max_error(at_once, by_steps)
        if not is_close(error):
            return f"{what} of all steps in one call differ by {error:.2g} from those of single steps"
    defect = _gradient_defect(subject, part, logits, step_logits)
    return defect or _beam_defect(model.float(), source) or _ignored_change(subject, model)


def _gradient_defect(subject: Subject, part: nn.Module, logits: Tensor, step_logits: Tensor) -> str | None:
    """What is wrong with the gradients of a translator's logits by the part's parameters."""
    parameters = {name: each for name, each in part.named_parameters() if each.requires_grad}
    if not parameters:
        return None
    at_once, by_steps = (_gradients(each, parameters) for each in (logits, step_logits))
    outside = subject.context(subject.fresh(seed=0)).double()
    query, keys = (tensor.double() for tensor in subject.sample())
    alone = _gradients(
        outside(query, outside.prepare(keys))[0], dict(zip(parameters, _own(subject, outside), strict=True))
    )
    for name in parameters:
        if alone[name].norm() > 1e-8 and at_once[name].norm() == 0:
            return f"no gradient reaches {name}, which has one outside a translator"
        error = max_error(at_once[name], by_steps[name])
        if not is_close(error):
            return f"the gradient of {name} through all steps in one call differs by {error:.2g} from single steps"
    return None


def _own(subject: Subject, context: Any) -> list[nn.Parameter]:
    part = context if subject.kind == "context" else getattr(context, subject.kind)
    return [each for each in part.parameters() if each.requires_grad]


def _gradients(results: Tensor, parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    direction = torch.randn(results.shape, generator=torch.Generator().manual_seed(6), dtype=results.dtype)
    found: Any = [None] * len(parameters)
    if results.requires_grad:
        found = torch.autograd.grad(
            (results * direction).sum(), list(parameters.values()), retain_graph=True, allow_unused=True
        )
    return {
        name: torch.zeros_like(parameter) if each is None else each
        for (name, parameter), each in zip(parameters.items(), found, strict=True)
    }


def _beam_defect(model: RecurrentTranslator, source: Sentences) -> str | None:
    """What is wrong if `decode` and beam search give a hypothesis different probabilities."""
    for row, log_probability, tokens in _best_hypotheses(model, source):
        alone = Sentences(source.tokens[row : row + 1, : source.lengths[row]], source.lengths[row : row + 1])
        target = Sentences(tokens[None], torch.tensor([len(tokens)]))
        with torch.no_grad():
            predicted = model(alone, target).double().log_softmax(dim=-1)[0]
        decoded = predicted.gather(-1, tokens[:, None]).sum().item()
        if not abs(decoded - log_probability) <= 1e-3 * max(1.0, abs(decoded)):
            return f"beam search gives a hypothesis log p = {log_probability:.4g}, all steps in one call {decoded:.4g}"
    return None


def _best_hypotheses(model: RecurrentTranslator, source: Sentences) -> Iterator[tuple[int, float, Tensor]]:
    """Row, log-probability and predicted tokens of the best hypothesis for each sentence."""
    for row, hypotheses in enumerate(beam_search(model, source, _SEARCH, with_weights=True)):
        best = hypotheses[0]
        assert best.weights is not None
        tokens = [*best.tokens, EOS][: len(best.weights)]  # a hypothesis of maximum length has no `</s>`
        yield row, best.log_probability, torch.tensor(tokens)


def _ignored_change(subject: Subject, model: RecurrentTranslator) -> str | None:
    """What is wrong if a translator gives the same results although the part computes something else."""
    part = subject.fresh(seed=0)
    before: dict[str, Tensor] = {}
    changes = {
        "new parameters of": _change_parameters,
        "a subclass of": _reverse_results,
        "a forward hook on": _hook_results,
    }
    for what, change in changes.items():
        changed = subject.fresh(seed=0)
        if not change(changed) or not _differ(subject, part, changed):
            continue
        before = before or _results(model, subject.context(part))
        after = _results(model, subject.context(changed))
        for name in before:
            if max_error(after[name], before[name]) <= 1e-7:
                return f"{what} the part does not change {name}"
    return None


def _change_parameters(part: nn.Module) -> bool:
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(torch.randn_like(parameter))
    return any(True for _ in part.parameters())


def _reverse_results(part: nn.Module) -> bool:
    """Make a scorer or normalizer an instance of a subclass that reverses its results; False for other parts."""
    original: Any = type(part)
    if not hasattr(part, "after"):
        return False

    def forward(self: Any, *arguments: Any, **named: Any) -> Tensor:
        results: Tensor = original.forward(self, *arguments, **named)
        return results.flip(-1)

    part.__class__ = type(original)(f"Reversed{original.__name__}", (original,), {"forward": forward}, registered=False)
    return True


def _hook_results(part: nn.Module) -> bool:
    """Register a hook that reverses the results of a scorer or normalizer; False for other parts."""
    if not hasattr(part, "after"):
        return False
    part.register_forward_hook(lambda module, arguments, results: results.flip(-1))
    return True


@torch.no_grad()
def _differ(subject: Subject, one: Any, other: Any) -> bool:
    """Whether contexts of the two parts differ."""
    query, keys = subject.sample()
    contexts = [context(query, context.prepare(keys))[0] for context in map(subject.context, (one, other))]
    return not is_close(max_error(*contexts))


@torch.no_grad()
def _results(model: RecurrentTranslator, context: Context) -> dict[str, Tensor]:
    """What the translator computes with this context."""
    model.decoder.context = context
    tokens, source = _batch(equal_lengths=True)
    inputs = model.decoder_inputs(Sentences(tokens, torch.full((len(tokens),), _STEPS)))
    return {
        "decode": model.decode(inputs, model.encode(source)).features,
        "single steps": _step_by_step(model, inputs, source)[0],
        "beam search": torch.tensor([log_probability for _, log_probability, _ in _best_hypotheses(model, source)]),
    }


def _step_by_step(model: RecurrentTranslator, inputs: Tensor, source: Sentences) -> tuple[Tensor, Tensor]:
    memory = model.encode(source)
    state, logits, weights = model.start(memory), [], []
    for token in inputs.unbind(1):
        step = model.step(token, state, memory)
        state = step.state
        logits.append(step.logits)
        weights.append(step.weights)
    return torch.stack(logits, dim=1), torch.stack(weights, dim=1)


def _translator(subject: Subject, kind: str, context: Context) -> RecurrentTranslator:
    """A tiny translator in eval mode with this context and, apart from it, fixed parameters."""
    config = RecurrentConfig.model_validate(
        {
            "embedding_size": 7,
            "tie_embeddings": "none",
            "encoder": {"hidden_size": subject.key_size, "bidirectional": False},
            "decoder": {"kind": kind, "hidden_size": subject.query_size, **_DECODERS[kind]},
            "context": {"kind": "mean" if context.value_size else "none"},
        }
    )
    torch.default_generator.manual_seed(7)
    model = config.build(_SOURCE_WORDS, _TARGET_WORDS, joint=False)
    model.decoder.context = context
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("decoder.context."):
                parameter.mul_(2)  # an untrained decoder hardly depends on its context
    return model.eval()


def _batch(equal_lengths: bool = False) -> tuple[Tensor, Sentences]:
    """Target tokens (B, T), and sources with padding."""
    generator = torch.Generator().manual_seed(8)
    source = torch.randint(4, _SOURCE_WORDS, (3, 6), generator=generator)
    lengths = torch.tensor([6, 6, 6] if equal_lengths else [6, 4, 2])
    return torch.randint(4, _TARGET_WORDS, (3, _STEPS), generator=generator), Sentences(source, lengths)
