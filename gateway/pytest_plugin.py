"""Empty: pytest loads this module in environments that were set up before ``pytest-muster`` was split off."""
