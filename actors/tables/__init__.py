"""What the actors record for analysis: tables of Parquet files under ``<storage>/metrics``."""
