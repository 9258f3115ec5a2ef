"A ledger never overspends: not by races, deaths, damage, copies or numbers that are none."
import copy
import json
import math
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
from fractions import Fraction

import mpmath
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.privacy.ledger import Entry, Ledger, _ChargedSampler, _rounded_down, as_ledger, epsilon_at
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio, gaussian_divergence
from dp_knockoff.privacy.samplers import NumpySampler, SecureSampler

TOTAL = Budget(1.0, 1e-6)
MU = analytic_ratio(TOTAL)
ASKED = Budget(.1, 1e-6)
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals, modes and forks")


@pytest.fixture
def path(tmp_path): return tmp_path / "study.jsonl"


@pytest.fixture
def ledger(path): return Ledger(path, epsilon=1.0, delta=1e-6)


def spend(ledger, mu=MU / 10, unit="1 row", id="a"): # noqa: A002
    return ledger.spend(mu, ASKED, "moments", unit, id)


def start(program, *arguments):
    "A program of its own, which can import the package"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=os.getcwd())


def fifty_digits(epsilon, mu2):
    "The divergence of one Gaussian whose squared ratio is a fraction"
    with mpmath.workdps(50):
        r = mpmath.sqrt(mpmath.mpf(mu2.numerator) / mu2.denominator)
        e = mpmath.mpf(epsilon)
        return mpmath.ncdf(r / 2 - e / r) - mpmath.exp(e) * mpmath.ncdf(-r / 2 - e / r)


RACE = """
import sys
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget
name, path, tries, mu = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
ledger = Ledger(path)
print("ready", flush=True)
done = 0
for k in range(tries):
    try: ledger.spend(mu * (1 + k % 7 / 10), Budget(.1, 1e-6), "moments", "1 row", f"{name}{k}")
    except ValueError as error: assert "overspend" in str(error), error
    else: done += 1
print(done)
"""


def test_a_thousand_releases_of_two_racing_processes_never_overspend(ledger, path):
    mu = MU / math.sqrt(900)
    programs = [start(RACE, name, path, 500, mu) for name in "ab"]
    told = [program.communicate(timeout=60)[0].split() for program in programs]
    assert all(program.returncode == 0 for program in programs)
    entries = ledger.entries
    assert len(entries) == sum(int(words[-1]) for words in told) < 1000
    assert len({entry.id for entry in entries}) == len(entries)
    assert {entry.id[0] for entry in entries} == {"a", "b"}
    assert all(json.loads(line) for line in path.read_text().splitlines())
    spent2 = sum(Fraction(entry.mu)**2 for entry in entries)
    assert spent2 <= Fraction(MU)**2 * (1 + Fraction(1, 10**12))
    assert fifty_digits(1.0, spent2) <= TOTAL.delta
    assert spent2 + Fraction(mu)**2 > Fraction(MU)**2 # and nothing that fits was refused


FOREVER = """
import sys
from itertools import count
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
for k in count():
    ledger.spend(1e-6, Budget(.1, 1e-6), "moments", "1 row", str(k))
    print(k, flush=True) # noise would be drawn here
"""


@POSIX
def test_a_process_killed_while_it_spends_leaves_a_ledger_that_has_all_it_drew_for(ledger, path):
    for round_ in range(3):
        before = len(ledger.entries)
        program = start(FOREVER, path)
        lines = [program.stdout.readline() for _ in range(3 + 9 * round_)]
        program.send_signal(signal.SIGKILL)
        lines += program.stdout.readlines()
        program.wait()
        program.stdout.close()
        drawn = sum(line.endswith("\n") for line in lines) - 1 # "ready"
        assert before + drawn <= len(ledger.entries) <= before + drawn + 1
        assert spend(ledger, 1e-6) == Ledger(path).entries[-1]


HOLD = """
import sys
from pathlib import Path
from dp_knockoff.privacy import ledger
with ledger._locked(Path(sys.argv[1]), write=True) as file:
    if len(sys.argv) > 2: file.seek(0, 2); file.write(sys.argv[2].encode())
    print("locked", flush=True)
    sys.stdin.read()
    import time; time.sleep(60)
"""


@POSIX
@pytest.mark.parametrize("part", ["", '{"id": "to'], ids=["before writing", "in the middle of a line"])
def test_a_process_killed_with_the_lock_gives_it_back(ledger, path, part):
    spend(ledger)
    whole = path.read_bytes()
    program = start(HOLD, path, *[part] * bool(part))
    assert program.stdout.readline() == "locked\n"
    waiting, heard = threading.Event(), []
    def other():
        waiting.set()
        try: heard.append(spend(ledger))
        except InputError as error: heard.append(str(error))
    thread = threading.Thread(target=other)
    thread.start()
    waiting.wait()
    thread.join(.2)
    assert thread.is_alive() and not heard # it waits for the lock
    program.kill()
    program.communicate()
    thread.join(10)
    if part:
        assert "middle of a line" in heard[0] and path.read_bytes() == whole + part.encode()
        path.write_bytes(whole) # what the sentence says
        assert spend(ledger) == Ledger(path).entries[1]
    else: assert heard == [ledger.entries[1]]


