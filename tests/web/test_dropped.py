"""Files that students drop: what is read of them, who may run on them, how long they stay, and what is refused."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from explorer.runtime.data.offered import offers_of
from explorer.runtime.data.triples import InputError
from explorer.runtime.runs import events
from explorer.runtime.runs.events import Event
from explorer.web import limits
from explorer.web.app import create_app
from explorer.web.dropped.files import FOLDER, DroppedFiles, NotTakenError
from explorer.web.dropped.routes import shown_name
from explorer.web.entrance.students import COOKIE
from tests.web.held import without_processes
from tests.web.test_socket import events_of, order

TRIPLES = b"anna\tknows\tben\nben\tknows\tcleo\n"
BAGS = {"ptr": [0, 2, 5], "idx": [1, 0, 2, 2, 1], "num_rows": 3}
SUM = "op Sum(b: bag of row):\n    param T[row, 4]\n    return sum(T[i] for i in b)\n"


def archive(**arrays: Any) -> bytes:
    found = io.BytesIO()
    np.savez(found, **{name: np.array(values) for name, values in arrays.items()})
    return found.getvalue()


def _another(client: TestClient) -> TestClient:
    """A browser without a cookie, before the same server in the same event loop."""
    found = TestClient(client.app)
    found.portal = client.portal
    return found


@pytest.fixture
def student(client: TestClient) -> TestClient:
    """A browser with a cookie that no other test has."""
    fresh = _another(client)
    fresh.get("/")
    return fresh


def drop(student: TestClient, body: bytes, name: str = "mine.tsv", status: int = 201) -> dict[str, Any]:
    response = student.post("/api/data", params={"name": name}, content=body)
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    return found


def names(student: TestClient, family: str) -> list[str]:
    return [entry["label"] for entry in student.get(f"/api/data?family={family}").json() if not entry["generated"]]


def test_triples_are_data_of_every_family_for_their_student_alone(
    student: TestClient, client: TestClient, transe: str
) -> None:
    kept = drop(student, TRIPLES, "../../etc/friends.tsv")
    assert kept["label"] == "friends.tsv"
    assert kept["name"].startswith("dropped-")
    assert "friends" not in kept["name"]
    assert names(student, "score")[0] == "friends.tsv (dropped)"
    assert names(student, "layer")[0] == "friends.tsv (dropped, with inverse triples)"
    assert "friends.tsv (triples as a matrix) (dropped)" in names(student, "op")
    assert not any("friends" in label for label in names(client, "score"))
    with student.websocket_connect("/ws") as socket:
        socket.send_json(order(1, transe, data=kept["name"], batch=2))
        last = events_of(socket, 1)[-1]
    assert last["event"] == "result", last
    assert last["matches_reference"]
    assert last["data"]["triples"] == 2
    layer = (Path(__file__).parents[2] / "examples/rgnn/rgcn.emb").read_text()
    compiled = student.post("/api/compile", json={"text": layer, "data": kept["name"], "stages": []}).json()
    assert compiled["ok"]
    assert compiled["data"] == kept["name"]


def test_lists_are_data_of_ops_of_their_kind(student: TestClient) -> None:
    kept = drop(student, archive(**BAGS), "bags.npz")
    assert set(kept["offers"]) == {"op"}
    assert kept["offers"]["op"]["for"] == "bag"
    response = student.post("/api/run", json={"text": SUM, "on": "cpu", "data": kept["name"], "repeat": 1})
    assert response.json()["ok"], response.text
    assert response.json()["data"]["entries"] == 5
    assert student.get("/api/locality", params={"data": kept["name"]}).json()["accesses"] == 5


def pickled() -> bytes:
    found = io.BytesIO()
    two = np.array(2)
    np.savez(found, train=np.array([["a", 1, {}]], dtype=object), num_entities=two, num_relations=two)
    return found.getvalue()


def claiming(**sizes: int) -> bytes:
    """An archive whose arrays' headers claim so many elements, and hold none."""
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as made:
        for name, size in sizes.items():
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (size, 3)})
            made.writestr(f"{name}.npy", header.getvalue())
        made.writestr("num_entities.npy", archive_member(2))
        made.writestr("num_relations.npy", archive_member(2))
    return found.getvalue()


def archive_member(value: int) -> bytes:
    found = io.BytesIO()
    np.save(found, np.array(value))
    return found.getvalue()


