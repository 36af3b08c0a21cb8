"""Roll-ups of files of ``samples``, for jobs over many hours: sums by the minute, and runs of offsets."""
