"""The console: a web app that shows a cluster over the HTTP API of its gateways."""