@pytest.mark.parametrize(
    ("body", "name", "status", "told"),
    [
        (b"a\tr\tb\na r b\n", "spaces.tsv", 422, "spaces.tsv: line 2: expected head TAB relation TAB tail"),
        (b"a\tr\tb\n\xff\tr\tb\n", "bytes.tsv", 422, "bytes.tsv: line 2: not UTF-8 text"),
        (b"", "none.tsv", 422, "The file is empty."),
        (b"\x1f\x8b\x08\x00", "packed.tsv.gz", 422, "packed by gzip"),
        (b"PK\x03\x04 and no more", "torn.npz", 422, "torn.npz: "),
        (archive(idx=[1, 2]), "half.npz", 422, "half.npz: there is no array 'train' (it holds idx)"),
        (archive(ptr=[0, 9], idx=[1]), "far.npz", 422, "far.npz: ptr ends with 9, but idx has 1 entries"),
        (pickled(), "objects.npz", 422, "objects.npz: array 'train' holds object, not integers"),
        (claiming(train=10**12), "claim.npz", 422, "claim.npz: array 'train' is cut short"),
        (archive(**{f"a{at}": 1 for at in range(80)}), "many.npz", 422, "many.npz: it holds 80 arrays, more than 64"),
        (b"0" * (limits.DROPPED_BYTES + 1), "long.tsv", 413, "larger than 16 MiB"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,  # an archive has the time in it
)
def test_what_is_no_data_is_refused_in_words(
    student: TestClient, body: bytes, name: str, status: int, told: str
) -> None:
    answer = drop(student, body, name, status)
    assert told in answer["diagnostics"][0]["message"]
    assert "dropped-" not in json.dumps(answer)
    assert not any(name in label for label in names(student, "score"))


def test_an_archive_that_unpacks_to_more_than_it_may_is_not_read(student: TestClient) -> None:
    found = io.BytesIO()
    np.savez_compressed(found, train=np.zeros((6_000_000, 3), np.int64), num_entities=np.array(1))
    assert len(found.getvalue()) < 1 << 20
    answer = drop(student, found.getvalue(), "bomb.npz", 422)
    assert "it says that it is 137 MiB once unpacked, more than 128 MiB" in answer["diagnostics"][0]["message"]


def test_a_file_is_read_as_a_run_reads_it(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(TRIPLES)
    offers = offers_of(tmp_path / "x.tsv", 1 << 20)
    assert offers["score"]["triples"] == 2
    assert offers["layer"]["edges"] == 4
    assert offers["op"]["for"] == "matrix"
    (tmp_path / "y.tsv").write_bytes(b"a\tb\n")
    with pytest.raises(InputError, match=r"y\.tsv: line 1"):
        offers_of(tmp_path / "y.tsv", 1 << 20)


def test_without_a_page_s_cookie_and_from_another_site_nothing_is_taken(client: TestClient) -> None:
    stranger = _another(client)
    assert stranger.post("/api/data", content=TRIPLES).status_code == 403
    stranger.get("/")
    assert stranger.post("/api/data", content=TRIPLES, headers={"Origin": "http://elsewhere"}).status_code == 403
    assert stranger.cookies[COOKIE]


def test_an_answer_is_as_described(student: TestClient) -> None:
    import jsonschema

    described = student.get("/api/openapi.json").json()
    content = described["paths"]["/api/data"]["post"]["responses"]["201"]["content"]["application/json"]
    jsonschema.validate(drop(student, TRIPLES), {**content["schema"], "components": described["components"]})


def test_what_is_shown_of_a_name_is_printable_and_no_path() -> None:
    assert shown_name("a/b\\c.tsv") == "c.tsv"
    assert shown_name("\u202e\x00evil\n.npz") == "evil.npz"
    assert shown_name("..//") == "the file"


# --- how many are kept, and for how long


class Reads:
    """Stands in for the process that reads a file: every one is a matrix."""

    def __init__(self) -> None:
        self.waits: asyncio.Event | None = None

    async def stream(self, request: Mapping[str, Any], seconds: float) -> AsyncGenerator[Event, None]:
        if self.waits is not None:
            await self.waits.wait()
        name = Path(request["path"]).name
        assert Path(request["path"]).read_bytes()
        yield events.result({"offers": {"op": {"name": name, "label": name, "for": "matrix", "generated": False}}})

    async def close(self) -> None:
        pass


async def body(text: bytes = TRIPLES) -> AsyncIterator[bytes]:
    yield text


Act = Callable[[DroppedFiles, list[float], set[str], Reads], Any]


def with_files(act: Act, refused: str = "") -> None:
    """Does something with files on a clock of its own, and the students who have a page open."""

    async def whole() -> None:
        clock, there, reads = [0.0], set[str](), Reads()
        files = DroppedFiles(lambda _: reads, there.__contains__, refused, lambda: clock[0])  # type: ignore[arg-type, return-value]
        files.open()
        folder = files.folder
        try:
            await act(files, clock, there, reads)
        finally:
            await files.close()
        assert not folder.exists()

    asyncio.run(whole())


def test_a_file_goes_some_time_after_its_page() -> None:
    async def act(files: DroppedFiles, clock: list[float], there: set[str], _: Reads) -> None:
        there.add("student ann")
        kept = await files.take("student ann", "x.tsv", body())
        clock[0] = 1000.0
        files.sweep()
        assert files.find(kept["name"])
        there.clear()
        clock[0] += limits.DROPPED_GRACE_SECONDS - 1  # a page that is loaded again
        files.sweep()
        there.add("student ann")
        files.sweep()
        there.clear()
        clock[0] += limits.DROPPED_GRACE_SECONDS + 1
        files.sweep()
        assert files.find(kept["name"]) is None
        assert list(files.folder.iterdir()) == []

    with_files(act)


def test_what_a_killed_server_left_goes_with_the_next_one() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{gone.pid}-"))

    async def act(files: DroppedFiles, clock: list[float], there: set[str], _: Reads) -> None:
        assert not left.exists()
        other = DroppedFiles(lambda _: Reads(), there.__contains__)  # type: ignore[arg-type, return-value]
        other.open()
        assert files.folder.exists(), "of a server that is there"
        await other.close()

    with_files(act)


def test_no_file_stays_for_ever() -> None:
    async def act(files: DroppedFiles, clock: list[float], there: set[str], _: Reads) -> None:
        there.add("student ann")
        kept = await files.take("student ann", "x.tsv", body())
        clock[0] = limits.DROPPED_SECONDS + 1
        files.sweep()
        assert files.find(kept["name"]) is None

    with_files(act)


def test_a_student_has_so_many_and_the_oldest_goes() -> None:
    async def act(files: DroppedFiles, clock: list[float], there: set[str], _: Reads) -> None:
        for number in range(limits.DROPPED_OF_STUDENT + 2):
            await files.take("student ann", f"{number}.tsv", body())
        other = await files.take("student ben", "b.tsv", body())
        labels = [entry["label"] for entry in files.offered("student ann", "op")]
        assert labels == [f"{number}.tsv (dropped)" for number in (5, 4, 3, 2)]
        assert files.find(other["name"])
        assert len(list(files.folder.iterdir())) == limits.DROPPED_OF_STUDENT + 1

    with_files(act)


def test_one_at_a_time_and_so_much_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(files: DroppedFiles, clock: list[float], there: set[str], reads: Reads) -> None:
        reads.waits = asyncio.Event()
        coming = asyncio.create_task(files.take("student ann", "x.tsv", body()))
        await asyncio.sleep(0)
        with pytest.raises(NotTakenError, match="Another file of yours"):
            await files.take("student ann", "y.tsv", body())
        monkeypatch.setattr(limits, "DROPPED_TOTAL_BYTES", limits.DROPPED_BYTES)
        with pytest.raises(NotTakenError, match="as many dropped files as it can"):
            await files.take("student ben", "y.tsv", body())
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        assert list(files.folder.iterdir()) == []
        reads.waits = None
        assert await files.take("student ben", "y.tsv", body())

    with_files(act)


def test_where_runs_are_done_elsewhere_it_says_so() -> None:
    async def act(files: DroppedFiles, clock: list[float], there: set[str], _: Reads) -> None:
        with pytest.raises(NotTakenError, match="elsewhere") as told:
            await files.take("student ann", "x.tsv", body())
        assert told.value.status == 409

    with_files(act, "This server's runs are done elsewhere.")


def test_a_server_leaves_nothing_behind() -> None:
    app = create_app(hosts=frozenset({"testserver"}))
    with without_processes(), TestClient(app) as client:
        client.get("/")
        drop(client, TRIPLES)
        folder = app.state.dropped.folder
        assert list(folder.iterdir())
    assert not folder.exists()
