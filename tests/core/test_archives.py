"Files are written completely or not at all, and say what they are."
import json
import os

import numpy as np
import pytest

from dp_knockoff.core import archives
from dp_knockoff.core.archives import (
    archive_kind,
    check_place,
    class_of,
    load_arrays,
    save_arrays,
    write_whole,
    written_by_this_version,
)
from dp_knockoff.core.testing import refusal


def test_what_is_saved_is_what_is_loaded(tmp_path):
    A = np.random.default_rng(0).standard_normal((3, 2))
    path = save_arrays(tmp_path / "a.npz", "things", {"n": 3, "names": ["é", "b"]}, A=A, empty=np.zeros(0))
    header, arrays = load_arrays(path, "things")
    assert header == {"kind": "things", "n": 3, "names": ["é", "b"]} and archive_kind(path) == "things"
    assert list(arrays) == ["A", "empty"] and arrays["empty"].size == 0
    assert arrays["A"].tobytes() == A.tobytes()


def test_a_name_without_an_ending_is_kept(tmp_path):
    save_arrays(tmp_path / "release", "things", {})
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    def half(part):
        part.write_text("ne")
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): write_whole(path, half)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_gets_a_sentence(tmp_path):
    def full(part): raise OSError(28, "No space left on device")
    sentence = refusal(write_whole, tmp_path / "a", full)
    assert "cannot be written (No space left on device)" in sentence and not list(tmp_path.iterdir())


def test_what_is_written_is_seen_only_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    def write(part):
        assert part.parent.parent == path.parent and not path.exists() and part.name == path.name
        part.write_text("new")
    assert write_whole(path, write) == path and path.read_text() == "new"


def test_places(tmp_path, monkeypatch):
    assert check_place(str(tmp_path / "a")) == tmp_path / "a" and not list(tmp_path.iterdir())
    assert "is a folder" in refusal(check_place, tmp_path)
    assert "does not exist: create" in refusal(check_place, tmp_path / "b" / "a")
    assert not list(tmp_path.iterdir())
    def full(**where): raise OSError(28, "No space left on device")
    monkeypatch.setattr(archives, "TemporaryFile", full)
    assert "cannot be written to: choose another" in refusal(check_place, tmp_path / "a")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that is no place for files")
def test_permissions_alone_do_not_make_a_place():
    "Root may write everywhere, and /proc takes nothing: found out before the work, not after"
    assert "cannot be written to" in refusal(check_place, "/proc/answer.html")


def test_what_is_no_archive_gets_a_sentence(tmp_path):
    good = save_arrays(tmp_path / "good.npz", "things", {}, A=np.zeros(1000))
    np.savez(tmp_path / "bare.npz", A=np.zeros(3))
    np.savez(tmp_path / "header.npz", header="{not json")
    np.savez(tmp_path / "pickle.npz", header=json.dumps({"kind": "things"}), A=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes(good.read_bytes()[:-100])
    for name in ("bare.npz", "header.npz", "pickle.npz", "text.npz", "empty.npz", "cut.npz"):
        sentence = refusal(load_arrays, tmp_path / name, "things")
        assert f"{name}' is not a file of saved things, or it is damaged: save it again" in sentence
    assert "does not exist" in refusal(load_arrays, tmp_path / "none.npz", "things")
    assert "holds things, not others: pass the other file" in refusal(load_arrays, good, "others")
    assert "not a file of saved moments" in refusal(archive_kind, tmp_path / "text.npz")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o000, 0o077])
def test_what_is_secret_is_readable_by_its_owner_only(tmp_path, mask):
    "Finding 4: exact moments were readable by everybody; not even half of the file ever is"
    seen, savez, old = [], np.savez, os.umask(mask)
    def watch(file, **arrays):
        seen.append(os.fstat(file.fileno()).st_mode & 0o777)
        savez(file, **arrays)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np, "savez", watch)
            secret = save_arrays(tmp_path / "a.npz", "things", {}, secret=True, A=np.zeros(3))
            public = save_arrays(tmp_path / "b.npz", "things", {}, A=np.zeros(3))
            public.chmod(0o666)
            save_arrays(public, "things", {}, secret=True)  # what was open before does not stay open
    finally: os.umask(old)
    assert seen == [0o600, 0o666 & ~mask, 0o600]
    assert secret.stat().st_mode & 0o777 == public.stat().st_mode & 0o777 == 0o600


