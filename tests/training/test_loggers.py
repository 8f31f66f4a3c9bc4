"""The programs that show curves: each is told what `log/metrics.csv` has, and is imported only when it is named."""

import csv
import subprocess
import sys
import types

import pytest
from pydantic import ValidationError
from test_loop import run

from seq2seq_attn.comparison.schedule import complete
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.runs.train import train
from seq2seq_attn.strict import override, parse
from seq2seq_attn.training import CURVES
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loggers import TrackedRun, require_loggers


class Stub(types.ModuleType):
    """A module in which every function records its calls; `search_runs` finds the run that was started before."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = types.SimpleNamespace(name=name)
        self.calls = []

    def __getattr__(self, function):
        if function.startswith("__"):
            raise AttributeError(function)

        def record(*arguments, **options):
            self.calls.append((function, arguments, options))
            if function == "search_runs":
                started = [each for each in self.calls if each[0] == "start_run"]
                return [types.SimpleNamespace(info=types.SimpleNamespace(run_id="one"))] if started else []
            return None

        return record

    def of(self, function):
        return [(arguments, options) for name, arguments, options in self.calls if name == function]


@pytest.fixture
def stub(monkeypatch):
    def install(name):
        module = Stub(name)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return install


def logged(folder):
    """The values of each step in the log."""
    with (folder / CURVES).open() as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        values = {key: float(row[key]) for key in row if key not in ("epoch", "step") and row[key]}
        found[int(row["step"])] = found.get(int(row["step"]), {}) | values
    return found


@pytest.mark.parametrize("name", ["wandb", "trackio", "mlflow"])
def test_a_program_is_told_the_values_of_the_log_by_step_and_a_resumed_run_is_the_same_one(tmp_path, stub, name):
    module = stub(name)
    for epochs in (2, 3):
        run(tmp_path, max_epochs=epochs, resume=epochs == 3, validate=lambda _: 7.0, loggers=[name])
    log, end = {"mlflow": ("log_metrics", "end_run")}.get(name, ("log", "finish"))
    shown = {}
    for (values,), options in module.of(log):
        shown[options["step"]] = shown.get(options["step"], {}) | values
    assert {step: pytest.approx(values) for step, values in shown.items()} == logged(tmp_path)
    assert len(module.of(end)) == 2
    assert module.calls[-1][0] == end


def test_the_arms_of_a_comparison_are_one_group_and_each_run_has_a_key_of_its_own(grid, tmp_path, stub):
    modules = {name: stub(name) for name in ("wandb", "trackio", "mlflow")}
    changes = [f"training.loggers=[{','.join(modules)}]", "training.max_epochs=1", "data.test=null"]
    for arm_run in (grid.runs[0], grid.runs[2]):
        config = parse(Config, override(arm_run.config.model_dump(mode="json"), changes))
        complete(arm_run._replace(config=config, runs=tmp_path / "toy" / "runs"), lambda _: None, None)
    for name in ("wandb", "trackio"):
        options = [options for _, options in modules[name].of("init")]
        assert [each["group"] for each in options] == ["toy", "toy"]
        assert [each["name"].split(" ")[0] for each in options] == ["distracted,", "attention,"]
        assert options[0]["config"]["model"]["context"]["kind"] == "fixed"
    keys = [options["id"] for _, options in modules["wandb"].of("init")]
    assert len(set(keys)) == 2
    assert [arguments for arguments, _ in modules["mlflow"].of("set_experiment")] == [("toy",), ("toy",)]
    assert [options["tags"]["run_key"] for _, options in modules["mlflow"].of("start_run")] == keys


def test_a_program_that_is_missing_is_refused_before_anything_is_written(grid, tmp_path):
    config = parse(Config, override(grid.runs[2].config.model_dump(mode="json"), ["training.loggers=[wandb]"]))
    with pytest.raises(UserError, match=r"wandb is not installed; pip install 'seq2seq_attn\[wandb\]'"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValidationError, match="loggers"):
        TrainingConfig(loggers=["wandbb"])


def test_without_loggers_there_is_the_log_alone(tmp_path):
    run(tmp_path, max_epochs=1, loggers=[])
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["metrics.csv"]
    assert require_loggers(None) is None
    assert TrackedRun("one").group == "seq2seq_attn"


def test_training_imports_none_of_them_unless_it_is_named_nor_what_only_reports_and_statistics_need():
    names = "wandb", "mlflow", "trackio", "torch.utils.tensorboard", "matplotlib", "jinja2", "scipy"
    code = "import sys, seq2seq_attn; assert seq2seq_attn.train; import seq2seq_attn.runs.train"
    code = f"{code}; print([n for n in {names} if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
