"""Triples from presets, archives and text; and a clear message, with its place, for each way a file can be wrong."""

import gzip
import io
import time
import zipfile

import numpy as np
import pytest

from explorer.runtime.data import triples as inputs
from explorer.runtime.data.triples import PRESETS, InputError, available, load_triples


def triples_of(loaded):
    """The triples as a list of (h, r, t)."""
    return list(zip(loaded.h.tolist(), loaded.r.tolist(), loaded.t.tolist(), strict=True))


# Presets


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_published_sizes_and_use_every_id(name):
    preset, loaded = PRESETS[name], load_triples(name)
    assert loaded.source == "preset, generated"
    assert loaded.name == name
    for ids, count in (
        (loaded.h, preset.num_entities),
        (loaded.r, preset.num_relations),
        (loaded.t, preset.num_entities),
    ):
        assert ids.dtype == np.int32
        assert len(ids) == preset.num_triples
        assert len(np.bincount(ids, minlength=count)) == count
        assert np.bincount(ids).all()


def test_presets_are_the_same_on_every_call_and_differ_from_each_other():
    first, again, other = load_triples("FB15k-237"), load_triples("fb15k-237"), load_triples("FB15k")
    assert triples_of(first) == triples_of(again)
    assert not np.array_equal(first.h, other.h[: len(first.h)])


