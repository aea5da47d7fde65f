"""`openai`: any endpoint of the OpenAI embeddings protocol. One call is one request; retrying is the caller's.

The key is in no error, log or space. Answers of the endpoint are not believed: order, count, dimension and numbers are checked.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime

import numpy as np
import numpy.typing as npt
import openai
from openai.types import CreateEmbeddingResponse
from pydantic import SecretStr

from indexer.embedding.port import InputsRejected
from indexer.embedding.spaces import prepared, prepared_query
from indexer.embedding.units import unit_vector
from store.errors import (
    EmbedderAnswerWrong,
    EmbedderRateLimited,
    EmbedderRefused,
    EmbedderUnavailable,
    EvercurrentError,
    InputRejected,
)
from store.model import Space

PROBE_TEXT = "evercurrent probe"
PROVIDER = "openai"
_NO_KEY = "none"
_BAD_REQUEST = frozenset({400, 413, 422})
_BUSY = frozenset({408, 409, 425})
_WORDS_ONLY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Endpoint:
    """One model at one endpoint. Thread-safe: the client pools connections, the counters have a lock."""

    def __init__(self, *, base_url: str, model: str, dimensions: int | None, api_key: SecretStr | None, timeout_seconds: float) -> None:
        self._base_url = base_url
        self._model = model
        self._dimensions = dimensions
        self._counting = threading.Lock()
        self.calls = 0
        self.tokens = 0
        self._client = openai.OpenAI(
            base_url=base_url,
            api_key=_NO_KEY if api_key is None else api_key.get_secret_value(),
            timeout=timeout_seconds,
            max_retries=0,
        )

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One request; the vectors in the order of `texts`, as given. Raises as Embedder says, InputRejected for the call as a whole."""
        with self._counting:
            self.calls += 1
        answer = self._answer(texts)
        with self._counting:
            self.tokens += _tokens(answer)
        return _in_order(answer, len(texts))

    def probe(self) -> int:
        """The number of dimensions that the endpoint answers with."""
        return len(self.vectors([PROBE_TEXT])[0])

    def close(self) -> None:
        self._client.close()

    def _answer(self, texts: Sequence[str]) -> CreateEmbeddingResponse:
        asked = openai.omit if self._dimensions is None else self._dimensions
        try:
            return self._client.embeddings.create(
                input=[_encodable(text) for text in texts], model=self._model, dimensions=asked, encoding_format="float"
            )
        except openai.APIStatusError as error:
            # Not chained: the endpoint's message may quote the key or the text.
            raise _translated(error) from None
        except openai.APITimeoutError as error:
            raise EmbedderUnavailable(provider=PROVIDER, reason=f"no answer in time from {self._base_url}") from error
        except openai.APIConnectionError as error:
            raise EmbedderUnavailable(provider=PROVIDER, reason=f"{self._base_url} cannot be reached") from error
        except (openai.APIError, ValueError, TypeError, AttributeError) as error:
            raise EmbedderAnswerWrong(provider=PROVIDER, reason=f"not an embeddings answer ({type(error).__name__})") from None


