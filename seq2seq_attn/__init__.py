"""RNN encoder-decoder translation with pluggable attention, and the ablation that shows what attention is for.

    import seq2seq_attn as s2s

    model = s2s.train("mine.yaml", "runs/mine", scorer="general")
    model.translate(["Two dogs run ."], beam_size=5).sentences
    s2s.load("runs/mine").attention("Two dogs run .").plot()
    s2s.compare("experiment.yaml").show()

Names are imported lazily, on first use, so `import seq2seq_attn` takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq_attn import attention as attention
    from seq2seq_attn.api.experiments import Comparison as Comparison
    from seq2seq_attn.api.experiments import compare as compare
    from seq2seq_attn.api.experiments import train as train
    from seq2seq_attn.api.model import Model as Model
    from seq2seq_attn.comparison.experiment import Experiment as Experiment
    from seq2seq_attn.config import Config as Config
    from seq2seq_attn.errors import UserError as UserError

    load = Model.load

__version__ = "0.1.0"

_PLACES = {
    "Comparison": "api.experiments",
    "Config": "config",
    "Experiment": "comparison.experiment",
    "Model": "api.model",
    "UserError": "errors",
    "compare": "api.experiments",
    "train": "api.experiments",
}

__all__ = ["Comparison", "Config", "Experiment", "Model", "UserError", "attention", "compare", "load", "train"]


def __getattr__(name: str) -> Any:
    if name == "load":
        value = import_module("seq2seq_attn.api.model").Model.load
    elif name == "attention":
        return import_module("seq2seq_attn.attention")
    elif name in _PLACES:
        value = getattr(import_module(f"seq2seq_attn.{_PLACES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # so that __getattr__ is not called for this name again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