@POSIX
def test_a_full_disk_leaves_the_ledger_as_it_was(ledger, path):
    program = """
import resource, sys
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget
ledger, size = Ledger(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50))
try: ledger.spend(.01, Budget(.1, 1e-6), "moments", "1 row", "a")
except ValueError as error: print(error)
"""
    before = path.read_bytes()
    said = start(program, path, len(before)).communicate(timeout=30)[0]
    assert "cannot be written" in said and "nothing was drawn" in said
    assert path.read_bytes() == before and spend(ledger)


def test_overspending_is_refused_before_anything_is_written_or_drawn(ledger, path):
    spend(ledger, MU * .9)
    before = path.read_bytes()
    class Never(NumpySampler):
        def gaussian(self, value, scale, purpose): raise AssertionError("noise was drawn")
    assert "overspend" in refusal(spend, ledger, MU * .5)
    assert "overspend" in refusal(ledger.check, MU * .5, "1 row")
    assert "overspend" in refusal(_ChargedSampler, Never(), ledger, MU * .5, "1 row")
    late = _ChargedSampler(Never(), ledger, MU * .3, "1 row", budget=ASKED, what="moments", id="b")
    assert path.read_bytes() == before
    spend(ledger, MU * .4)
    for _ in range(2): assert "overspend" in refusal(late.gaussian, 0.0, 1.0, "draw")
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("where", ["file", "memory"])
@pytest.mark.parametrize("mu", [math.nan, math.inf, -.1, "0.1", None, True, 1e200])
def test_what_is_no_ratio_is_refused(path, where, mu):
    ledger = Ledger(path if where == "file" else None, epsilon=1.0, delta=1e-6)
    assert "mu=" in refusal(spend, ledger, mu)
    assert "mu=" in refusal(ledger.check, mu, "1 row")
    assert ledger.entries == []


def test_releases_compose_like_one_gaussian():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    ratios = [MU * part for part in (.5, .3, .4, .2, .6)]
    for mu in ratios: spend(ledger, mu)
    mu2 = sum(Fraction(mu)**2 for mu in ratios)
    assert math.isclose(ledger.mu, math.sqrt(mu2), rel_tol=1e-14)
    assert abs(fifty_digits(ledger.spent, mu2) / mpmath.mpf(1e-6) - 1) < 1e-8
    assert abs(fifty_digits(ledger.left, Fraction(MU)**2 - mu2) / mpmath.mpf(1e-6) - 1) < 1e-7


def test_what_is_left_can_be_asked_for():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    spend(ledger, MU * .77)
    said = refusal(spend, ledger, MU)
    left = float(said.split("epsilon=")[-1].split()[0])
    assert ledger.left * .999 < left <= ledger.left
    spend(ledger, analytic_ratio(Budget(left, 1e-6)))
    assert "epsilon=0 " in repr(ledger).replace(",", " ") or ledger.left < left / 20


def test_many_small_releases_are_not_lost_in_rounding():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    spend(ledger, MU * math.sqrt(1 - 1e-13))
    tiny = MU * math.sqrt(1e-17) # its square is below the last digit of what was spent
    exact = Fraction(MU * math.sqrt(1 - 1e-13))**2 + 300 * Fraction(tiny)**2
    for _ in range(300): spend(ledger, tiny)
    assert abs(Fraction(ledger.mu)**2 / exact - 1) < 5e-16


@pytest.mark.parametrize("mu, delta", [(.01, 1e-6), (.5, 1e-9), (3., 1e-3), (20., 1e-6)])
def test_epsilon_at_is_the_smallest_that_holds(mu, delta):
    epsilon = epsilon_at(mu, delta)
    assert abs(gaussian_divergence(epsilon, mu) / delta - 1) < 1e-8
    assert epsilon_at(0.0, delta) == 0.0 and epsilon_at(delta, delta) == 0.0


def test_a_ledger_has_one_unit(ledger):
    spend(ledger)
    for unit in ("1 response", "2 rows"): assert "keep a ledger for each" in refusal(spend, ledger, unit=unit)
    assert len(ledger.entries) == 1


def test_copies_and_clones_are_the_same_ledger(ledger):
    for each in (ledger, Ledger(epsilon=1.0, delta=1e-6)):
        assert copy.copy(each) is each and copy.deepcopy({"a": [each]})["a"][0] is each
    other = pickle.loads(pickle.dumps(ledger))
    spend(other)
    spend(ledger, id="b")
    assert [entry.id for entry in ledger.entries] == [entry.id for entry in other.entries] == ["a", "b"]