class OpenAIEmbedder:
    """Implements Embedder over an Endpoint."""

    def __init__(self, space: Space, endpoint: Endpoint) -> None:
        self.space = space
        self._endpoint = endpoint

    @property
    def calls(self) -> int:
        return self._endpoint.calls

    @property
    def tokens(self) -> int:
        return self._endpoint.tokens

    def prepare(self, text: str) -> str:
        return prepared(self.space, text)

    def embed_documents(self, texts: Sequence[str]) -> list[bytes]:
        if not texts:
            return []
        inputs = [prepared(self.space, text) for text in texts]
        reasons: dict[int, str] = {}
        vectors = self._embed_or_halve(inputs, 0, reasons)
        if reasons:
            raise InputsRejected(provider=PROVIDER, reasons=reasons, vectors=vectors)
        return vectors

    def embed_query(self, text: str) -> bytes:
        zeros = bytes(4 * self.space.dimensions)
        return self._embed([prepared_query(self.space, text)])[0] or zeros if text.strip() else zeros

    def close(self) -> None:
        self._endpoint.close()

    def _embed_or_halve(self, inputs: list[str], first: int, reasons: dict[int, str]) -> list[bytes]:
        """Sends `inputs`; a refused batch is halved until the refused texts stand alone, which are noted in `reasons`."""
        try:
            return self._embed(inputs)
        except InputRejected as error:
            if len(inputs) > 1:
                half = len(inputs) // 2
                left = self._embed_or_halve(inputs[:half], first, reasons)
                return left + self._embed_or_halve(inputs[half:], first + half, reasons)
            if not reasons:
                self._refuse_unless_probed()
            reasons[first] = str(error.context["reason"])
            return [b""]

    def _refuse_unless_probed(self) -> None:
        """A lone text was refused: its own fault only if the endpoint takes another one; else model or settings are wrong."""
        try:
            self._endpoint.vectors([PROBE_TEXT])
        except InputRejected as error:
            raise EmbedderRefused(provider=PROVIDER, reason=error.context["reason"]) from error

    def _embed(self, inputs: Sequence[str]) -> list[bytes]:
        given = self._endpoint.vectors(inputs)
        for values in given:
            if len(values) != self.space.dimensions:
                raise EmbedderAnswerWrong(
                    provider=PROVIDER, reason=f"a vector of {len(values)} dimensions where the space has {self.space.dimensions}"
                )
        matrix = _matrix(given)
        if not np.isfinite(matrix).all(axis=1).any():
            raise EmbedderAnswerWrong(provider=PROVIDER, reason="no vector is finite")
        return [unit_vector(row) for row in matrix]


def _encodable(text: str) -> str:
    """A lone surrogate (a query may hold one) cannot be sent as JSON."""
    return text.encode("utf-8", "replace").decode()


def _matrix(given: list[list[float]]) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(given, dtype=np.float64)
    except OverflowError as error:
        raise EmbedderAnswerWrong(provider=PROVIDER, reason="a number beyond all bounds") from error


def _tokens(answer: CreateEmbeddingResponse) -> int:
    """What the endpoint says it counted; some leave usage out."""
    counted = getattr(getattr(answer, "usage", None), "total_tokens", None)
    return counted if isinstance(counted, int) and counted > 0 else 0


def _in_order(answer: CreateEmbeddingResponse, texts: int) -> list[list[float]]:
    """The vectors by their `index`; in the order given where the endpoint leaves every index out."""
    items = getattr(answer, "data", None)
    if not isinstance(items, list) or len(items) != texts:
        count = len(items) if isinstance(items, list) else 0
        raise EmbedderAnswerWrong(provider=PROVIDER, reason=f"{count} vectors for {texts} texts")
    indexes = [getattr(item, "index", None) for item in items]
    if any(index is not None for index in indexes):
        if sorted(indexes, key=str) != sorted(range(texts), key=str):
            raise EmbedderAnswerWrong(provider=PROVIDER, reason="its indexes do not name each text once")
        items = sorted(items, key=lambda item: item.index)
    return [_numbers(getattr(item, "embedding", None)) for item in items]


def _numbers(values: object) -> list[float]:
    if not isinstance(values, list) or not values or not all(isinstance(value, int | float) for value in values):
        raise EmbedderAnswerWrong(provider=PROVIDER, reason="a vector that is not a list of numbers")
    return values


def _translated(error: openai.APIStatusError) -> EvercurrentError:
    """What an HTTP status means for the caller. Of the endpoint's own words only a code of plain characters is kept."""
    status = error.status_code
    code = next((word for word in (error.code, error.type) if word and _WORDS_ONLY.fullmatch(word)), None)
    reason = f"it answered {status}" + (f" ({code})" if code else "")
    if status == 429:
        return EmbedderRateLimited(provider=PROVIDER, retry_after_seconds=retry_after_seconds(error.response.headers))
    if status in _BUSY or status >= 500:
        return EmbedderUnavailable(provider=PROVIDER, reason=reason, retry_after_seconds=retry_after_seconds(error.response.headers))
    if status in _BAD_REQUEST:
        return InputRejected(provider=PROVIDER, reason=reason)
    return EmbedderRefused(provider=PROVIDER, reason=reason)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which is taken from the answer's own `Date`. None: absent or senseless."""
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = _seconds_until(given, headers.get("date"))
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds_until(then: str, now: str | None) -> float:
    try:
        return (parsedate_to_datetime(then) - parsedate_to_datetime(now or "")).total_seconds()
    except (ValueError, TypeError):
        return math.nan
