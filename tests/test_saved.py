"""Checkpoints and vectors are read by an allow-list of types; a malicious or damaged one executes nothing."""

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

from seq2seq_attn.saved import load


@pytest.fixture
def path(tmp_path):
    return tmp_path / "last.ckpt"


def saved(path, value):
    torch.save(value, path)
    return load(path)


def test_it_reads_what_torch_load_reads(path):
    model = nn.GRU(5, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 5))[0].sum().backward()
    optimizer.step()
    shared = torch.arange(12.0).view(3, 4)
    numbers = [torch.ones(2, 3, dtype=dtype) for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int32)]
    numbers += [
        torch.get_rng_state(),
        torch.tensor([True, False]),
        torch.tensor(7),
        torch.empty(0, 4),
        shared.T[1:, :2],
    ]
    value = {
        "state_dict": model.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "numbers": numbers,
        "plain": (1, -2.5, None, True, "Straße", 10**30, {7: [float("inf")]}),
    }
    torch.save(value, path)
    mine, theirs = load(path), torch.load(path, weights_only=True)
    torch.testing.assert_close(mine["state_dict"], theirs["state_dict"], rtol=0, atol=0)
    for got, expected in zip(mine["numbers"], theirs["numbers"], strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert torch.equal(got, expected)
    assert mine["plain"] == value["plain"]
    assert type(mine["state_dict"]) is OrderedDict
    nn.GRU(5, 3).load_state_dict(mine["state_dict"])
    optimizer.load_state_dict(mine["optimizer_states"][0])


def test_tensors_that_shared_their_numbers_still_do(path):
    whole = torch.zeros(4)
    mine = saved(path, [whole, whole[1:3]])
    mine[1].fill_(7)
    assert mine[0].tolist() == [0, 7, 7, 0]


class Call:
    """Pickled as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "call",
    [
        Call(exec, "open('executed', 'w')"),
        Call(Path.touch, Path("executed")),
        Call(torch.load, "other.ckpt"),
        Call(nn.Linear, 2, 3),
        Call(torch.nn.Parameter, torch.ones(2)),
    ],
)
def test_a_pickle_that_calls_anything_is_refused_before_the_call(path, call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^it names '[\w.]+', which is neither"):
        saved(path, {"state_dict": torch.ones(3), "callbacks": call})
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_name_that_another_library_declared_safe_is_refused(path):
    with torch.serialization.safe_globals([nn.Linear]), pytest.raises(ValueError, match=r"torch\.nn\.modules\.linear"):
        saved(path, {"module": nn.Linear(2, 3)})


def replaced(path, name, change):
    """The archive, with one record changed, under its right checksum."""
    with zipfile.ZipFile(path) as archive:
        records = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in records.items():
            archive.writestr(each, change(content) if each.endswith(name) else content)


@pytest.mark.parametrize(
    ("record", "change", "reason"),
    [
        ("data/0", lambda numbers: numbers[:-4], "is not 6 numbers"),
        ("data/0", lambda numbers: numbers + bytes(4), "is not 6 numbers"),
        ("data/0", lambda numbers: numbers[:-1], "buffer"),
        ("byteorder", lambda order: order[::-1], "byte order"),
        ("data.pkl", lambda pickled: pickled[:-20], "EOFError|truncated"),
        ("data.pkl", lambda pickled: pickled.replace(b"K\x02K\x03", b"K\x02K\x09"), "out of bounds"),
        ("data.pkl", lambda pickled: pickled.replace(b"storage", b"strange"), "'strange' is not a storage"),
        ("data.pkl", lambda _: pickle.dumps(torch.Tensor.numpy), "it names"),
    ],
)
def test_an_archive_that_contradicts_itself_is_refused(path, record, change, reason):
    torch.save(torch.arange(6.0).view(2, 3), path)
    replaced(path, record, change)
    with pytest.raises(ValueError, match=reason):
        load(path)


def test_no_flipped_byte_gives_other_values(path):
    torch.save(value := {"weights": torch.arange(6.0), "epoch": 4}, path)
    whole = path.read_bytes()
    accepted = 0
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            got = load(path)
        except ValueError:
            continue
        accepted += 1
        assert (got["epoch"], got["weights"].tolist()) == (value["epoch"], value["weights"].tolist())
    assert accepted < len(whole) / 7


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18), pickle.dumps({"callbacks": 1})])
def test_another_format_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        load(path)


def test_a_compressed_record_is_refused(path):
    torch.save(torch.ones(3), path)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="is compressed"):
        load(path)
