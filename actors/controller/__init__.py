"""The controller: topics, configs, which actors run and where, and how the other actors learn of it."""
