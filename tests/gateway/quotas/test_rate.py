"""Kafka's measuring, against its table and against a plain reading of its classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.quotas.rate import MAX_THROTTLE_MS, Rate, TokenBucket, Window

WINDOW = Window(11, 1_000)
QUOTA = 100_000.0


def test_the_first_ten_seconds_of_a_quota_are_free_at_once() -> None:
    assert Rate(WINDOW).charge(1_000_000, QUOTA, 5) == 0


def test_what_is_used_beyond_is_paused_for_from_the_first_use_on() -> None:
    rate = Rate(WINDOW)
    assert rate.charge(1_100_000, QUOTA, 0) == 1_000
    assert rate.charge(50_000, QUOTA, 500) == 1_000
    assert rate.per_second(500) == pytest.approx(1_150_000 / 10.5)
    assert rate.throttle_ms(QUOTA, 11_500) == 0
    assert rate.is_empty(11_500)


def test_taken_back_it_was_never_used() -> None:
    rate = Rate(WINDOW)
    assert rate.charge(2_000_000, QUOTA, 0) == 10_000
    rate.record(-2_000_000, 0)
    assert rate.charge(1_000_000, QUOTA, 0) == 0


def test_a_new_quota_applies_to_what_was_used_before() -> None:
    rate = Rate(WINDOW)
    assert rate.charge(1_000_000, QUOTA, 0) == 0
    assert rate.throttle_ms(QUOTA / 2, 0) == 10_000


def test_a_tiny_quota_has_a_throttle_time_that_fits_its_field() -> None:
    assert Rate(WINDOW).charge(2.0**62, 1e-9, 0) == MAX_THROTTLE_MS
    bucket = TokenBucket(WINDOW)
    bucket.take(2.0**62, 1e-9, 0)
    assert bucket.throttle_ms(1e-9, 0) == MAX_THROTTLE_MS


def test_a_window_of_one_sample_measures_at_least_a_millisecond() -> None:
    assert Rate(Window(1, 1_000)).charge(1, 1_000, 7) == 0


class Naive:
    """SampledStat and Rate of Kafka, as they are: a ring of samples that are reset in place."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.samples, self.sample_ms = samples, sample_ms
        self.ring: list[list[float]] = []
        self.current = 0

    def record(self, amount: float, now: int) -> None:
        if not self.ring:
            self.ring.append([now, now, 0.0])
        if now - self.ring[self.current][0] >= self.sample_ms:
            self.current = (self.current + 1) % (self.samples + 1)
            if self.current >= len(self.ring):
                self.ring.append([now, now, 0.0])
            else:
                self.ring[self.current] = [now, now, 0.0]
        self.ring[self.current][1] = now
        self.ring[self.current][2] += amount

    def throttle(self, quota: float, now: int) -> int:
        for each in self.ring:
            if now - each[1] >= self.samples * self.sample_ms:
                each[:] = [now, now, 0.0]
        elapsed = now - min(each[0] for each in self.ring)
        full = int(elapsed // self.sample_ms)
        if full < self.samples - 1:
            elapsed += (self.samples - 1 - full) * self.sample_ms
        elapsed = max(elapsed, 1)
        rate = sum(each[2] for each in self.ring) / (elapsed / 1000)
        return round((rate - quota) / quota * elapsed) if rate > quota else 0


EVENTS = st.lists(st.tuples(st.integers(0, 4_000) | st.integers(0, 30_000), st.integers(0, 5_000)), max_size=60)


@given(st.integers(1, 12), st.sampled_from((250, 1_000)), st.floats(10, 10_000), EVENTS)
def test_it_measures_as_kafka(samples: int, sample_ms: int, quota: float, events: list[tuple[int, int]]) -> None:
    rate, naive, now = Rate(Window(samples, sample_ms)), Naive(samples, sample_ms), 0
    for pause, amount in events:
        now += pause
        naive.record(amount, now)
        assert rate.charge(amount, quota, now) == pytest.approx(naive.throttle(quota, now), abs=1)


def test_a_bucket_is_full_at_first_and_overdrawn_by_one_change() -> None:
    bucket = TokenBucket(WINDOW)
    assert bucket.tokens(2, 1_000) == 22
    bucket.take(30, 2, 1_000)
    assert bucket.throttle_ms(2, 1_000) == 4_000
    assert bucket.throttle_ms(2, 4_999) == 1
    assert bucket.throttle_ms(2, 5_000) == 0
    assert bucket.tokens(2, 10**9) == 22


@given(st.floats(0.1, 100), st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 50)), max_size=40))
def test_a_bucket_gives_no_more_than_its_rate(quota: float, changes: list[tuple[int, int]]) -> None:
    bucket, now, taken, last = TokenBucket(WINDOW), 0, 0, 0
    for pause, partitions in changes:
        now += pause
        if bucket.throttle_ms(quota, now) == 0:
            bucket.take(partitions, quota, now)
            taken, last = taken + partitions, partitions
        assert taken - last <= quota * (11 + now / 1000) + 1e-6
