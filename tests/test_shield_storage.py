"""Shields on disk."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shield_data import make_episodes

from roep_gym.error import InvalidInputError, RecordConflictError, RoepError
from roep_gym.shields import Shield, ShieldConfig, load_shield, save_shield, train_shield


@pytest.fixture(scope="module")
def shield() -> Shield:
    made = train_shield(make_episodes(), ShieldConfig(hidden_sizes=(16, 8), max_epochs=5)).shield
    assert made is not None
    return made


def rewrite(path: Path, target: Path, **changes: Any) -> Path:
    """Write a copy of a shield file with other members; header fields are given as `header`."""
    with np.load(path) as archive:
        members = {name: archive[name] for name in archive.files}
    header = json.loads(members.pop("header").tobytes()) | changes.pop("header", {})
    members |= {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **changes}
    np.savez(target, **{name: value for name, value in members.items() if value is not None})
    return target


def test_round_trip_to_the_bit(shield: Shield, tmp_path: Path) -> None:
    path = save_shield(shield, tmp_path / "deep" / "shield.npz")
    loaded = load_shield(path)
    for name, array in shield.model.arrays().items():
        other = loaded.model.arrays()[name]
        assert other.dtype == array.dtype
        assert other.tobytes() == array.tobytes()
    assert (loaded.threshold, loaded.fields, loaded.action_size) == (
        shield.threshold,
        shield.fields,
        shield.action_size,
    )
    assert loaded.config == shield.config
    assert loaded.metadata == shield.metadata
    assert loaded.digest == shield.digest
    rng = np.random.default_rng(0)
    for _ in range(20):
        low, action = rng.normal(size=4).astype(np.float32), rng.uniform(-1, 1, 7).astype(np.float32)
        before, after = shield.assess(low, action), loaded.assess(low, action)
        assert before[:5] == after[:5]
        assert np.array_equal(before.action, after.action)


def test_digest_depends_on_content_alone(shield: Shield, tmp_path: Path) -> None:
    first, second = save_shield(shield, tmp_path / "a.npz"), save_shield(shield, tmp_path / "b.npz")
    os.utime(first, (0, 0))
    assert load_shield(first).digest == load_shield(second).digest
    assert re.fullmatch("[0-9a-f]{32}", shield.digest)
    others = [
        dataclasses.replace(shield, threshold=np.nextafter(shield.threshold, 1)),
        dataclasses.replace(shield, metadata={}),
        dataclasses.replace(shield, config=dataclasses.replace(shield.config, alpha=0.1)),
        dataclasses.replace(shield, fields=tuple(reversed(shield.fields))),
    ]
    assert len({shield.digest, *(other.digest for other in others)}) == 5


def test_saving_twice_is_accepted_and_another_shield_is_a_conflict(shield: Shield, tmp_path: Path) -> None:
    path = save_shield(shield, tmp_path / "shield.npz")
    before = path.read_bytes()
    assert save_shield(shield, path) == path
    other = dataclasses.replace(shield, threshold=0.5)
    with pytest.raises(RecordConflictError, match="choose another path"):
        save_shield(other, path)
    assert path.read_bytes() == before
    with pytest.raises(InvalidInputError, match=re.escape("ends in .npz, got 'shield.pt'")):
        save_shield(shield, tmp_path / "shield.pt")


def test_a_failed_write_leaves_nothing(
    shield: Shield, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(RoepError, match="disk full"):
        save_shield(shield, tmp_path / "shield.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_files_are_named(shield: Shield, tmp_path: Path, share: float) -> None:
    content = save_shield(shield, tmp_path / "shield.npz").read_bytes()
    broken = tmp_path / "broken.npz"
    broken.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(
        InvalidInputError, match=re.escape(f"Expected a shield in {broken}, but the file is truncated")
    ):
        load_shield(broken)


def test_no_damage_passes_unnoticed(shield: Shield, tmp_path: Path) -> None:
    content = save_shield(shield, tmp_path / "shield.npz").read_bytes()
    broken, unnoticed = tmp_path / "broken.npz", 0
    for position in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        broken.write_bytes(bytes(damaged))
        try:
            # Bytes that only the archive's bookkeeping uses may change without changing the shield.
            assert load_shield(broken).digest == shield.digest
            unnoticed += 1
        except InvalidInputError:
            pass
    assert unnoticed < len(content) / 97 / 4


def test_damage_to_what_describes_the_arrays_is_refused_cleanly(shield: Shield, tmp_path: Path) -> None:
    content = save_shield(shield, tmp_path / "shield.npz").read_bytes()
    broken, refused = tmp_path / "broken.npz", 0
    start, directory = content.index(b"{'descr'"), content.index(b"PK\x01\x02")
    # The source text of an array's header, and an entry of the directory with its method and flags.
    for position in (*range(start, start + 60), *range(directory, directory + 46)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            broken.write_bytes(bytes(damaged))
            try:
                assert load_shield(broken).digest == shield.digest
            except InvalidInputError:
                refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f4', 'fortran_order': (False, 'shape': (3,), }", b'{"descr": """', b"  {\n {"]
)
def test_an_array_header_that_is_no_python_is_refused(shield: Shield, tmp_path: Path, header: bytes) -> None:
    path = save_shield(shield, tmp_path / "shield.npz")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = header.ljust(117) + b"\n"
    members["bias_0.npy"] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(InvalidInputError, match="truncated, damaged or no shield"):
        load_shield(path)


@pytest.mark.parametrize(
    "value", [None, True, -1, 10**400, float("inf"), "", "x", [], [float("inf")], [["a"]], {}]
)
def test_any_other_value_in_the_description_is_refused_cleanly(
    shield: Shield, tmp_path: Path, value: object
) -> None:
    description = json.loads(shield.description())
    for name in description:
        header = {"shield": {**description, name: value}}
        if description[name] == value:
            continue
        damaged = rewrite(save_shield(shield, tmp_path / "a.npz"), tmp_path / "b.npz", header=header)
        with pytest.raises(InvalidInputError, match=r"not valid|was altered") as caught:
            load_shield(damaged)
        assert len(str(caught.value)) < 5000


def test_other_files_are_refused(shield: Shield, tmp_path: Path) -> None:
    path, target = save_shield(shield, tmp_path / "shield.npz"), tmp_path / "other.npz"
    with pytest.raises(InvalidInputError, match="found none; train one or correct the path"):
        load_shield(tmp_path / "missing.npz")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"header": {"version": 1}}, "shield format version 2 in"),
        ({"header": {"format": "x"}}, "another kind of .npz file"),
        ({"weight_0": None}, "its content is not valid"),
        ({"bias_1": np.zeros(3, np.float32)}, "its content is not valid"),
        ({"zscore_mean": shield.model.zscore.mean + 1}, "the file was altered"),
        ({"header": {"shield": {}}}, "its content is not valid: 'threshold'"),
    ]
    for changes, message in cases:
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            load_shield(rewrite(path, target, **changes))
    np.savez(target, x=np.zeros(3))
    with pytest.raises(InvalidInputError, match="no shield"):
        load_shield(target)
    with target.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InvalidInputError, match="no shield"):
        load_shield(target)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    target = tmp_path / "pickled.npz"
    np.savez(target, header=np.array([{"format": "roep-gym shield"}], dtype=object))
    with pytest.raises(InvalidInputError, match="no shield"):
        load_shield(target)