def test_a_ledger_in_memory_stays_in_its_process():
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    assert "keep it in a file" in refusal(pickle.dumps, ledger)
    ledger._process += 1 # as a forked process sees it
    assert "belongs to the process" in refusal(spend, ledger)
    assert "belongs to the process" in refusal(ledger.check, .01, "1 row")


@pytest.mark.parametrize("where", ["file", "memory"])
def test_threads_do_not_overspend(path, where):
    ledger = Ledger(path if where == "file" else None, epsilon=1.0, delta=1e-6)
    def work():
        for _ in range(20):
            try: spend(ledger, MU / 5)
            except InputError as error: assert "overspend" in str(error)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(ledger.entries) == 25


def test_of_many_who_create_it_one_succeeds(tmp_path):
    for k in range(10):
        path, won = tmp_path / f"{k}.jsonl", []
        def create(epsilon):
            try: Ledger(path, epsilon=epsilon, delta=1e-6)
            except InputError as error: assert "exists already" in str(error)
            else: won.append(epsilon)
        threads = [threading.Thread(target=create, args=(1.0 + i,)) for i in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(won) == 1 and Ledger(path).total == Budget(won[0], 1e-6)
    assert len(os.listdir(tmp_path)) == 10


def test_creating_it_again_never_touches_what_is_there(ledger, path):
    "Also if a program was killed between linking the file and removing its first name"
    spend(ledger)
    before = path.read_bytes()
    os.link(path, path.with_name(f".{path.name}.{os.getpid()}.part"))
    assert "exists already" in refusal(Ledger, path, epsilon=9.0, delta=1e-6)
    assert path.read_bytes() == before


@POSIX
def test_only_its_owner_may_read_it(ledger, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    spend(ledger)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_are_only_ever_appended(ledger, path):
    seen = path.read_bytes()
    for k in range(5):
        spend(ledger, id=str(k))
        for bad in (MU, math.nan): refusal(spend, ledger, bad)
        now = path.read_bytes()
        assert now.startswith(seen) and now.count(b"\n") == k + 2 and now.endswith(b"\n")
        seen = now


def damaged(lines):
    yield "a line lost", [*lines[:2], *lines[3:]]
    yield "a line twice", [*lines[:2], *lines[1:]]
    yield "exchanged", [lines[0], lines[2], lines[1], *lines[3:]]
    yield "no header", lines[1:]
    yield "a larger total", [lines[0].replace(b'"epsilon": 1.0', b'"epsilon": 9.0'), *lines[1:]]
    yield "a smaller mu", [*lines[:-1], lines[-1].replace(b'"mu": 0.', b'"mu": 0.0')]
    yield "no number", [*lines[:-1], lines[-1].replace(b'"mu": 0.', b'"mu": NaN, "x": 0.')]
    yield "another version", [lines[0].replace(b'"version": 1', b'"version": 2'), *lines[1:]]
    yield "zeros", [*lines, bytes(100) + b"\n"]
    yield "no text", [*lines, b"\xff\xfe\n"]
    yield "an empty line", [*lines, b"\n"]
    yield "nested", [*lines, b"[" * 100_000 + b"\n"]
    yield "empty", []
    yield "another file", [b"a,b\n", b"1,2\n"]


def test_a_damaged_file_is_refused_and_left_alone(ledger, path):
    for k in range(3): spend(ledger, id=str(k))
    lines = path.read_bytes().splitlines(keepends=True)
    for name, text in damaged(lines):
        assert text != lines, name
        path.write_bytes(b"".join(text))
        assert "is damaged" in refusal(Ledger, path), name
        assert "ledger" in refusal(spend, ledger), name
        assert path.read_bytes() == b"".join(text)


def test_every_flipped_bit_is_noticed(ledger, path):
    spend(ledger)
    whole = path.read_bytes()
    for k in range(len(whole)):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1:])
        assert "ledger" in refusal(Ledger, path), k


def test_an_old_copy_is_noticed_by_who_has_it_open(ledger, path):
    old = path.read_bytes()
    spend(ledger)
    path.write_bytes(old)
    assert "not what it was" in refusal(spend, ledger)
    assert path.read_bytes() == old


def test_a_file_exchanged_while_waiting_for_the_lock_is_opened_again(ledger, path, tmp_path):
    from dp_knockoff.privacy import ledger as module
    with module._locked(path, write=True):
        thread = threading.Thread(target=spend, args=(ledger,))
        thread.start()
        thread.join(.2)
        assert thread.is_alive()
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes())
        os.replace(other, path) # as editors save files
    thread.join(10)
    assert len(Ledger(path).entries) == 1


