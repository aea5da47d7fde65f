"""DECIDES: from "something changed" to a Plan. Imports store."""
