"""The first APIs that a client uses: metadata, versions, the cluster."""
