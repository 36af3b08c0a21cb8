"""Needs of every actor process: settings, clock, log file, cluster view, tables; and processes beside actors."""
