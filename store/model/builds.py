"""Recipes, spaces, and the builds that join them."""

from __future__ import annotations

from dataclasses import dataclass, field

from store.model.names import BuildId, CollectionId, Metadata, RecipeId, SpaceId


@dataclass(frozen=True, slots=True)
class Space:
    """Fingerprint of an embedder. Vectors of different spaces are never compared."""

    space_id: SpaceId
    provider: str
    model: str
    dimensions: int
    settings: Metadata = field(default_factory=dict)
    """What rebuilds the provider, without secrets: base_url, prefixes, dimensions asked for."""

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise ValueError("a space has at least one dimension")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Fingerprint of loaders and splitter with their settings."""

    recipe_id: RecipeId
    settings: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Build:
    """A (recipe, space) of a collection. One is served; another may be growing beside it."""

    build_id: BuildId
    recipe: Recipe
    space: Space


@dataclass(frozen=True, slots=True)
class Collection:
    home: CollectionId
    served: Build
    growing: Build | None = None

    @property
    def builds(self) -> tuple[Build, ...]:
        """The builds that a document must be indexed in, served first."""
        return (self.served,) if self.growing is None else (self.served, self.growing)
