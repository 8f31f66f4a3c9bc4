"""`average`: what it prints, and what it refuses."""

import json


def test_the_epochs_and_their_score_are_printed(program, refused, toy, trained, tmp_path):
    assert "training.keep_epochs=5" in refused("average", trained, "--output", tmp_path / "average")
    run, output = tmp_path / "run", tmp_path / "average"
    options = "training.keep_epochs=3", "training.max_epochs=4"
    assert program("train", toy / "toy.yaml", "--output", run, *options).code == 0
    answer = program("average", run, "--output", output)
    assert answer.code == 0
    assert answer.out.startswith("validation BLEU ")
    assert answer.out.endswith(", mean of the weights of epochs 2 to 4\n")
    assert "--overwrite" in refused("average", run, "--output", output)
    answer = program("average", run, "--output", output, "--last", 1, "--overwrite", "--json")
    assert json.loads(answer.out)["epochs"] == [4]
    assert program("translate", output, toy / "test.src").out.count("\n") == 7