def test_a_ledger_stays_with_its_file_when_the_program_moves(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("study.jsonl", epsilon=1.0, delta=1e-6)
    monkeypatch.chdir("elsewhere")
    Ledger("study.jsonl", epsilon=1.0, delta=1e-6)
    spend(ledger)
    assert [len(Ledger(tmp_path / where / "study.jsonl").entries) for where in (".", "elsewhere")] == [1, 0]


def test_a_removed_ledger_is_not_made_anew(ledger, path):
    path.unlink()
    assert "does not exist" in refusal(spend, ledger)
    assert "does not exist" in refusal(as_ledger, path)
    assert not path.exists() and "does not exist" in repr(ledger)


def test_what_a_ledger_says_of_itself(ledger):
    spend(ledger)
    assert "1 release, spent epsilon=" in repr(ledger) and "for 1 row" in repr(ledger)
    ledger.spend(MU / 10, ASKED, "moments", "1 row", "b", simulated=True)
    first, *entries = repr(ledger).splitlines()
    assert "2 releases" in first and [("NOT private" in line) for line in entries] == [False, True, False]


def test_a_release_is_charged_once_and_before_its_first_draw(ledger):
    heard = []
    class Listens(NumpySampler):
        def lattice(self, value, scale, purpose): heard.append((purpose, len(ledger.entries)))
    sampler = _ChargedSampler(Listens(), ledger, MU / 2, "1 row", budget=ASKED, what="moments", id="a")
    assert ledger.entries == []
    for purpose in ("one", "two"): sampler.lattice(1, 1e5, purpose)
    assert heard == [("one", 1), ("two", 1)] and ledger.entries[0].mu == MU / 2


def test_a_charged_sampler_draws_for_one_release_only(ledger):
    sampler = _ChargedSampler(NumpySampler(), ledger, MU / 2, "1 row", budget=ASKED, what="moments", id="a")
    for k, draw in enumerate((sampler.gaussian, sampler.laplace)): draw(0.0, 1.0, str(k))
    for draw in (sampler.gaussian, sampler.laplace): assert "was drawn before" in refusal(draw, 0.0, 1.0, "0")
    for again in (copy.copy, copy.deepcopy, pickle.dumps): assert "not copied" in refusal(again, sampler)
    sampler._process += 1
    assert "another process" in refusal(sampler.gaussian, 0.0, 1.0, "new")


@pytest.mark.parametrize("make, simulated", [(NumpySampler, True), (SecureSampler, False)])
def test_simulations_are_entered_as_what_they_are(make, simulated):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    sampler = _ChargedSampler(make(), ledger, MU / 2, "1 row", budget=ASKED, what="moments", id="a")
    assert (sampler.private, sampler.name) == (make.private, make.name)
    sampler.lattice(0, 1e6, "a")
    assert [entry.simulated for entry in ledger.entries] == [simulated]


@pytest.mark.parametrize("call, words", [
    (lambda: Ledger(), "epsilon"), (lambda: Ledger(epsilon=1.0), "delta"), (lambda: Ledger(3), "path=3"),
    (lambda: Ledger("no such folder/a.jsonl", epsilon=1.0, delta=1e-6), "cannot be created"),
    (lambda: Ledger("a\0b", epsilon=1.0, delta=1e-6), "cannot be created"),
    (lambda: Ledger("a\0b"), "cannot be opened"),
    (lambda: Ledger("."), "cannot be opened"), (lambda: as_ledger(3), "is not a ledger"),
    (lambda: Entry("a", "b", "", .1, 1., 1e-6, False, "now"), "unit=''"),
    (lambda: Entry("a", "b", "1 row", .1, 1., 1e-6, "no", "now"), "simulated='no'"),
])
def test_refusals(call, words):
    assert words in refusal(call)


@pytest.mark.parametrize("x", [.0123456, .99999, 1.0, 7.77777, 123456.7, 3e-9])
def test_what_is_left_is_rounded_down_to_four_digits(x):
    said = float(_rounded_down(x))
    assert said <= x < said * 1.0011 and float(f"{said:.4g}") == said


@pytest.mark.parametrize("over", [1e-10, 2e-9, 1e-7, 1e-6])
def test_the_room_for_rounding_is_less_than_the_calibration_leaves(over):
    "Theorem 09.2 spends the gap of the calibration, about 2e-9 of the square: the ledger may not use it, too"
    total = Budget(1.0, 1e-6)
    ledger, mu = Ledger(epsilon=1.0, delta=1e-6), analytic_ratio(total)
    assert "would overspend" in refusal(ledger.check, mu * math.sqrt(1 + over), "1 row")
    ledger.check(mu, "1 row")
    for _ in range(1000): ledger.spend(mu / math.sqrt(1000), total, "moments", "1 row", "a")
    assert "would overspend" in refusal(ledger.check, 1e-3 * mu, "1 row")
