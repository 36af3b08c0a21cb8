"""Commands about rights."""
