"""The coding of openpi's frames, byte for byte."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roep_gym.error import InvalidInputError
from roep_gym.policies.openpi import codec
from roep_gym.policies.openpi.codec import MAX_ENTRIES, pack, unpack

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
        np.zeros((2, 0, 3), dtype=np.float16),
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
    [
        np.zeros(2, dtype=complex),
        np.array([None]),
        np.zeros(2, dtype=[("a", "f4")]),
        np.complex64(1j),
        np.array(["put", "it"]),
        np.zeros(2, dtype="M8[s]"),
    ],
    ids=["complex", "object", "structured", "complex scalar", "text", "times"],
)
def test_refuses_to_write_kinds(array: object):
    with pytest.raises(InvalidInputError, match="Expected a real, plain dtype"):
        pack({"x": array})


def array_frame(**replaced: Any) -> bytes:
    entries = {"__ndarray__": True, "data": b"\0" * 8, "dtype": "<f8", "shape": [1], **replaced}
    return bytes(msgpack.packb({name.encode(): value for name, value in entries.items()}))


@pytest.mark.parametrize(
    "dtype",
    ["|O", "<c8", "|V8", "|S0", "|S8", "S0", "<U2", "<U0", "<M8[s]", "<m8", "|V0", "no dtype", "(2,-3)f4", "f4,f4",
     "<f16", "<i3", "object", "", 8, None, [["a", "<f8"]], b"<f8"],
)  # fmt: skip
def test_refuses_to_read_dtypes(dtype: object):
    with pytest.raises(InvalidInputError, match="Expected the dtype of an array"):
        unpack(array_frame(dtype=dtype))
    with pytest.raises(InvalidInputError, match="Expected the dtype of an array"):
        unpack(msgpack.packb({b"__npgeneric__": True, b"data": 1, b"dtype": dtype}))


@pytest.mark.parametrize(
    "shape",
    [[-1], [-1, -1], [True], [1.0], ["1"], [None], [1] * 9, [2**62, 4], 1, None, {"1": 1}, [[1]], b"\1"],
    ids=repr,
)
def test_refuses_to_read_shapes(shape: object):
    with pytest.raises(InvalidInputError, match="Expected the shape of an array"):
        unpack(array_frame(shape=shape))


@pytest.mark.parametrize("replaced", [{"shape": [2]}, {"shape": [0]}, {"data": b""}, {"dtype": "<f4"}])
def test_the_data_of_an_array_have_the_size_of_its_shape(replaced: dict[str, Any]):
    replaced = {"shape": [3], **replaced}
    with pytest.raises(InvalidInputError, match="bytes for an array of float"):
        unpack(array_frame(**replaced))


def test_the_frame_that_killed_the_server_is_refused():
    frame = b"\x81\xa1x" + array_frame(data=b"", dtype="S0", shape=[-1])
    assert len(frame) == 45
    with pytest.raises(InvalidInputError, match=r"Expected the dtype .*, got 'S0'"):
        unpack(frame)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (300, "|u1"),
        (1e300, "<f4"),
        (-1, "|u1"),
        (1.5, "<i4"),
        ("1", "<f8"),
        ([1], "<f8"),
        (True, "<i4"),
        (1, "|b1"),
    ],
)
def test_refuses_numbers_that_the_dtype_does_not_hold(data: object, dtype: str):
    with pytest.raises(InvalidInputError, match="Expected a number"):
        unpack(msgpack.packb({b"__npgeneric__": True, b"data": data, b"dtype": dtype}))


@pytest.mark.parametrize(
    "frame",
    [
        b"\xc1",
        b"\x81",
        EXAMPLE + b"\0",
        b"\x91" * 5000 + b"\xc0",
        b"\xa1\xff",
        b"\xc7\x0c\xff" + b"\xff" * 12,
        msgpack.packb({1: 2}),
        msgpack.packb([0] * (MAX_ENTRIES + 1)),
    ],
    ids=[
        "reserved byte",
        "cut off",
        "too long",
        "nested",
        "no UTF-8",
        "a time",
        "a number as key",
        "long list",
    ],
)
def test_refuses_malformed_frames(frame: bytes):
    with pytest.raises(InvalidInputError, match="Expected a MessagePack frame"):
        unpack(frame)


def test_the_keys_of_a_map_are_text():
    with pytest.raises(InvalidInputError, match="Expected the keys of a map to be text, got b'data'"):
        unpack(msgpack.packb({b"data": 2}))


def test_a_frame_of_many_small_things_is_refused():
    header = b"\xdc" + MAX_ENTRIES.to_bytes(2, "big")
    many = header + (header + b"\x80" * MAX_ENTRIES) * MAX_ENTRIES
    with pytest.raises(InvalidInputError, match="Expected at most 65536 entries in a frame, got more"):
        unpack(many)


def test_a_frame_has_a_largest_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codec, "MAX_FRAME_BYTES", len(EXAMPLE) - 1)
    with pytest.raises(InvalidInputError, match="Expected a frame of at most"):
        unpack(EXAMPLE)
    with pytest.raises(InvalidInputError, match="Expected a frame of at most"):
        pack({"x": np.array([1, 2, 3], dtype=np.uint8)})


NATIVE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=8),
        st.binary(max_size=16),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
        st.fixed_dictionaries(
            {b"__ndarray__": inner},
            optional={
                b"data": st.one_of(st.binary(max_size=16), inner),
                b"dtype": st.one_of(st.sampled_from(["S0", "<f4", "|u1", "|b1", "<U0", "V0"]), inner),
                b"shape": st.one_of(st.lists(st.integers(-2, 5), max_size=3), inner),
            },
        ),
        st.fixed_dictionaries(
            {b"__npgeneric__": inner, b"dtype": st.sampled_from(["<f2", "<f4", "|u1", "|b1", "<i8"])},
            optional={b"data": inner},
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(NATIVE)
@example({b"__ndarray__": True, b"data": b"", b"dtype": "S0", b"shape": [-1]})
def test_any_value_is_decoded_or_refused(value: Any):
    _decoded_or_refused(msgpack.packb(value))


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(EXAMPLE)), st.integers(0, len(EXAMPLE)))
def test_any_bytes_are_decoded_or_refused(noise: bytes, start: int, end: int):
    _decoded_or_refused(noise)
    _decoded_or_refused(EXAMPLE[:start] + noise + EXAMPLE[end:])


def _decoded_or_refused(frame: bytes) -> None:
    try:
        value = unpack(frame)
    except InvalidInputError:
        return
    assert pack(unpack(pack(value))) == pack(value)


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
