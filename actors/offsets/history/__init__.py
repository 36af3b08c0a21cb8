"""The history that coordinators write: rebalance journal, and tables of commits, group events and registrations."""
