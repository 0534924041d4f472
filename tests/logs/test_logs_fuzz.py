"""Any bytes give curves or one ValueError of one plain line: no other exception, no hang, no memory without bound."""

import json
import math
import os
import sqlite3
import struct
import sys
import tempfile
import tracemalloc
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

sys.path.insert(0, str(Path(__file__).parent))

from logs_corpus import database, record

from oneclock import logs, plain_text
from oneclock.advise import advise
from oneclock.logs.formats import tensorboard
from oneclock.logs.read import READERS, read_as
from oneclock.logs.source import Wanted

QUICK = settings(
    max_examples=int(os.environ.get("ONECLOCK_FUZZ", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def events():
    first = Event(wall_time=1.0, file_version="brain.Event:2")
    rest = []
    for step in range(12):
        one = Event(wall_time=1.0, step=step * 100)
        one.summary.value.add(tag="val/loss", simple_value=1 / (step + 1))
        tensor = one.summary.value.add(tag="eval/loss").tensor
        tensor.dtype = 1
        tensor.float_val.append(step)
        rest.append(one)
        plain = Event(wall_time=1.0, step=step * 100)
        plain.summary.value.add(tag="loss", simple_value=1 / (step + 1))
        rest.append(plain)
    return [one.SerializeToString() for one in [first, *rest]]


def piece(kind, data):
    return struct.pack("<IHB", zlib.crc32(data, zlib.crc32(bytes([kind]))), len(data), kind) + data


def field(number, data):
    """A field of bytes, or of a number, as protocol buffers write it."""
    if isinstance(data, int):
        return bytes([number << 3, *_varint(data)])
    return bytes([*_varint(number << 3 | 2), *_varint(len(data))]) + data


def _varint(value):
    while value >= 128:
        yield value & 127 | 128
        value >>= 7
    yield value


def run_file():
    """A run file with old and new items in it, and one record over three blocks."""
    records = [
        field(17, field(1, b"abc") + field(8, b"the run") + field(4, field(1, field(1, b"lr") + field(16, b"0.1"))))
    ]
    for step, loss in POINTS:
        old = field(1, field(2, b"val") + field(2, b"loss") + field(16, b"%f" % loss))
        new = field(1, field(1, b"train/loss") + bytes([6 << 3 | 1]) + struct.pack("<d", 2.0))
        records.append(field(2, old + new + field(2, field(1, step))))
    data, at = b":W&B\xe1\xbe\0", 7
    for whole in [*records, field(4, b"x" * 70_000)]:
        kind, rest = 1, whole
        while rest or kind == 1:
            room = 32768 - at % 32768 - 7
            if room < 0:
                data, at = data + b"\0" * (room + 7), at + room + 7
                continue
            part, rest = rest[:room], rest[room:]
            kind = 1 if part == whole else 2 if kind == 1 else 4 if not rest else 3
            data, at = data + piece(kind, part), at + 7 + len(part)
            if not rest:
                break
    return data


POINTS = [(step * 100, 1 / (step + 1)) for step in range(12)]
HISTORY = [{"step": step, "eval_loss": loss, "epoch": step / 100} for step, loss in POINTS]
SAMPLES = {
    "TensorBoard events": b"".join(map(record, events())),
    "MLflow database": database(
        [
            "CREATE TABLE metrics (key TEXT, value FLOAT, timestamp INT, run_uuid TEXT, step INT, is_nan BOOL, "
            "PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan))",
            "CREATE TABLE runs (run_uuid TEXT, name TEXT)",
            "CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT)",
            "INSERT INTO runs VALUES ('a', 'run')",
            "INSERT INTO params VALUES ('adam_beta1', '0.9', 'a')",
            *(f"INSERT INTO metrics VALUES ('val_loss', {loss}, {step}, 'a', {step}, 0)" for step, loss in POINTS),
        ]
    ),
    "transformers trainer_state.json": json.dumps(
        {"global_step": 1100, "log_history": HISTORY, "max_steps": 1100, "num_train_epochs": 3}
    ).encode(),
    "W&B CSV export": b'"Step","a - val/loss","a - val/loss__MIN","a - val/loss__MAX"\n'
    + b"".join(b'"%d","%f","%f","%f"\n' % (step, loss, loss, loss) for step, loss in POINTS),
    "Lightning CSVLogger": b"epoch,step,train_loss,val_loss\n"
    + b"".join(b"0,%d,1.0,\n0,%d,,%f\n" % (step, step, loss) for step, loss in POINTS),
    "CSV of Keras": b"epoch,loss,val_loss\n" + b"".join(b"%d,1.0,%f\n" % (s // 100, loss) for s, loss in POINTS),
    "JSON lines": "".join(json.dumps(entry) + "\n" for entry in HISTORY).encode(),
    "W&B run file": run_file(),
    "JSON document": json.dumps(HISTORY, indent=1).encode(),
    "long CSV": b"step,metric,value\n" + b"".join(b"%d,train_loss,2\n%d,val_loss,%f\n" % (s, s, v) for s, v in POINTS),
    "terminal output": b"hello\n" + b"".join(b"step %d: train loss 2.0, val loss %f\n" % point for point in POINTS),
    "CSV": b"seed;step;val_loss\n" + b"".join(b"1;%d;%f\n" % point for point in POINTS),
    "oneclock record": "".join(json.dumps({"step": s, "val_loss": loss}) + "\n" for s, loss in POINTS).encode(),
}
RUN = {
    "schema": 1,
    "experiment": "a",
    "beta": 0.9,
    "seed": 1,
    "budget": 1200,
    "split": "development",
    "spec": {},
    "environment": {},
}
FORMATS = {  # of samples that are not called after what reads them
    **dict.fromkeys(["MLflow database", "MLflow file store"], "MLflow"),
    **dict.fromkeys(["W&B CSV export", "Lightning CSVLogger", "CSV of Keras", "long CSV"], "CSV"),
    **dict.fromkeys(["JSON lines", "JSON document", "transformers trainer_state.json"], "JSON"),
}
NAMED = {"CSV of Keras": "CSV", "long CSV": "CSV"}


def reader_of(sample):
    return next(reader for reader in READERS if FORMATS.get(sample, sample) == reader.FORMAT)


def written(folder, format, data):
    path = folder / ("curve.jsonl" if format == "oneclock record" else "log")
    path.write_bytes(data)
    if format == "oneclock record":
        (folder / "run.json").write_text(json.dumps(RUN))
    if format == "Lightning CSVLogger":
        (folder / "hparams.yaml").write_text("lr: 0.1\nbetas:\n- 0.9\n- 0.95\n")
    return path


def curves_or_one_error(read):
    """What was read, after a look at whether it makes sense and an advice on it, or None after one plain line."""
    message = ""
    try:
        log = read()
        words = str(advise(log))
    except ValueError as error:
        log, words, message = None, "", str(error)
    assert bool(message) == (log is None)
    assert plain_text.printable(message + words.replace("\n", "")) == message + words.replace("\n", "")
    for curve in log.curves if log is not None else ():
        assert all(before < after < 2**60 for before, after in pairwise((-1, *curve.steps)))
        assert any(map(math.isfinite, curve.losses))
    return log


def points(log):
    """How many evaluations were read: never more than there can have been."""
    return 0 if log is None else sum(len(curve.steps) for curve in log.curves)


def both_ways(format, data):
    """Read the bytes as what they look like, and as that format, which is handed back."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), format, data)
        curves_or_one_error(lambda: logs.read_log(path))
        return curves_or_one_error(lambda: read_as(reader_of(format), path, Wanted()))


def test_every_reader_is_here():
    assert {reader_of(format).FORMAT for format in SAMPLES} == {reader.FORMAT for reader in READERS}


@pytest.mark.parametrize("format", SAMPLES)
def test_samples_are_read(format, tmp_path):
    log = logs.read_log(written(tmp_path, format, SAMPLES[format]))
    assert log.format.split(", ")[0] == NAMED.get(format, format)
    assert len(log.curves[0].steps) == len(POINTS)


@pytest.mark.parametrize("format", SAMPLES)
@QUICK
@given(data=st.data())
def test_any_bytes(format, data):
    magic = data.draw(st.sampled_from([b"", b"{", b"step,val_loss\n", SAMPLES[format][:100]]))
    content = magic + data.draw(st.binary(max_size=400))
    assert points(both_ways(format, content)) <= len(content)


METRIC = b"".join(b"%d %f %d\n" % (step, loss, step) for step, loss in POINTS)
FOLDERS = {
    "MLflow file store": {"0/a/meta.yaml": b"run_name: a\n", "0/a/metrics/val_loss": METRIC, "0/a/params/lr": b"0.1"},
    "transformers trainer_state.json": {
        f"checkpoint-{step}/trainer_state.json": SAMPLES["transformers trainer_state.json"] for step in (100, 1100)
    },
    "TensorBoard events": {
        name: SAMPLES["TensorBoard events"] for name in ("events.out.tfevents.1", "events.out.tfevents.2")
    },
    "Lightning CSVLogger": {"metrics.csv": SAMPLES["Lightning CSVLogger"], "hparams.yaml": b"lr: 0.1\n"},
    "CSV": {"losses.csv": SAMPLES["CSV"]},
}


def laid_out(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("format", FOLDERS)
def test_sample_folders_are_read(format, tmp_path):
    log = logs.read_log(laid_out(tmp_path, FOLDERS[format]))
    assert log.format == format
    assert len(log.curves[0].steps) == len(POINTS)


@pytest.mark.parametrize("format", FOLDERS)
@QUICK
@given(data=st.data())
def test_any_bytes_in_folders(format, data):
    """Each file of the layout whole, cut or replaced, and odd files beside them: curves with advice, or one error."""
    contents = st.one_of(st.binary(max_size=300), st.sampled_from([b"", b"\0" * 64, METRIC[:50], b"[[[["]))
    files = {name: data.draw(st.one_of(st.just(whole), contents)) for name, whole in FOLDERS[format].items()}
    odd = data.draw(st.dictionaries(st.sampled_from(["x.csv", "y.json", "checkpoint-x/a", "0/b/meta.yaml"]), contents))
    with tempfile.TemporaryDirectory() as folder:
        path = laid_out(Path(folder), files | odd)
        log = curves_or_one_error(lambda: logs.read_log(path))
        assert points(log) <= sum(map(len, (files | odd).values()))


@pytest.mark.parametrize("format", SAMPLES)
@QUICK
@given(data=st.data())
def test_damaged_files(format, data):
    sample = bytearray(SAMPLES[format])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, max(len(sample) - 1, 0)))
        kind = data.draw(st.sampled_from(["cut", "flip", "insert", "repeat", "delete"]))
        if kind == "cut":
            del sample[at:]
        elif kind == "flip" and sample:
            sample[at] ^= data.draw(st.integers(1, 255))
        elif kind == "insert":
            sample[at:at] = data.draw(st.binary(max_size=20))
        elif kind == "repeat":
            sample[at:at] = sample[at : at + data.draw(st.integers(1, 64))]
        elif kind == "delete":
            del sample[at : at + data.draw(st.integers(1, 64))]
    assert points(both_ways(format, bytes(sample))) <= len(sample)


@pytest.mark.parametrize("format", SAMPLES)
@QUICK
@given(data=st.data())
def test_a_cut_file_makes_nothing_up(format, data):
    """All but the last value, which may itself be cut, is what was written, at the step it was written."""
    log = both_ways(format, SAMPLES[format][: data.draw(st.integers(0, len(SAMPLES[format])))])
    if log is not None and log.metric not in ("loss", "train_loss", "train/loss", "value"):
        scale = 100 if log.unit == "epochs" else 1
        known = {(step / scale + (log.unit == "epochs"), round(loss, 6)) for step, loss in POINTS}
        curve = log.curves[0]
        read = [(step, round(loss, 6)) for step, loss in zip(curve.steps, curve.losses, strict=True)]
        assert set(read[:-1]) <= known


NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(10**30), 10**30),
    st.sampled_from(["", "NaN", "-inf", "1e999", "abc", "9" * 5000, "-0.0"]),
)


@QUICK
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_strange_numbers(rows):
    text = "step,val_loss\n" + "".join(f"{step},{loss}\n" for step, loss in rows)
    plain, wide = (both_ways("CSV", text.encode(encoding)) for encoding in ("utf-8", "utf-16"))
    assert points(plain) == points(wide) <= len(rows)
    lines = "".join(json.dumps({"step": step, "val_loss": loss}) + "\n" for step, loss in rows)
    assert points(both_ways("JSON lines", lines.encode())) <= len(rows)


@QUICK
@given(st.lists(st.binary(max_size=60), max_size=8), st.data())
def test_framed_bytes_and_damaged_messages(messages, data):
    whole = events()
    one = bytearray(data.draw(st.sampled_from(whole)))
    one[data.draw(st.integers(0, len(one) - 1))] ^= data.draw(st.integers(1, 255))
    records = [*whole[:3], *messages, bytes(one), *whole[3:6]]
    assert points(both_ways("TensorBoard events", b"".join(map(record, records)))) <= sum(map(len, records))


@QUICK
@given(
    st.integers(0, 2**63 - 1),
    st.text(st.characters(codec="utf-8"), max_size=200),
    st.floats(width=32, allow_nan=False),
    st.booleans(),
)
def test_messages_as_protobuf_reads_them(step, tag, value, tensor):
    whole = Event(wall_time=2.0, step=step)
    one = whole.summary.value.add(tag=tag)
    if tensor:
        one.tensor.dtype = 2
        one.tensor.double_val.append(value)
    else:
        one.simple_value = value
    data = whole.SerializeToString()
    [(found, name, content)] = tensorboard.values(data)
    assert (found, name, tensorboard.number_in(content)) == (step, tag, value)
    assert tensorboard.masked_crc(data) == masked_crc32c(data)


BOMBS = {
    "a length of an exabyte": ("TensorBoard events", SAMPLES["TensorBoard events"] + record(b"")[:0] + b"".join(
        [struct.pack("<Q", 2**60), struct.pack("<I", masked_crc32c(struct.pack("<Q", 2**60)))]
    )),
    "brackets without end": ("JSON lines", b'{"step": ' + b"[" * 900_000),
    "nested objects": ("transformers trainer_state.json", b'{"log_history": ' + b'{"a":' * 200_000),
    "one line without end": ("CSV", b"step,val_loss\n" + b"1" * 40_000_000),
    "a quote never closed": ("CSV", b'step,val_loss\n1,"' + b"\n" * 1_000_000),
    "a number of a million digits": ("JSON lines", b'{"step": 1, "val_loss": ' + b"9" * 1_000_000 + b"}"),
    "many columns": ("CSV", b",".join(b"a%d" % i for i in range(200_000)) + b"\n" + b",".join([b"1"] * 200_000)),
    "an array without end": ("JSON document", b"[" + b"[]," * 100_000),
    "an object without end": ("JSON document", b"{" + b",".join(b'"a%d": [1,2]' % i for i in range(10_000))),
    "lines of digits": ("terminal output", (b"step " + b"1" * 1900 + b" loss\n") * 500),
    "lines of words": ("terminal output", (b"loss " * 400 + b"\n") * 200),
    "many iterations in a line": ("terminal output", (b"iteration 1/1 |" * 130 + b"\n") * 200),
    "quotes on every line": ("CSV", b"step,val_loss\n" + b'1,"\n' * 20_000),
    "many metrics": ("JSON lines", b"".join(b'{"step": 1, "loss%d": 1}\n' % i for i in range(6_000))),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs(bomb):
    format, data = BOMBS[bomb]
    tracemalloc.start()
    try:
        both_ways(format, data)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def test_a_database_that_computes_for_ever(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (run_uuid TEXT, name TEXT)")
        connection.execute(
            "CREATE VIEW metrics AS WITH RECURSIVE n(step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM n) "
            "SELECT 'loss' AS key, 1.0 AS value, 'a' AS run_uuid, step, 0 AS is_nan, 0 AS timestamp FROM n"
        )
    connection.close()
    with pytest.raises(ValueError, match="without MLflow's tables"):
        logs.read_log(path)
    with pytest.raises(ValueError, match="no table 'metrics' with the stored columns"):
        read_as(reader_of("MLflow database"), path, Wanted())
