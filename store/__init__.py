"""REMEMBERS: the catalog, the vectors, the keyword side, the broker. Imports none of the other rooms."""
