"""The offsets that a member commits, whatever rebalances come while its batches are handled."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.gateway.client.consuming.assignment import Assignment, TopicPartition

PARTITIONS = [("t", index) for index in range(3)]
SOME = st.sets(st.sampled_from(PARTITIONS), min_size=1)


class Stay:
    """One partition from its assignment to its revocation."""

    def __init__(self, begin: int) -> None:
        self.position = self.handled = self.committed = begin


class Member(RuleBasedStateMachine):
    """Has partitions, reads a batch, handles it, commits, in any order with rebalances."""

    def __init__(self) -> None:
        super().__init__()
        self.assignment = Assignment()
        self.stays: dict[TopicPartition, Stay] = {}
        self.accepted = dict.fromkeys(PARTITIONS, 0)
        self.batch: tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, Stay]] | None = (
            None
        )

    @rule(partitions=SOME)
    def assign(self, partitions: set[TopicPartition]) -> None:
        new = partitions - self.stays.keys()
        self.assignment.add(new)
        self.stays |= {each: Stay(self.accepted[each]) for each in new}

    @rule(partitions=SOME)
    def revoke(self, partitions: set[TopicPartition]) -> None:
        self.assignment.remove(partitions)
        for each in partitions:
            self.stays.pop(each, None)

    @precondition(lambda self: self.stays and self.batch is None)
    @rule(count=st.integers(1, 5))
    def read(self, count: int) -> None:
        for stay in self.stays.values():
            stay.position += count
        ends = {each: stay.position for each, stay in self.stays.items()}
        numbers = {each: self.assignment.number_of(each) or 0 for each in ends}
        self.batch = ends, numbers, dict(self.stays)

    @precondition(lambda self: self.batch is not None)
    @rule()
    def handle(self) -> None:
        assert self.batch is not None
        ends, numbers, stays = self.batch
        self.batch = None
        self.assignment.note_handled(ends, numbers)
        for each, end in ends.items():
            stays[each].handled = end

    @rule(is_accepted=st.booleans())
    def commit(self, is_accepted: bool) -> None:
        offsets = self.assignment.to_commit()
        assert offsets == {each: stay.handled for each, stay in self.stays.items() if stay.handled != stay.committed}, (
            "what was handled since the member has the partition"
        )
        assert all(offset > self.accepted[each] for each, offset in offsets.items()), "no commit goes back"
        if is_accepted:
            self.assignment.note_committed(offsets)
            self.accepted |= offsets
            for each, offset in offsets.items():
                self.stays[each].committed = offset

    @invariant()
    def has_what_it_was_given(self) -> None:
        assert set(self.assignment.partitions) == self.stays.keys()


TestMember = Member.TestCase
