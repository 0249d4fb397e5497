"""Ends that a command does not choose: Ctrl-C, a time limit, a reader that leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.cli.calling import explorer


def _interruptible(command: list[str]) -> subprocess.Popen[str]:
    """A process that Ctrl-C ends also where the tests run in a shell's background, which ignores it."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_run_over_its_time_fails(model: Path) -> None:
    shown = explorer("run", model, "--on", "cpu", "--repeat", "10000000", "--timeout", "1.5")
    assert shown.returncode == 1
    assert "time limit" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_ctrl_c_ends_with_a_line_and_130(model: Path) -> None:
    command = [sys.executable, "-m", "explorer.cli", "run", str(model), "--on", "cpu", "--repeat", "10000000"]
    with _interruptible(command) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("running"):
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=250)
    assert process.returncode == 130
    assert err.strip() == "explorer: stopped"


def test_a_reader_that_leaves_early_is_no_error(model: Path) -> None:
    command = f"{sys.executable} -m explorer.cli compile {model} --all --json | head -c 10"
    shown = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=250, check=True)
    assert "Traceback" not in shown.stderr
    assert "Exception" not in shown.stderr


def test_serve_says_where_it_is_and_ctrl_c_ends_it() -> None:
    command = [sys.executable, "-m", "explorer.cli", "serve", "--port", "0"]
    with _interruptible(command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = line.rpartition(":")[2].partition("/")[0]
        assert f"http://127.0.0.1:{port}/" in line
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=250).status_code == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=250)
    assert process.returncode == 130
    assert err.strip() == "explorer: stopped"


def test_ctrl_c_while_the_server_starts_ends_it_too() -> None:
    script = """if True:
        import os, signal, sys, uvicorn
        from explorer.cli import main
        real = uvicorn.Config.get_loop_factory
        def interrupted(config):
            os.kill(os.getpid(), signal.SIGINT)
            return real(config)
        uvicorn.Config.get_loop_factory = interrupted
        sys.exit(main(["serve", "--port", "0"]))
    """
    with _interruptible([sys.executable, "-c", script]) as process:
        _, err = process.communicate(timeout=250)
    assert process.returncode == 130
    assert err.strip() == "explorer: stopped"
