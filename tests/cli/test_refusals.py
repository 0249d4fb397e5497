"""What is wrong with a model, its data or the arguments is named, with its place."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.cli.calling import OPS, TRANSE, called, runs_here

BAD_MODELS = {
    "syntax error in the middle of a line": (TRANSE.replace("E[h] +", "E[h) +"), 5),
    "unknown name": (TRANSE.replace("E[h]", "Emb[h]"), 5),
    "shape mismatch": ("dim K = 32\n" + TRANSE.replace("R[relation, D]", "R[relation, K]"), 6),
    "index of the wrong set": (TRANSE.replace("E[h]", "E[r]"), 5),
    "nesting of 10,000 parentheses": (
        TRANSE.replace("E[h]", "(" * 10_000 + "E[h]" + ")" * 10_000),
        5,
    ),
    "script tag in the name": (TRANSE.replace("TransE(", "<script>alert(1)</script>("), 2),
}


@pytest.mark.parametrize("what", BAD_MODELS)
def test_a_bad_model_gets_its_line_and_a_caret(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, line = BAD_MODELS[what]
    path = tmp_path / "bad.emb"
    path.write_text(text, encoding="utf-8")
    status, out, err = called(capsys, "compile", path)
    assert (status, out) == (2, "")
    assert f"{path}:{line}:" in err
    assert "^" in err
    assert len(err) < 5_000
    status, out, _ = called(capsys, "compile", path, "--json")
    answer = json.loads(out)
    assert status == 2
    assert answer["ok"] is False
    assert answer["diagnostics"][0]["line"] == line


def test_a_run_of_a_bad_model_stops_at_the_diagnostics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.emb"
    path.write_text(BAD_MODELS["unknown name"][0], encoding="utf-8")
    status, out, err = called(capsys, "run", path, "--on", "cpu")
    assert (status, out) == (2, "")
    assert f"{path}:5:" in err


def test_bytes_that_are_not_utf8_get_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.emb"
    path.write_bytes(b"# caf\xc3\xa9\ndim D = \xe9\n")
    status, _, err = called(capsys, "compile", path)
    assert status == 2
    assert f"{path}:2:9: byte 0xe9 is not UTF-8 text\n  dim D = \ufffd\n          ^" in err


def test_a_file_of_10_mb_is_refused_with_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "big.emb"
    path.write_bytes(b"#" * 10_000_000)
    status, _, err = called(capsys, "compile", path)
    assert status == 2
    assert "64 KiB" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "nowhere.emb"], "nowhere.emb: cannot be read: No such file"),
        (["compile", "."], "cannot be read: Is a directory"),
        (["compile", "MODEL", "--stage", "slx"], "unknown stage 'slx' (did you mean 'slc'?)"),
        (["compile", "MODEL", "--set", "D:64"], "--set takes a dimension and a whole number"),
        (["compile", "MODEL", "--set", "D=-3"], "--set takes a dimension and a whole number"),
        (["compile", "MODEL", "--set", "Q=3"], "'Q'"),
        (["compile", "MODEL", "--option", "fast"], "--option takes NAME=VALUE"),
        (["compile", "MODEL", "--option", "fast=1"], "there is no option 'fast'"),
        (["compile", "MODEL", "--negatives", "tail:0"], "negatives take 1 to"),
        (["compile", "MODEL", "--negatives", "tail:4/0"], "negatives are shared by 1 to 1,048,576 triples, not by 0"),
        (["compile", "MODEL", "--negatives", "tail:4/"], "or of C triples in a row N/C, not 'tail:4/'"),
        (["compile", "MODEL", "--name", "Nobody"], "Nobody"),
        (["compile", "MODEL", "--all", "--stage", "slc"], "not allowed with"),
        (["compile"], "the following arguments are required"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["run", "MODEL"], "required: --on"),
        (["run", "MODEL", "--on", "tpu"], "invalid choice: 'tpu'"),
        (["run", "MODEL", "--on", "gpu"], "GPU"),
        (["run", "MODEL", "--on", "cpu", "--batch", "0"], "--batch takes a whole number from 1"),
        (["run", "MODEL", "--on", "cpu", "--batch", "many"], "invalid int value: 'many'"),
        (["run", "MODEL", "--on", "cpu", "--timeout", "-1"], "--timeout takes"),
        (["compile", "MODEL", "--set", "D=1000000000"], "not 1,000,000,000"),
        (["run", "MODEL", "--on", "dae", "--machine", "queue"], "--machine takes NAME=NUMBER"),
        (["run", "MODEL", "--on", "dae", "--machine", "queue_size=4"], "no parameter 'queue_size' (did you mean"),
        (["run", "MODEL", "--on", "dae", "--machine", "colour=3"], "the machine has no parameter 'colour'"),
        (["run", "MODEL", "--on", "dae", "--machine", "queue_bytes=999999999"], "999,999,999, but must lie between"),
        (
            ["run", "MODEL", "--on", "cpu", "--data", "FB15k-238"],
            "FB15k-238: no such file or data set (did you mean 'FB15k-237'?)",
        ),
        (["run", "MODEL", "--on", "cpu", "--data", "none.tsv"], "none.tsv: no such file or data set"),
        (["compile", "MODEL", "--set", "D=99999999999999999999"], "D=99999999999999999999 is too large"),
        (["bench", "nothing"], "unknown suite 'nothing'"),
        (["serve", "--port", "70000"], "--port takes a number from 0 to 65535"),
        (["serve", "--data-dir", "nowhere"], "no such folder"),
        (["serve", "--class-code", " "], "--class-code takes a word"),
        (["serve", "--class", "--class-size", "5"], "--class-size is for a class with a code"),
        (["serve", "--class-code", "x", "--class-size", "0"], "--class-size takes a number from 1 to 1000, not 0"),
        (["serve", "--instructor-token-file", "nowhere"], "--instructor-token-file nowhere: No such file"),
        (["serve", "--hand-ins", "/dev/null"], "--hand-ins /dev/null: File exists"),
        (["serve", "--proxy", "nginx"], "--proxy takes an address or a network, as in 10.0.0.0/8, not 'nginx'"),
        (["serve", "--queue", "nowhere"], "--queue takes redis://HOST:PORT or unix:///PATH, not 'nowhere'"),
        (["serve", "--web-processes", "2"], "--web-processes needs --queue: without one, runs wait in the memory"),
        (["serve", "--web-processes", "0"], "--web-processes takes a number from 1 to 64, not 0"),
        (["serve", "--web-processes", "2", "--queue", "nowhere"], "--queue takes redis://HOST:PORT or unix:///PATH"),
        (["serve", "--web-processes", "2", "--queue", "redis://x", "--port", "70000"], "--port takes a number from 0"),
        (["worker", "--queue", "nowhere"], "--queue nowhere: "),
        (["worker", "--queue", "unix:///nowhere/queue.sock", "--only", "cpu"], "the queue cannot be reached"),
        (["worker", "--queue", "redis://localhost", "--only", "cpu,tpu"], "--only takes targets, of gpu, cpu"),
        (["worker", "--queue", "redis://localhost", "--data-dir", "nowhere"], "no such folder"),
        (["worker"], "the following arguments are required: --queue"),
        (["serve", "--metrics-for", "all"], "--metrics-for takes an address or a network, as in 10.0.0.0/8, not 'all'"),
    ],
)
def test_bad_arguments_are_named(
    arguments: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(model) if word == "MODEL" else word for word in arguments]
    status, out, err = called(capsys, *words)
    assert (status, out) == (2, "")
    assert message in err
    if words[0] in ("compile", "run"):
        status, out, _ = called(capsys, *words, "--json")
        assert status == 2
        answer = json.loads(out)
        assert answer["ok"] is False
        assert message in json.dumps(answer["diagnostics"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "D=65000", "--memory", "2GiB"], "more than the limit of 2.00 GiB"),
        (["--on", "dae", "--machine", "queue_bytes=4"], "the data queue holds 4"),
    ],
)
def test_a_run_that_cannot_be_done_is_refused(
    arguments: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = called(capsys, "run", model, "--on", "cpu", *arguments, "--json")
    answer = json.loads(out)
    assert status == 2
    assert answer["ok"] is False
    assert answer["kind"] == "refused"
    assert message.lower() in answer["diagnostics"][0]["message"].lower()


@runs_here
def test_bad_data_names_the_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "ragged.tsv"
    data.write_text("a\tb\tc\na\tb\n", encoding="utf-8")
    status, _, err = called(capsys, "run", model, "--on", "cpu", "--data", data)
    assert status == 2
    assert "line 2" in err


def test_a_taken_port_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        status, out, err = called(capsys, "serve", "--port", str(port))
    assert (status, out) == (2, "")
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use: choose another" in err


@runs_here
@pytest.mark.parametrize(
    ("data", "message"),
    [("RM3:L9", "did you mean 'RM3:L"), ("com-Youtube/0", "can be divided by 1 to"), ("a.npz", "no such file")],
)
def test_data_that_an_op_cannot_use_is_named(capfd: pytest.CaptureFixture[str], data: str, message: str) -> None:
    status, _, err = called(capfd, "run", OPS / "sls.emb", "--on", "cpu", "--data", data)
    assert status == 2
    assert message in err


def test_a_server_is_not_given_less_memory_than_runs_usually_have(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, told = called(capsys, "serve", "--memory", "500MB")
    assert status == 2
    assert "--memory takes 2GiB or more, not 500MB" in told
