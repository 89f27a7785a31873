"""Timing's arithmetic, and its order of events on a fake GPU."""

from types import SimpleNamespace

import fake_gpu
import pytest

from tilewise.gpu import timing
from tilewise.gpu.sampling import Sampler
from tilewise.gpu.timing import Contender, Plan, Stage, repetitions, summary, takes_part, time_contenders


def test_percentiles_of_samples():
    found = summary("x", [5.0, 1.0, 2.0, 3.0, 4.0, 6.0])
    assert (found.p20, found.median, found.p80) == (2.0, 3.5, 5.0)
    assert found.samples_us == (5.0, 1.0, 2.0, 3.0, 4.0, 6.0)


@pytest.mark.parametrize(
    ("estimate_us", "times"),
    [(0.0, 200), (10.0, 200), (1e5, 200), (2e5, 100), (5e6, 4), (9e6, 3), (1.9e7, 3), (2.1e7, 1)],
)
def test_slow_contenders_get_few_repetitions(estimate_us, times):
    assert repetitions(estimate_us, Plan(budget_s=20.0, repetitions=200)) == times


def test_fewer_repetitions_are_spread_over_the_rounds():
    rounds = [at for at in range(10) if takes_part(at, 3, 10)]
    assert len(rounds) == 3
    assert rounds == [3, 6, 9]
    assert all(takes_part(at, 10, 10) for at in range(10))


def test_contenders_take_turns_behind_a_flush_a_spin_and_a_restore(monkeypatch):
    gpu = fake_gpu.FakeGpu()
    fake_gpu.install(monkeypatch, gpu)
    contenders = [
        Contender("a", lambda: gpu.run("a", 100.0), lambda: gpu.run("restore a", 7.0)),
        Contender("b", lambda: gpu.run("b", 50.0)),
    ]
    lines: list[str] = []
    found = time_contenders(contenders, Plan(repetitions=3), lines.append)
    assert [(timing.label, timing.median, len(timing.samples_us)) for timing in found] == [
        ("a", 100.0, 3),
        ("b", 50.0, 3),
    ]
    one_round = ["restore a", "read_all", "spin", "a", "read_all", "spin", "b"]
    assert gpu.launched[-21:] == one_round * 3
    assert lines == ["a: about 100 us, 3 repetitions", "b: about 50 us, 3 repetitions"]


def test_a_repetition_that_the_host_enqueued_too_slowly_is_done_again_behind_a_longer_spin(
    monkeypatch,
):
    gpu = fake_gpu.FakeGpu()
    fake_gpu.install(monkeypatch, gpu)
    now = [0.0]
    monkeypatch.setattr("tilewise.gpu.timing.time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr("tilewise.gpu.timing._stage", lambda: stage)
    now_us = {"host": 30.0}

    def call() -> None:
        now[0] += now_us["host"] / 1e6
        gpu.run("x", 10.0)

    stage = Stage.__new__(Stage)
    stage.__dict__.update(_cupy=fake_gpu.fake_cupy(gpu), _buffer=None)
    monkeypatch.setattr(Stage, "read", lambda self, buffer: None)
    spins: list[float] = []
    stage.__dict__["_spin"] = lambda grid, block, values: spins.append(float(values[0]) / 1000)
    assert time_contenders([Contender("x", call)], Plan(repetitions=1))[0].median == 10.0
    assert spins[-1] == 80.0, "twice the host's 30 us and a reserve"
    assert len(spins) == 5, "four to estimate, one to keep"
    now_us["host"] = 300.0
    stage_sample = timing._sample(stage, Contender("x", call), 80.0, flush=False)
    assert stage_sample == (10.0, 320.0)
    assert spins[-3:] == [80.0, 160.0, 320.0]
    now_us["host"] = 1e6
    assert timing._sample(stage, Contender("x", call), 320.0, flush=False) == (10.0, 5000.0)


def test_a_sampler_gives_each_contender_what_was_read_inside_its_launches(
    monkeypatch,
):
    gpu = fake_gpu.FakeGpu()
    fake_gpu.install(monkeypatch, gpu)
    sampler = Sampler(SimpleNamespace(), now=lambda: gpu.now_us / 1e6)

    def launch(name: str, power_w: float) -> None:
        began = gpu.now_us / 1e6
        gpu.run(name, 100.0)
        if gpu.launched.count(name) > 4:  # four launches estimate how long it takes
            sampler.powers += [
                (began + 10e-6, began + 20e-6, power_w),
                (began + 90e-6, began + 110e-6, 0.0),
                (began - 20e-6, began + 10e-6, 0.0),
            ]

    timing._stage()
    clock = SimpleNamespace(perf_counter=lambda: gpu.now_us / 1e6)
    monkeypatch.setattr("tilewise.gpu.timing.time", clock)
    contenders = [Contender("a", lambda: launch("a", 650.0)), Contender("b", lambda: launch("b", 300.0))]
    found = time_contenders(contenders, Plan(repetitions=3), sampler=sampler)
    assert [one.power_w for one in found] == [(650.0,) * 3, (300.0,) * 3]
    assert [one.sm_clock_mhz for one in found] == [(), ()]


def test_with_the_host_in_the_time_the_gpu_is_idle_at_the_first_event_and_nothing_spins(
    monkeypatch,
):
    gpu = fake_gpu.FakeGpu()
    fake_gpu.install(monkeypatch, gpu)
    monkeypatch.setattr(Stage, "synchronize", lambda self: gpu.launched.append("wait"))
    found = time_contenders(
        [Contender("a", lambda: gpu.run("a", 100.0))], Plan(repetitions=3, with_host=True)
    )
    assert (found[0].median, len(found[0].samples_us)) == (100.0, 3)
    assert gpu.launched[-9:] == ["read_all", "wait", "a"] * 3
    assert "spin" not in gpu.launched
