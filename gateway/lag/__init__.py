"""How far groups are behind, in messages and in seconds: from coordinators and log actors, without Spark."""
