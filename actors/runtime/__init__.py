"""What every actor process needs: settings, clock, log file, cluster view, tables; and processes beside actors."""
