"""The coding of openpi's frames, byte for byte."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest

from roep_gym.error import InvalidInputError
from roep_gym.policies.openpi.codec import pack, unpack

EXAMPLE = bytes.fromhex(
    "81 a1 78 84 c4 0b 5f5f6e6461727261795f5f c3 c4 04 64617461 c4 03 010203 c4 05 6474797065 a3 7c7531 "
    "c4 05 7368617065 91 03"
)


def test_bytes_of_an_array():
    assert pack({"x": np.array([1, 2, 3], dtype=np.uint8)}) == EXAMPLE


def test_reads_the_bytes_of_an_array():
    array = unpack(EXAMPLE)["x"]
    assert array.dtype == np.uint8
    assert array.tolist() == [1, 2, 3]
    assert not array.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float64).reshape(2, 3, 4),
        np.arange(24, dtype=np.float32).reshape(4, 6).T,
        np.zeros((0, 7), dtype=np.float32),
        np.array(3.5),
        np.array([True, False]),
        np.array([1, -2], dtype=">i4"),
        np.array(["put", "it"]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_survive(array: np.ndarray):
    returned = unpack(pack([array]))[0]
    assert returned.dtype == array.dtype
    np.testing.assert_array_equal(returned, array)


@pytest.mark.parametrize("scalar", [np.float32(0.1), np.int64(-3), np.bool_(True)])
def test_scalars_survive(scalar: np.generic):
    returned = unpack(pack({"s": scalar}))["s"]
    assert type(returned) is type(scalar)
    assert returned == scalar


def test_a_double_is_a_plain_number():
    assert pack(np.float64(0.1)) == pack(0.1)


@pytest.mark.parametrize(
    "array",
    [np.zeros(2, dtype=complex), np.array([None]), np.zeros(2, dtype=[("a", "f4")]), np.complex64(1j)],
    ids=["complex", "object", "structured", "complex scalar"],
)
def test_refuses_to_write_kinds(array: object):
    with pytest.raises(InvalidInputError, match="Expected a real, plain dtype"):
        pack({"x": array})


@pytest.mark.parametrize("dtype", ["|O", "<c8", "|V8"])
def test_refuses_to_read_kinds(dtype: str):
    frame = msgpack.packb({b"__ndarray__": True, b"data": b"\0" * 8, b"dtype": dtype, b"shape": [1]})
    with pytest.raises(InvalidInputError, match="an array of dtype"):
        unpack(frame)


@pytest.mark.parametrize(
    "frame",
    [
        b"\xc1",
        b"\x81",
        EXAMPLE + b"\0",
        msgpack.packb({b"__ndarray__": True, b"data": b"\0", b"dtype": "<f8", b"shape": [1]}),
        msgpack.packb({b"__ndarray__": True, b"dtype": "<f8", b"shape": [1]}),
        msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": "no dtype", b"shape": [0]}),
    ],
    ids=["reserved byte", "cut off", "too long", "short data", "no data", "bad dtype"],
)
def test_refuses_malformed_frames(frame: bytes):
    with pytest.raises(InvalidInputError, match="Expected a MessagePack frame"):
        unpack(frame)


def test_refuses_values_without_a_coding():
    with pytest.raises(InvalidInputError, match="got a object"):
        pack({"x": object()})


def test_agrees_with_openpis_own_package():
    theirs = pytest.importorskip("openpi_client.msgpack_numpy", reason="needs the extra 'servers'")
    message = {
        "observation/image": np.arange(12, dtype=np.uint8).reshape(2, 2, 3),
        "observation/state": np.linspace(0, 1, 8),
        "prompt": "turn on the stove",
        "n": np.float32(0.25),
        "nested": {"list": [1, 2.5, None, True]},
    }
    assert pack(message) == theirs.packb(message)
    np.testing.assert_equal(unpack(theirs.packb(message)), theirs.unpackb(pack(message)))
