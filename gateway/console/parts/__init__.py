"""Parts of pages: charts, tables, dialogs."""
