"""The controller: topics, configs, which actors run and where, and who is told of it."""
