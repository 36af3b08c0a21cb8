"""Parts of :class:`muster.actors.config.properties.MusterConfig`, by subject."""
