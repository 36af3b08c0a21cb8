"""The plan ``pool``: what a pool handles while its processes are killed."""
