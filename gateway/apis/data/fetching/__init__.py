"""How a gateway serves a Fetch: with its session, from log actors and from their files."""
