"""What a client asks first: metadata, versions, the cluster."""
