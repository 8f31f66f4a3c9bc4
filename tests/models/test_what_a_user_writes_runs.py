"""What a user wrote is what runs: no fused form replaces a module that was subclassed, hooked, parametrized or wrapped.

A modified model must compute the same with and without fused forms, in one call and step by step, in a beam search, in
bf16, with kernels and without. It must differ from the original model, and every parameter must get the same gradient
as from the reference implementations.
"""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from seq2seq_attn import ops
from seq2seq_attn.attention import (
    Context,
    Normalizer,
    Scorer,
    Window,
    normalizer_classes,
    scorer_classes,
    window_classes,
)
from seq2seq_attn.attention.window import View
from seq2seq_attn.corpora.source import pad
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.ops import fuse, native
from seq2seq_attn.search import SearchOptions, beam_search, force

SOURCE, TARGET = pad([[4, 9, 6, 3], [5, 3], [10, 8, 7, 12, 3]]), pad([[7, 6, 3], [9, 3], [5, 8, 11, 3]])
DECODERS = {
    "bahdanau": {"kind": "bahdanau"},
    "luong": {"kind": "luong", "input_feeding": False},
    "luong, feeding": {"kind": "luong"},
    "conditional": {"kind": "conditional"},
}
CONTEXTS = {
    "attention": {},
    "heads": {"heads": 2},
    "separate values": {"separate_values": True},
    "chunkwise": {"normalizer": {"name": "monotonic", "noise": 0.0}, "chunk": {"size": 2}},
    "mean": {"kind": "mean"},
    "fixed": {"kind": "fixed"},
}
NARROW = {"local_m": {"half_width": 1}, "local_p": {"half_width": 1}}  # below the length of the sources
PARTS = {
    **{("scorer", name): {"scorer": name} for name in scorer_classes()},
    **{("normalizer", name): {"normalizer": name} for name in normalizer_classes()},
    **{("window", name): {"window": {"name": name, **NARROW.get(name, {})}} for name in window_classes()},
    **{("context", name): options for name, options in CONTEXTS.items()},
}
GAIN = -1.3


def build(decoder, context):
    torch.manual_seed(3)
    values = {"embedding_size": 6, "encoder": {"hidden_size": 4}, "decoder": {"hidden_size": 8, **DECODERS[decoder]}}
    model = RecurrentConfig.model_validate({**values, "context": context}).build(14, 15, False)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    return model.eval()


def place(model, kind):
    """The module that has the part of this kind as an attribute, and the attribute's name."""
    if kind == "context":
        return model.decoder, "context"
    context = model.decoder.context
    return context, kind


# How a subclass, a hook or a wrapper alters the result of each kind of part.


def altered(kind, result, gain):
    if kind == "window":
        factor = torch.ones(()) if result.factor is None else result.factor
        return View(result.is_open, (factor * gain).expand_as(result.is_open))
    if kind == "context":
        return (result[0] * gain, *result[1:])
    return result * gain


def altered_arguments(kind, arguments):
    first, *rest = arguments
    if kind == "normalizer":
        return (first * GAIN, *rest)
    if kind == "window":
        return (first + 0.5, rest[0], rest[1] + 1)
    if kind == "context" and hasattr(rest[0], "context"):  # a constant context ignores the query
        return (first, rest[0]._replace(context=rest[0].context * GAIN), *rest[1:])
    return (first * GAIN + 0.7, *rest)


def subclass(part, kind):
    def forward(self, *arguments):
        return altered(kind, super(changed, self).forward(*arguments), self.gain)

    options = {} if kind == "context" else {"registered": False}
    changed = type(f"Changed{type(part).__name__}", (type(part),), {"forward": forward}, **options)
    other = changed.__new__(changed)
    other.__dict__ = part.__dict__
    other.gain = nn.Parameter(torch.tensor(GAIN))
    return other


class Wrapped(nn.Module):
    """A part that wraps another one of the same kind."""

    def __init__(self, part, kind):
        nn.Module.__init__(self)
        self.part, self.kind = part, kind
        self.gain = nn.Parameter(torch.tensor(GAIN))
        for name in ("query_size", "key_size", "value_size", "needs_history", "needs_steps", "reads_query"):
            if hasattr(part, name):
                setattr(self, name, getattr(part, name))

    def forward(self, *arguments):
        return altered(self.kind, self.part(*arguments), self.gain)

    def prepare(self, *arguments, **named):
        return self.part.prepare(*arguments, **named)

    def start(self, *arguments):
        return self.part.start(*arguments)

    def advance(self, *arguments):
        return self.part.advance(*arguments)

    def ahead(self, *arguments):
        return self.part.ahead(*arguments)


class WrappedScorer(Wrapped, Scorer, registered=False):
    def after(self, history, query, prepared):
        return self(query, prepared, history) if self.needs_history else self(query, prepared)


class WrappedNormalizer(Wrapped, Normalizer, registered=False):
    def after(self, history, scores, is_token=None):
        return self(scores, is_token, history) if self.needs_history else self(scores, is_token)

    def normalize(self, scores):
        raise AssertionError