def test_a_field_that_is_missing_means_another_version():
    def read(header):
        with written_by_this_version("m.npz"): return header["ids"], int(header["n"])
    assert read({"ids": [], "n": 3}) == ([], 3)
    for header in ({"n": 3}, {"ids": [], "n": None}):
        assert refusal(read, header) == ("'m.npz' was written by another version of this package: "
                                         "read it with that, or make it again")


def test_a_single_array_is_no_archive(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    assert "is not a file of saved things" in refusal(load_arrays, tmp_path / "one.npy", "things")


def test_the_kind_is_known_without_reading_arrays(tmp_path, monkeypatch):
    path = save_arrays(tmp_path / "a.npz", "things", {}, A=np.zeros(3))
    read, seen = np.lib.npyio.NpzFile.__getitem__, []
    def watch(self, key):
        seen.append(key)
        return read(self, key)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", watch)
    assert archive_kind(path) == "things" and seen == ["header"]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_nobody_can_wait_for_a_secret_in_a_shared_folder(tmp_path):
    "A link or an open file under the name that is written to first would be handed the exact moments"
    theirs = tmp_path / "theirs"
    theirs.touch(mode=0o666)
    (tmp_path / ".a.npz.part").symlink_to(theirs)
    (tmp_path / ".b.npz.part").touch(mode=0o666)
    for name in ("a.npz", "b.npz"):
        path = save_arrays(tmp_path / name, "things", {}, secret=True, A=np.zeros(3))
        assert not path.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    seen = []
    def look(part):
        seen.append(part.parent.stat().st_mode & 0o777)
        part.write_text("secret")
    write_whole(tmp_path / "c", look)
    assert theirs.read_bytes() == b"" and seen == [0o700]
    assert (tmp_path / ".a.npz.part").is_symlink() and (tmp_path / ".b.npz.part").exists() # not ours


def test_two_who_write_to_one_place_do_not_mix(tmp_path):
    path = tmp_path / "a.txt"
    def slow(part):
        with open(part, "w") as file:
            print("the first,", end=" ", file=file, flush=True)
            write_whole(path, lambda other: other.write_text("the second, whole"))
            print("whole", end="", file=file, flush=True)
            assert path.read_text() == "the second, whole"
    assert write_whole(path, slow).read_text() == "the first, whole" and list(tmp_path.iterdir()) == [path]


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, forced, fsync = tmp_path / "a.txt", [], os.fsync
    def watch(handle):
        forced.append(os.fstat(handle).st_size if not path.exists() else "folder")
        fsync(handle)
    monkeypatch.setattr(os, "fsync", watch)
    write_whole(path, lambda part: part.write_text("whole"))
    assert forced == [5, "folder"][:1 + (os.name == "posix")]


# what was saved

def test_every_kind_of_archive_has_one_class(tmp_path):
    from dp_knockoff.data.clip import Clip
    from dp_knockoff.data.moments import ExactMoments, Moments
    for kind, name in {"moments": "Moments", "clipped moments": "ExactMoments",
                       "private moments": "PrivateMoments", "private products": "ProductsRelease"}.items():
        assert class_of(kind).__name__ == name
    X, y = np.random.default_rng(0).standard_normal((2, 50, 3)), np.ones(50)
    plain, bounded = Moments.from_data(X[0], y), Moments.from_data(X[1], y, clip=Clip(1.0, 1.0))
    for moments, kind in ((plain, Moments), (bounded, ExactMoments)):
        path = moments.save(tmp_path / "m.npz")
        found = class_of(archive_kind(path)).load(path)
        assert type(found) is kind and found.n == 50 and found.ids == moments.ids
    assert class_of("numbers") is None
