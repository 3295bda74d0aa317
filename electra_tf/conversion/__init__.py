"""Names and formats of other releases of ELECTRA."""