class WrappedWindow(Wrapped, Window, registered=False):
    pass


class WrappedContext(Wrapped, Context):
    pass


WRAPPERS = {
    "scorer": WrappedScorer,
    "normalizer": WrappedNormalizer,
    "window": WrappedWindow,
    "context": WrappedContext,
}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.6))

    def forward(self, weight):
        return -self.scale * weight + torch.linspace(-1, 1, weight.numel()).view_as(weight)


def parametrize_first(part):
    """Parametrizes the first parameter of the part; False if it has none."""
    for module in part.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                parametrize.register_parametrization(module, name, Scaled())
                return True
    return False


def change(model, kind, how):
    """Changes the part of the model in place; False if this change does not apply to the part."""
    owner, name = place(model, kind)
    part = getattr(owner, name)
    if how == "subclass":
        setattr(owner, name, subclass(part, kind))
    elif how == "wrapped":
        setattr(owner, name, WRAPPERS[kind](part, kind))
    elif how == "hook":
        part.register_forward_hook(lambda module, arguments, result: altered(kind, result, GAIN))
    elif how == "pre-hook":
        part.register_forward_pre_hook(lambda module, arguments: altered_arguments(kind, arguments))
    elif how == "parametrized":
        return parametrize_first(part)
    else:
        part.requires_grad_(False)
        return any(True for _ in part.parameters())
    return True


def outcome(model):
    """Logits and weights at tokens, from teacher forcing in one call and from single steps."""
    memory = model.encode(SOURCE)
    inputs = model.decoder_inputs(TARGET)
    decoded = model.decode(inputs, memory)
    at_once = model.head.projection(decoded.features), decoded.weights
    with torch.no_grad():
        state, steps = model.start(memory), []
        for tokens in inputs.unbind(1):
            step = model.step(tokens, state, memory)
            state = step.state
            steps.append((step.logits, step.weights))
    one_by_one = tuple(torch.stack(part, dim=1) for part in zip(*steps, strict=True))
    is_token = TARGET.is_token
    return [part[is_token] for part in at_once], [part[is_token] for part in one_by_one]


def searched(model):
    found = beam_search(model, SOURCE, SearchOptions(beam_size=2, n_best=2, max_length=5))
    return [[(each.tokens, each.log_probability) for each in best] for best in found]


def scored(model):
    return torch.tensor([each.total for each in force(model, SOURCE, TARGET)])


def gradients(model, logits):
    model.zero_grad()
    logits.log_softmax(-1).sin().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same_hypotheses(found, expected):
    for ours, theirs in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert ours[0] == theirs[0]
        assert ours[1] == pytest.approx(theirs[1], abs=1e-3)


CHANGES = ("subclass", "hook", "pre-hook", "parametrized", "wrapped", "frozen")
EVERY = list(itertools.product(PARTS, CHANGES, DECODERS))
# By default: one change of each part with one decoder, in turn; every change of the parts in USUAL with one decoder;
# and every change of the additive scorer with the decoder that has a fused form for it.
ADDITIVE = ("scorer", "additive")
USUAL = {ADDITIVE, ("normalizer", "softmax"), ("context", "attention")}


def by_default(part, how, decoder):
    number, place = list(PARTS).index(part), CHANGES.index(how)
    if part == ADDITIVE and decoder == "bahdanau":
        return True
    return decoder == list(DECODERS)[(number + place) % 4] and (part in USUAL or place == number % len(CHANGES))


def in_turn(decoders, others):
    """Every pair; by default, each of the others with one of the decoders."""
    return [
        pytest.param(decoder, other, marks=() if place % len(decoders) == number else pytest.mark.slow)
        for (number, decoder), (place, other) in itertools.product(enumerate(decoders), enumerate(others))
    ]


