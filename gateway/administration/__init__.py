"""Who changed what, or tried to: the table ``administration``, of the requests that one gateway got."""
