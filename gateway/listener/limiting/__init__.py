"""What keeps clients within their quotas, and connections within their limits."""
