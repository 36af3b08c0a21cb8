"""What coordinators leave behind: the rebalance journal, and the tables of commits, group events and registrations."""
