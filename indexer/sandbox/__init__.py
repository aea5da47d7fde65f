"""Documents of risky formats are read in a process of their own: the parent's side, the child, and what passes between them."""
