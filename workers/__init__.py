"""DO: carry plans out and survive anything. Imports indexer and store."""
