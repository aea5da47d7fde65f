"""The embedder port: texts in, vectors of one space out. Nothing here chooses a provider, keeps a vector or retries a call.

Vectors cross it as bytes (float32, little endian), so that callers need no numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from store.errors import InputRejected
from store.model import Space


class InputsRejected(InputRejected):
    """Some texts of a call can never be embedded: `reasons`, by position. `vectors` has what the others got, `b""` at the rejected.

    The vectors are handed over so that nobody pays for the good texts twice.
    """

    def __init__(self, *, provider: str, reasons: Mapping[int, str], vectors: Sequence[bytes]) -> None:
        self.reasons = dict(reasons)
        self.vectors = list(vectors)
        index = min(self.reasons)
        super().__init__(provider=provider, reason=self.reasons[index], index=index)


class Embedder(Protocol):
    """Embeds for one space. Methods may be called from several threads at once; calls keep no state between them.

    Every method may raise, and nothing else:
    EmbedderUnavailable, EmbedderRateLimited, EmbedderAnswerWrong (Transient: nothing was embedded, call again later);
    InputRejected (Rejected: this text can never be embedded; from `embed_documents` it is InputsRejected, which names the texts
    and holds the vectors of the others);
    EmbedderRefused (Misuse: key, model or installation is wrong; no call can succeed until somebody changes it).
    """

    @property
    def space(self) -> Space: ...

    @property
    def calls(self) -> int:
        """Calls sent to the provider since this embedder was built."""
        ...

    @property
    def tokens(self) -> int:
        """Tokens the provider counted since this embedder was built; 0 where it does not count."""
        ...

    def prepare(self, text: str) -> str:
        """Exactly what `embed_documents` would send for this chunk text (prefix, then text, truncated as the provider does).

        The input hash is of this. Pure; equal to `spaces.prepared(space, text)`.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        """One vector a text, in the order given: `space.dimensions` values of unit length, so that cosine is the dot product.

        Takes chunk texts, not prepared ones. A vector that is zero or not finite is `b""`: that chunk is kept without one.
        `hashing` and `local` return equal bits for equal texts, whatever else is in the call; `openai` returns what it is given.
        Idempotent; an empty sequence makes no call.
        """
        ...

    def embed_query(self, text: str) -> bytes:
        """The vector of a query, of unit length; all zeros when nothing in it can be embedded."""
        ...

    def close(self) -> None:
        """Lets connections go. May be called twice; no method is called after it."""
        ...
