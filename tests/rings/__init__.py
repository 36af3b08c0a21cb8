"""How a change is judged: rings of checks, a ledger of their runs, and what CI runs of them."""
