"""The group coordinator with groups of KIP-848: members of both protocols, beside each other and in one group."""