def test_a_few_entities_and_relations_of_a_preset_are_in_many_triples():
    loaded = load_triples("FB15k-237")
    for ids, least in ((loaded.h, 0.08), (loaded.r, 0.06), (loaded.t, 0.2)):
        counts = np.sort(np.bincount(ids))[::-1]
        assert counts[: max(1, len(counts) // 100)].sum() > least * len(ids)


def test_the_largest_preset_is_quick():
    began = time.process_time()
    load_triples("BioKG")
    assert time.process_time() - began < 5  # of the processor: about 0.3 s


# Text


def write(folder, content, name="graph.tsv"):
    """A file of this text or these bytes."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_names_are_numbered_in_order_of_appearance(tmp_path):
    loaded = load_triples(write(tmp_path, "Ada\tknows\tBob\nBob\tknows\tÉva\nÉva\tlikes\tAda\n"))
    assert triples_of(loaded) == [(0, 0, 1), (1, 0, 2), (2, 1, 0)]
    assert (loaded.num_entities, loaded.num_relations) == (3, 2)
    assert (loaded.name, loaded.source) == ("graph.tsv", "file")


def test_whole_numbers_are_ids(tmp_path):
    loaded = load_triples(write(tmp_path, "7\t0\t2\n2\t3\t07\n", "ids.txt"))
    assert triples_of(loaded) == [(7, 0, 2), (2, 3, 7)]
    assert (loaded.num_entities, loaded.num_relations) == (8, 4)


def test_numbered_entities_with_named_relations_are_names(tmp_path):
    """As in WN18RR, whose entities are eight-digit synset offsets: ids up to those would make a huge table."""
    loaded = load_triples(write(tmp_path, "00260881\t_hypernym\t00260622\n"))
    assert triples_of(loaded) == [(0, 0, 1)]


def test_line_ends_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path):
    loaded = load_triples(write(tmp_path, b"\xef\xbb\xbfa\tr\tb\r\n\r\nb\tr\ta\r\n\n"))
    assert triples_of(loaded) == [(0, 0, 1), (1, 0, 0)]


def test_text_may_be_gzipped(tmp_path):
    assert triples_of(load_triples(write(tmp_path, gzip.compress(b"a\tr\tb\n"), "g.tsv.gz"))) == [(0, 0, 1)]


def test_three_hundred_thousand_lines_load_in_seconds(tmp_path):
    lines = [f"/m/{i % 14541:x}\t/film/{i % 237}\t/m/{i * 7 % 14541:x}" for i in range(300_000)]
    path = write(tmp_path, "\n".join(lines))
    began = time.process_time()
    loaded = load_triples(path)
    assert time.process_time() - began < 8  # of the processor: about 0.5 s
    assert (loaded.num_entities, loaded.num_relations, len(loaded.h)) == (14541, 237, 300_000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tr\tb\na\tr\n", r"graph\.tsv: line 2: expected head TAB relation TAB tail, found 2 fields"),
        ("a\tr\tb\tc\n", r"line 1: .* found 4 fields"),
        ("a r b\n", r"line 1: .* found 1 field; its fields are separated by spaces, not tabs"),
        ("", r"graph\.tsv: there are no triples in it"),
        ("\n\n", r"no triples in it \(2 blank lines\)"),
        ("0\t0\t1\n\n0\t0\t-3\n", r"line 3: entity id -3 is not between 0 and 2147483646"),
        ("0\t-1\t1\n", r"line 1: relation id -1 is not between"),
        ("0\t0\t4294967296\n", r"line 1: entity id 4294967296 is not between"),
        ("0\t0\t" + "9" * 5000, r"line 1: entity id 9{20} is not between"),
        (b"a\tr\tb\na\tr\t\xff\xfe\n", r"line 2: not UTF-8 text \(byte 0xff\)"),
        ("x" * 70_000, r"line 1: longer than 65,536 bytes"),
    ],
)
def test_wrong_text_is_refused_with_file_and_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        load_triples(write(tmp_path, content))


def test_damaged_gzip_is_refused(tmp_path):
    packed = gzip.compress(b"a\tr\tb\n" * 10_000)
    for content in (packed[: len(packed) // 2], b"a\tr\tb\n", packed[:20] + b"\0\0\0\0" + packed[24:]):
        with pytest.raises(InputError, match=r"g\.tsv\.gz: cannot be read"):
            load_triples(write(tmp_path, content, "g.tsv.gz"))


def test_text_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_FILE_BYTES", 1 << 20)
    path = write(tmp_path, gzip.compress(b"a\tr\tb\n" * 400_000), "bomb.tsv.gz")
    with pytest.raises(InputError, match=r"line \d+: the text is larger than the limit of 1 MiB"):
        load_triples(path)


# Archives


def archive(folder, name="graph.npz", **arrays):
    """An archive of two triples, with these arrays put in (None takes one out)."""
    held = {
        "train": np.array([[0, 0, 1]], dtype=np.int32),
        "valid": np.array([[1, 1, 2]], dtype=np.int32),
        "test": np.zeros((0, 3), dtype=np.int32),
        "num_entities": np.array(3),
        "num_relations": np.array(2),
        **arrays,
    }
    np.savez(folder / name, **{key: value for key, value in held.items() if value is not None})
    return str(folder / name)


def test_all_splits_of_an_archive_are_read(tmp_path):
    loaded = load_triples(archive(tmp_path))
    assert triples_of(loaded) == [(0, 0, 1), (1, 1, 2)]
    assert (loaded.num_entities, loaded.num_relations, loaded.source) == (3, 2, "file")
    assert loaded.h.dtype == np.int32


def test_validation_and_test_splits_may_be_missing_and_ids_of_any_width(tmp_path):
    rows = np.array([[2, 1, 0]], dtype=np.uint64)
    assert triples_of(load_triples(archive(tmp_path, train=rows, valid=None, test=None))) == [(2, 1, 0)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"train": None}, r"there is no array 'train' \(it holds num_entities, num_relations, test, valid\)"),
        ({"num_relations": None}, "there is no array 'num_relations'"),
        ({"valid": np.array([[0.5, 0, 1]])}, r"array 'valid' holds float64, not integers"),
        ({"train": np.zeros((4, 2), dtype=np.int32)}, r"array 'train' has shape \[4, 2\], not \[n, 3\]"),
        ({"train": np.zeros(3, dtype=np.int32)}, r"array 'train' has shape \[3\], not \[n, 3\]"),
        ({"num_entities": np.array([3])}, r"array 'num_entities' has shape \[1\], not \[\]"),
        ({"num_entities": np.array(0)}, "'num_entities' is 0, not between 1 and"),
        ({"num_relations": np.array(2**40)}, "'num_relations' is 1099511627776, not between"),
        ({"valid": np.array([[0, 0, 1], [0, 0, 3]])}, r"row 1 of 'valid' .* has tail 3, but num_entities is 3"),
        ({"train": np.array([[0, 2, 1]])}, "row 0 of 'train' .* has relation 2, but num_relations is 2"),
        ({"train": np.array([[-1, 0, 1]])}, "row 0 of 'train' .* has head -1, but num_entities"),
        ({"train": np.zeros((0, 3), int), "valid": None}, "there are no triples in it"),
        ({"train": np.array([["a", "b", "c"]], dtype=object)}, "array 'train' holds object, not integers"),
    ],
)
def test_wrong_archives_are_refused(tmp_path, arrays, message):
    with pytest.raises(InputError, match=r"graph\.npz: " + message):
        load_triples(archive(tmp_path, **arrays))


def test_what_is_not_an_archive_of_arrays_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"fake\.npz: not an \.npz file"):
        load_triples(write(tmp_path, b"not a zip", "fake.npz"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as out:
        for name in ("train", "num_entities", "num_relations"):
            out.writestr(f"{name}.npy", b"rubbish")
    with pytest.raises(InputError, match=r"rubbish\.npz: "):
        load_triples(write(tmp_path, packed.getvalue(), "rubbish.npz"))


def test_an_array_whose_header_claims_more_than_the_archive_holds_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i4", "fortran_order": False, "shape": (10**13, 3)})
    path = tmp_path / "huge.npz"
    archive(tmp_path, "huge.npz", train=None)
    with zipfile.ZipFile(path, "a") as out:
        out.writestr("train.npy", header.getvalue())
    with pytest.raises(InputError, match="array 'train' is cut short"):
        load_triples(str(path))


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MAX_FILE_BYTES", 1 << 20)
    path = str(tmp_path / "bomb.npz")
    np.savez_compressed(path, train=np.zeros((200_000, 3), np.int32), num_entities=1, num_relations=1)
    with pytest.raises(InputError, match="larger than the limit of 1 MiB once unpacked"):
        load_triples(path)


def test_the_real_graphs_have_the_sizes_of_their_readme(shared_data):
    graph = load_triples(str(shared_data / "fb15k-237.npz"))
    assert (graph.num_entities, graph.num_relations, len(graph.h)) == (14_541, 237, 310_116)
    graph = load_triples(str(shared_data / "wn18.npz"))
    assert (graph.num_entities, graph.num_relations, len(graph.h)) == (40_943, 18, 151_442)


# Names and paths


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("FB15", "there is no data set named 'FB15': did you mean 'FB15k'?"),
        ("nothing like it", r"there is no data set named 'nothing like it'\. Those there are: FB15k,"),
        ("nowhere/graph.tsv", "nowhere/graph.tsv: no such file"),
        ("graph.npz", "graph.npz: no such file"),
        ("/", "/: not a file"),
        ("a\0b", "embedded null|no data set"),
        ("a" * 5000 + ".tsv", "cannot be read: File name too long|no such file"),
    ],
)
def test_unknown_sources_are_refused(source, message):
    with pytest.raises(InputError, match=message):
        load_triples(source)


def test_a_directory_offers_its_readable_files_before_the_presets(tmp_path, caplog):
    archive(tmp_path)
    write(tmp_path, "a\tr\tb\n", "names.txt")
    write(tmp_path, "What this folder holds.\n", "README.txt")
    write(tmp_path, "a\tr\tb\n", "other.csv")
    (tmp_path / "folder.tsv").mkdir()
    offered = available(tmp_path)
    assert [entry["name"] for entry in offered] == ["graph.npz", "names.txt", *PRESETS]
    assert [entry["generated"] for entry in offered] == [False, False, *[True] * len(PRESETS)]
    assert offered[1] == {
        "name": "names.txt",
        "label": "names.txt (file)",
        "generated": False,
        "entities": 2,
        "relations": 1,
        "triples": 1,
    }
    assert offered[2]["label"] == "FB15k (generated)"
    assert "README.txt: line 1" in caplog.text
    assert available(None) == offered[2:]
    write(tmp_path, "a\tr\tb\na\tr\tc\n", "names.txt")
    assert available(tmp_path)[1]["entities"] == 3


def test_with_a_directory_only_names_in_it_are_found(tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    secret = write(tmp_path, "a\tr\tb\n", "secret.tsv")
    (served / "link.tsv").symlink_to(secret)
    write(served, "a\tr\tb\n", "public.tsv")
    assert triples_of(load_triples("public.tsv", served)) == [(0, 0, 1)]
    assert load_triples("WN18", served).name == "WN18"
    for source in (secret, "../secret.tsv", "./public.tsv", "link.tsv", "", ".", str(served / "public.tsv")):
        with pytest.raises(InputError, match="there is no data set named"):
            load_triples(source, served)
    with pytest.raises(InputError, match=r"did you mean 'public\.tsv'\? Those there are: .*WN18, public\.tsv"):
        load_triples("publik.tsv", served)


def test_a_missing_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match="the data directory cannot be read: No such file"):
        available(tmp_path / "gone")
