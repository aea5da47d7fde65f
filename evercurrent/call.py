"""What every verb is given: where the data is, whose collection, how to answer. Opens nothing until it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from store.clock import Clock
from store.errors import UnknownCollection
from store.folder import DataFolder, check_folder, prepare_folder
from store.model import MAIN_COLLECTION, CollectionId

if TYPE_CHECKING:
    from store.config import Config
    from store.ports import Catalog

DATA_DEFAULT = Path(".evercurrent")


@dataclass(frozen=True)
class Call:
    """One use of the command."""

    folder: DataFolder
    config_file: Path | None
    home: CollectionId
    as_json: bool
    clock: Clock

    @cached_property
    def config(self) -> Config:
        from store.config import load_config

        return load_config(self.config_file)

    @property
    def has_catalog(self) -> bool:
        return self.folder.catalog.exists()

    def open_catalog(self) -> Catalog:
        """The catalog, created when it is not there."""
        from indexer.wiring import open_catalog

        prepare_folder(self.folder)
        return open_catalog(self.folder, self.config, self.clock)

    def read_catalog(self) -> Catalog:
        """The catalog, or an empty one in memory when there is none: looking writes nothing."""
        check_folder(self.folder)
        if self.has_catalog:
            return self.open_catalog()
        from store.catalog.memory import MemoryCatalog

        return MemoryCatalog(self.clock)

    def need_collection(self, catalog: Catalog | None) -> bool:
        """Whether the collection has been made. `main` always exists and is merely empty before.

        Raises UnknownCollection for another one that has not.
        """
        if catalog is not None and catalog.collection(self.home) is not None:
            return True
        if self.home.collection != MAIN_COLLECTION:
            raise UnknownCollection(collection=self.home.collection, namespace=self.home.namespace)
        return False