def case_name(case):
    return f"{' '.join(case[0])} {case[1]} {case[2]}"


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if by_default(*case) else pytest.mark.slow, id=case_name(case)) for case in EVERY],
)
def test_a_change_by_a_user_takes_effect_wherever_the_model_is_used(case, monkeypatch):
    (kind, name), how, decoder = case
    model = build(decoder, PARTS[kind, name])
    with torch.no_grad():
        before, _ = outcome(model)
    if not change(model, kind, how):
        pytest.skip("this change does not apply to this part")
    expected, steps = outcome(model)
    expected_gradients = gradients(model, expected[0])
    hypotheses, totals = searched(model), scored(model)
    for kernels in (True, False) if case[0] == ADDITIVE and decoder == "bahdanau" else (True,):
        if not kernels:
            monkeypatch.setattr(native, "has_kernels", lambda tensor: False)
        fused = fuse(model)
        at_once, one_by_one = outcome(fused)
        torch.testing.assert_close(at_once, expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(one_by_one, steps, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(at_once, one_by_one, atol=1e-4, rtol=1e-4)
        for form in (fused, fuse(model, constant=True)):
            assert_same_hypotheses(searched(form), hypotheses)
            torch.testing.assert_close(scored(form), totals, atol=1e-3, rtol=1e-4)
        found = gradients(model, at_once[0])
        for parameter, gradient in expected_gradients.items():
            assert (gradient is None) == (found[parameter] is None), parameter
            if gradient is not None:
                torch.testing.assert_close(found[parameter], gradient, atol=1e-3, rtol=1e-2, msg=parameter)
    if how == "frozen":
        assert all(found[parameter] is None for parameter, p in model.named_parameters() if not p.requires_grad)
        torch.testing.assert_close(at_once, before, atol=1e-4, rtol=1e-4)
    else:
        assert not all(map(torch.allclose, at_once, before))


@pytest.mark.parametrize(("decoder", "how"), in_turn(DECODERS, CHANGES))
def test_a_change_by_a_user_takes_effect_in_bf16(decoder, how):
    model = build(decoder, {})
    change(model, "scorer", how)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        forms = model, fuse(model), fuse(model, constant=True)
        expected, *found = ([part.float() for part in itertools.chain(*outcome(form))] for form in forms)
    for each in found:
        torch.testing.assert_close(each, expected, atol=0.15, rtol=0.1)


@pytest.mark.usefixtures("fused")
def test_an_unmodified_model_is_fused_and_otherwise_the_reason_is_given():
    model = build("bahdanau", {})
    assert ops.reasons(model) == {}
    with ops.reference():
        assert fuse(model) is model
        assert fuse(model, constant=True) is model
    assert set(ops.reasons(model.double()).values()) == {"the dtype is float64"}
    model.float().decoder.context.scorer.register_forward_hook(lambda *_: None)
    assert ops.reasons(model) == {"decoder": "Additive (context.scorer) has hooks"}
    assert ops.unfused(model) == "computed step by step: decoder (Additive (context.scorer) has hooks)"
    assert "Location" in ops.reasons(build("bahdanau", {"scorer": "location"}))["decoder"]


LAYERS = ["decoder.cell", "decoder.cell.recurrent", "decoder.from_token", "encoder.network.layers.0", "head.projection"]


@pytest.mark.parametrize(
    ("arm", "part"), in_turn([*((decoder, "attention") for decoder in DECODERS), ("bahdanau", "mean")], LAYERS)
)
def test_hooks_on_cells_and_layers_fire(arm, part):
    decoder, context = arm
    model = build(decoder, CONTEXTS[context])
    with torch.no_grad():
        before, _ = outcome(model)

        def louder(module, arguments, result):
            if isinstance(result, torch.Tensor):
                return result * 1.5
            return (result[0]._replace(data=result[0].data * 1.5), *result[1:])

        model.get_submodule(part).register_forward_hook(louder)
        expected, _ = outcome(model)
        for form in (fuse(model), fuse(model, constant=True)):
            at_once, one_by_one = outcome(form)
            torch.testing.assert_close(at_once, one_by_one, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(at_once, expected, atol=1e-4, rtol=1e-4)
            assert not torch.allclose(at_once[0], before[0])
            assert_same_hypotheses(searched(form), searched(model))


def test_a_replaced_method_is_what_runs(monkeypatch):
    model = build("bahdanau", {})
    with torch.no_grad():
        before, _ = outcome(model)
        scorer = model.decoder.context.scorer
        plain = scorer.forward
        scorer.forward = lambda query, prepared: GAIN * plain(query, prepared)
        (at_once, one_by_one) = outcome(fuse(model))
        torch.testing.assert_close(at_once, one_by_one)
        assert not torch.allclose(at_once[1], before[1])
        del scorer.forward
        kind = type(model.decoder.context.normalizer)
        inherited = kind.normalize
        monkeypatch.setattr(kind, "normalize", lambda self, scores: inherited(self, 2 * scores))
        (at_once, one_by_one) = outcome(fuse(model))
        torch.testing.assert_close(at_once, one_by_one)
        assert not torch.allclose(at_once[1], before[1])


class Decode(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, memory):
        return self.model.decode(self.model.decoder_inputs(TARGET), memory).features.sin().sum()


def test_torch_func_takes_the_model_itself_and_a_fused_one_is_refused():
    # The decoder alone: torch.func does not support the packed sentences of the encoder.
    decode = Decode(build("bahdanau", {}))
    parameters = {name: parameter.detach() for name, parameter in decode.model.decoder.named_parameters()}
    with torch.no_grad():
        memory = decode.model.encode(SOURCE)
    prefixed = {f"model.decoder.{name}": parameter for name, parameter in parameters.items()}
    found = torch.func.grad(lambda values: torch.func.functional_call(decode, values, (memory,)))(prefixed)
    if native.has_kernels(torch.empty(0)):
        fused = Decode(fuse(decode.model))
        with torch.no_grad(), pytest.raises(RuntimeError, match=r"cannot be traced or transformed"):
            torch.func.vmap(fused.model.decoder.context.scorer)(torch.randn(2, 3, 1, 8), torch.randn(2, 3, 4, 8))
    decode(memory).backward()
    for name, parameter in decode.model.decoder.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(found[f"model.decoder.{name}"], expected, atol=1e-4, rtol=1e-3)
