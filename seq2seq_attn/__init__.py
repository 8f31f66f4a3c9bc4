"""RNN encoder-decoder with pluggable attention, and the ablation that shows what attention is for.

    import seq2seq_attn as s2s

    model = s2s.train("mine.yaml", "runs/mine", scorer="general")
    model.translate(["Two dogs run ."], beam_size=5).sentences
    s2s.load("runs/mine").attention("Two dogs run .").plot()
    s2s.compare("experiment.yaml").show()

The command line is built on these names. They are imported lazily, on first use, so `import seq2seq_attn` takes
milliseconds. Nothing here changes the calling process: its threads, allocator, loggers, warnings and random state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq_attn import attention as attention
    from seq2seq_attn.analysis.other_models import read_attention as read_attention
    from seq2seq_attn.analysis.verify import verify as verify
    from seq2seq_attn.api import data as data
    from seq2seq_attn.api.catalog import scorers as scorers
    from seq2seq_attn.api.comparison import Comparison as Comparison
    from seq2seq_attn.api.experiments import compare as compare
    from seq2seq_attn.api.experiments import demo as demo
    from seq2seq_attn.api.experiments import plan as plan
    from seq2seq_attn.api.experiments import train as train
    from seq2seq_attn.api.model import Model as Model
    from seq2seq_attn.api.scores import evaluate as evaluate
    from seq2seq_attn.api.view import view as view
    from seq2seq_attn.comparison.experiment import Experiment as Experiment
    from seq2seq_attn.config import Config as Config
    from seq2seq_attn.errors import UserError as UserError
    from seq2seq_attn.testing import check as check
    from seq2seq_attn.walkthrough import walk as walk

    load = Model.load

__version__ = "0.1.0"

_PLACES = {  # below this package: the module, and what of it
    "Comparison": "api.comparison:Comparison",
    "Config": "config:Config",
    "Experiment": "comparison.experiment:Experiment",
    "Model": "api.model:Model",
    "UserError": "errors:UserError",
    "attention": "attention:",
    "check": "testing:check",
    "compare": "api.experiments:compare",
    "data": "api.data:",
    "demo": "api.experiments:demo",
    "evaluate": "api.scores:evaluate",
    "load": "api.model:Model.load",
    "plan": "api.experiments:plan",
    "read_attention": "analysis.other_models:read_attention",
    "scorers": "api.catalog:scorers",
    "train": "api.experiments:train",
    "verify": "analysis.verify:verify",
    "view": "api.view:view",
    "walk": "walkthrough:walk",
}

__all__ = [
    "Comparison", "Config", "Experiment", "Model", "UserError", "attention", "check", "compare",
    "data", "demo", "evaluate", "load", "plan", "read_attention", "scorers", "train", "verify", "view", "walk",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pkgutil import resolve_name

    try:
        value = globals()[name] = resolve_name(f"{__name__}.{_PLACES[name]}")  # found here from now on
    except ModuleNotFoundError as error:
        from seq2seq_attn.errors import how_to_install

        hint = how_to_install(error)
        if hint is None:
            raise
        raise ModuleNotFoundError(f"{__name__}.{name} needs {hint}", name=error.name) from None
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
