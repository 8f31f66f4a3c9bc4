"""Training and comparing from Python: a configuration gives a model, an experiment gives a comparison."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_attn.api.tables import Answers, as_text
from seq2seq_attn.api.texts import TextsBeside
from seq2seq_attn.config import Config
from seq2seq_attn.errors import UserError
from seq2seq_attn.results.records import COMPARISONS, RUNS
from seq2seq_attn.runs import messages
from seq2seq_attn.strict import Strict, read_yaml
from seq2seq_attn.training.processes import joined

if TYPE_CHECKING:
    from rich.table import Table

    from seq2seq_attn.api.comparison import Comparison
    from seq2seq_attn.api.model import Model
    from seq2seq_attn.comparison.experiment import Experiment, RunGrid
    from seq2seq_attn.comparison.launchers import On
    from seq2seq_attn.comparison.schedule import IfDone
    from seq2seq_attn.corpora.vectors import HasVectors
    from seq2seq_attn.runs.folder import IfExists
    from seq2seq_attn.runs.pretrained import Pretrained

_SHORT = {"scorer": "model.context.scorer"}  # overrides with a short name


def train(
    config: Path | str | Config | Mapping[str, Any],
    output: Path | str,
    *,
    if_exists: IfExists = "refuse",
    silent: bool = False,
    pretrained: Mapping[str, HasVectors] | None = None,
    **overrides: Any,
) -> Model:
    """Trains one model into a run folder and scores it, if the configuration names a test set.

    Several processes that `torchrun` or `srun` has started train it together; each returns the model.

    Args:
        config: A YAML file, a `Config`, or a mapping of its values. In `data`, each `source` and `target` may be lines
            in memory, a column of a data frame for example; they are written to the folder OUTPUT.data.
        output: The run folder.
        if_exists: What to do if the folder contains a run: "refuse" it, "resume" its training from the last checkpoint,
            also after Ctrl-C, which is KeyboardInterrupt, or "overwrite" it. A run that is resumed may have another
            learning rate or schedule if an override names it, as in `**{"training.optimizer.learning_rate": 0.001}`.
        silent: Print no progress, which otherwise goes to stderr, as on the command line.
        pretrained: Word vectors in memory, such as torchtext's, by side, as in `{"source": vectors}`.
        **overrides: Changes of the configuration: of a section, as in `training={"max_epochs": 3}`, of a key, as in
            `**{"training.max_epochs": 3}`, or of the scorer, as in `scorer="general"`, `scorer=MyScorer` or
            `scorer={"name": "additive", "hidden_size": 64}`.

    Returns:
        The model, with its folder.

    Raises:
        UserError: There is a mistake in the configuration or in the data, the loss is not finite, or another process
            trains in the folder.
    """
    from seq2seq_attn.files.nested import flat
    from seq2seq_attn.runs.folder import refuse_folder, refuse_source

    folder = Path(output)
    refuse_folder(folder)
    if isinstance(config, (Path, str)):
        refuse_source(folder, Path(config), if_exists)
    texts = TextsBeside(folder)
    if isinstance(config, Mapping):
        config = {key: texts.replaced(value, "") if key == "data" else value for key, value in config.items()}
    overrides = {key: texts.replaced(value, "") if key == "data" else value for key, value in overrides.items()}
    settings = _config(config, overrides)
    given = flat(dict(_full(overrides)))
    with joined() as processes:
        processes.once(lambda: texts.write(overwrite=if_exists == "overwrite"))
        return train_configured(settings, folder, if_exists, given, silent=silent, pretrained=_vectors(pretrained))


def train_configured(
    settings: Config,
    folder: Path,
    if_exists: IfExists,
    given: Collection[str],
    *,
    silent: bool = False,
    pretrained: Pretrained | None = None,
) -> Model:
    """As `train`, with a configuration that is complete; `given` are the keys that were given as overrides."""
    from seq2seq_attn.analysis.scoring import evaluate
    from seq2seq_attn.api.model import Model
    from seq2seq_attn.api.pictures import draw_attention
    from seq2seq_attn.runs.folder import reserved
    from seq2seq_attn.runs.train import train as train_run

    with joined() as processes:
        silent = silent or not processes.is_first
        with reserved(settings, folder, if_exists, given=given) if processes.is_first else nullcontext():
            trained = train_run(
                settings,
                folder,
                name=folder.name,
                if_exists=if_exists,
                **_progress(silent),
                pretrained=pretrained,
                given=given,
                draw=draw_attention,
                processes=processes,
            )
            is_tested = settings.data.test is not None
            # The others wait, so that the run is whole when they return.
            processes.once(lambda: is_tested and evaluate(trained, folder, say=messages(silent)))
    return Model(trained, folder)


def compare(
    experiment: Path | str | Experiment | Mapping[str, Any] | RunGrid,
    output: Path | str | None = None,
    *,
    on: On = "local",
    jobs: int | None = None,
    if_exists: IfDone = "resume",
    silent: bool = False,
    command: str = "",
    evidence: Path | str | None = None,
    **overrides: Any,
) -> Comparison:
    """Trains and tests the arms of an experiment, once per seed, compares them, and writes the report.

    Several processes may call this for the same folder, and share its runs. A run that fails does not stop the others:
    `results.missing` names it with the reason.

    Args:
        experiment: A YAML file, an `Experiment`, or a mapping of its values.
        output: The folder of the report and of the runs, which are at `runs/ARM/seed-N` in it; by default
            `comparisons/NAME`.
        on: Where runs are trained: on this machine ("local"), or on a cluster by "ray" or "slurm", the extras [ray] and
            [slurm]. Each run there gets the `resources` of the experiment; see docs/scale.md.
        jobs: Runs to train at once, each in its own process; by default one on this machine, and on a cluster all that
            there is room for. With more than one, a script needs `if __name__ == "__main__":`.
        if_exists: Whether to "resume", so that finished runs are kept and interrupted ones continue, or to "overwrite".
        silent: Print no progress, which otherwise goes to stderr, as on the command line.
        command: The command line that the report shows for reproduction.
        evidence: `evidence.json.gz` of an earlier comparison, whose runs are not trained again: so seeds and arms can
            be added to published results.
        **overrides: Changes of the base configuration of all arms, as in `train`, or of a field of the experiment, as
            in `seeds=[1, 2, 3]`.

    Returns:
        The results, with their folder.

    Raises:
        UserError: There is a mistake in the experiment or in the data, or a cluster cannot be reached; nothing is
            trained.
        FailedError: Every run failed.
    """
    from seq2seq_attn.api.comparison import Comparison
    from seq2seq_attn.api.pictures import draw_attention
    from seq2seq_attn.comparison.compare import compare as compare_runs
    from seq2seq_attn.comparison.launchers import find_launcher

    grid = _grid(experiment, overrides)
    grid = grid._replace(runs=[run._replace(draw=draw_attention) for run in grid.runs])
    place = _place(output, grid.experiment)
    results = compare_runs(
        grid,
        place,
        if_exists=if_exists,
        launcher=find_launcher(on, jobs, place / RUNS),
        command=command,
        evidence=None if evidence is None else Path(evidence),
        **_progress(silent),
    )
    return Comparison(results, place).write()


def plan(
    experiment: Path | str | Experiment | Mapping[str, Any] | RunGrid,
    output: Path | str | None = None,
    *,
    on: On = "local",
    evidence: Path | str | None = None,
    **overrides: Any,
) -> Plan:
    """What `compare` would train, and how far each run is; nothing is trained or written.

    Args:
        experiment: See `compare`.
        output: See `compare`.
        on: See `compare`.
        evidence: See `compare`.
        **overrides: See `compare`.

    Returns:
        A table with one row per run: its state ("done", "running", "continues" from a checkpoint or "new"), the epoch,
        step and validation of its last checkpoint, what it gets of a cluster, and its folder, or the file of evidence
        that it is in.

    Raises:
        UserError: There is a mistake in the experiment, the folder contains something else, or the evidence is of other
            runs.
    """
    from seq2seq_attn.comparison.compare import plan as planned_runs

    grid = _grid(experiment, overrides)
    before = None if evidence is None else Path(evidence)
    return Plan(planned_runs(grid, _place(output, grid.experiment), on, before))


class Plan(Answers[Any]):
    """The runs of a comparison, each with its state, as returned by `seq2seq_attn.plan`."""

    def to_records(self) -> list[dict[str, Any]]:
        """One dictionary per run: `pandas.DataFrame(...)`."""
        return [
            {"run": row.run.name, "folder": row.run.folder, **row.progress._asdict(), **row.run.resources.model_dump()}
            for row in self
        ]

    def __rich__(self) -> Table:
        from seq2seq_attn.comparison.progress import grid_table

        return grid_table(self)

    def __repr__(self) -> str:
        return as_text(self)


def _place(output: Path | str | None, experiment: Experiment) -> Path:
    return Path(output) if output is not None else COMPARISONS / experiment.name


def demo(
    output: Path | str | None = None,
    *,
    quick: bool = False,
    jobs: int = 1,
    if_exists: IfDone = "resume",
    silent: bool = False,
    command: str = "seq2seq-attn demo",
) -> Comparison:
    """Trains four arms, one of which attends to the source, to translate the embedded corpus from English to Chinese.

    It takes minutes. A demo that was interrupted continues.

    Args:
        output: The folder, by default `comparisons/demo` or `comparisons/demo-quick`.
        quick: Train two of the arms on short sentences, in less than a minute.
        jobs: As in `compare`, and so are the other arguments.
        if_exists: See `compare`.
        silent: See `compare`.
        command: See `compare`.

    Returns:
        The results, with their folder.

    Raises:
        UserError: The folder contains something else.
    """
    from seq2seq_attn.comparison.demo import demo_grid

    place = output if output is not None else COMPARISONS / ("demo-quick" if quick else "demo")
    return compare(demo_grid(quick), place, jobs=jobs, if_exists=if_exists, silent=silent, command=command)


def _progress(silent: bool) -> dict[str, Any]:
    """How a function of `runs` and `comparison` says what it does."""
    return {"say": messages(silent), "bar": None if silent else True}


def _config(config: Path | str | Config | Mapping[str, Any], overrides: Mapping[str, Any]) -> Config:
    if isinstance(config, Config) and not overrides:
        return config
    from seq2seq_attn.runs.warm_start import read_configuration

    values, path = _values(config)
    return read_configuration(values, _full(overrides), path)


def _vectors(pretrained: Mapping[str, HasVectors] | None) -> Pretrained | None:
    from seq2seq_attn.runs.pretrained import Pretrained

    for side in pretrained or ():
        if side not in Pretrained._fields:
            raise UserError(f"pretrained: {side!r} is not a side; give vectors for 'source', 'target' or both")
    return None if pretrained is None else Pretrained(**pretrained)


def _grid(experiment: Path | str | Experiment | Mapping[str, Any] | RunGrid, overrides: Mapping[str, Any]) -> RunGrid:
    from seq2seq_attn.comparison.experiment import RunGrid, experiment_grid

    if isinstance(experiment, RunGrid):
        if overrides:
            raise UserError(f"{', '.join(overrides)}: a RunGrid is complete; give the experiment, or read it with them")
        return experiment
    values, path = _values(experiment)
    return experiment_grid(values, path, _full(overrides))


def _values(given: Path | str | Strict | Mapping[str, Any]) -> tuple[Mapping[str, Any], Path | None]:
    """The plain values of a configuration, and the file that they were read from."""
    if isinstance(given, (str, Path)):
        return read_yaml(Path(given)), Path(given)
    return (given.model_dump() if isinstance(given, Strict) else given), None


def _full(overrides: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(_SHORT.get(key, key), value) for key, value in overrides.items()]
