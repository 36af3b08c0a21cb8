"""Tables of Parquet files under ``<storage>/metrics``, recorded by the actors for analysis."""
