"""JSON from untrusted files: values that would take too much memory are refused before they are created."""

import json
import tracemalloc

import pytest

from splat_cli.io import json_input
from splat_cli.io.json_input import parse_json, read_json_text

CAMERA = {
    "img_name": "frame_00001.jpg",
    "fx": 1000.25,
    "position": [0.1] * 3,
    "rotation": [[0.123456789012345] * 3] * 3,
}
TEXTS = {
    "lists": "[" + "[]," * 20_000 + "1]",
    "lists in lists": "[" + "[[[[1]]]]," * 5000 + "1]",
    "objects": "[" + "{}," * 20_000 + "1]",
    "objects in objects": "[" + '{"a":{"b":{"c":{}}}},' * 5000 + "1]",
    "keys": json.dumps({str(number): 0 for number in range(20_000)}),
    "short lists": "[" + "[1,2,3,4,5]," * 5000 + "1]",
    "numbers": "[" + "0.1," * 20_000 + "1]",
    "texts": "[" + '"ab",' * 20_000 + "1]",
    "wide text": '["' + "\U0001f700" * 20_000 + '"]',
    "objects of 6": json.dumps([{str(key): key for key in range(6)}] * 5000),
    "objects of 11": json.dumps([{str(key): key for key in range(11)}] * 5000),
    "cameras": json.dumps([CAMERA] * 2000),
}


@pytest.mark.parametrize("name", TEXTS)
def test_values_take_no_more_than_estimated(name):
    text = TEXTS[name]
    estimate = json_input._value_bytes(text, json_input._num_repeated_keys(text))
    tracemalloc.start()
    json.loads(text, object_pairs_hook=json_input._without_repeated_keys)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= estimate - len(text)


def test_too_many_values_are_refused():
    with pytest.raises(ValueError, match="too many values for 6,000,003 characters"):
        parse_json("[" + "[]," * 2_000_000 + "1]")


def test_maximum_number_of_cameras_is_read():
    text = json.dumps([CAMERA] * (1 << 16), indent=1)
    assert len(parse_json(text)) == 1 << 16


def test_deeply_nested_values_are_refused():
    with pytest.raises(ValueError, match="nested"):
        parse_json("[" * 100_000)


def test_too_long_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_input, "MAX_JSON_BYTES", 20)
    (tmp_path / "a.json").write_text(json.dumps(list(range(20))))
    with pytest.raises(ValueError, match="longer than 20 bytes"):
        read_json_text(tmp_path / "a.json")


@pytest.mark.parametrize("text", ['{"fx": 1, "fx": 2}', '[{"a": {"b": [{"c": 1, "d": 2, "c": 1}]}}]'])
def test_repeated_keys_are_refused(text):
    with pytest.raises(ValueError, match="an object has the key '(fx|c)' more than once"):
        parse_json(text)
