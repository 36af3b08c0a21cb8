"""What every actor process has: settings, clock, log file, the cluster view, tables; and what starts beside actors."""
