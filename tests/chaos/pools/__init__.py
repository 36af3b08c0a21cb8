"""The plan ``pool``: a pool handles records while its processes are killed."""
