"""Uploads on the real product: what was acknowledged survives kills, is served when the answer says so, and stays with its tenant."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2 as httpx
import pytest
from kit.commands import is_running, wait_until
from kit.product import Product, Up

from evercurrent.client import (
    AsyncClient,
    Client,
    File,
    NotThere,
    OwnedElsewhere,
    Refused,
    Servers,
    Uploaded,
    servers_of,
)
from evercurrent.running import find_running
from store.folder import DataFolder

pytestmark = pytest.mark.process

SETTINGS = {
    "EVERCURRENT_INDEXER__EMBEDDING__PROVIDER": "hashing",
    "EVERCURRENT_WORKERS__COUNT": "1",
    "EVERCURRENT_WORKERS__LEASE_SECONDS": "2",
    "EVERCURRENT_EVERCURRENT__DASHBOARD__ENABLED": "false",
}
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("uploads")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "file.md").write_text("# File\n\na bittern booms at dusk\n", "utf-8")
    with Product(folder / "data", SETTINGS).up(str(docs)) as up:
        yield up


@pytest.fixture
def servers(running: Up) -> Servers:
    return servers_of(running.product.data)


@pytest.fixture
def client(servers: Servers) -> Iterator[Client]:
    with Client(servers, timeout=PATIENCE_SECONDS) as opened:
        yield opened


def found(client: Client, query: str, mode: str = "keyword", **more: object) -> list[str]:
    return [hit["document"] for hit in client.search(query, mode=mode, **more)["hits"]]  # type: ignore[arg-type]


def test_wait_answers_once_every_retriever_serves_the_document_in_every_mode(running: Up, client: Client) -> None:
    retriever = running.pid("retriever")
    os.kill(retriever, signal.SIGSTOP)
    try:
        answer = client.put("waited.md", "a sandpiper runs along the waterline", wait=1.5)
        assert not answer.is_served
        wait_until(lambda: client.get("waited.md")["state"] == "indexed", "the worker is done with it")
        assert not client.put("waited.md", "a sandpiper runs along the waterline", wait=0.5).is_served
    finally:
        os.kill(retriever, signal.SIGCONT)
    assert client.put("waited.md", "a sandpiper runs along the waterline", wait=PATIENCE_SECONDS) == replace(answer, is_served=True)
    for mode in ("keyword", "dense", "hybrid"):
        assert found(client, "sandpiper waterline", mode)[0] == "waited.md"


def test_the_same_upload_again_costs_no_job_and_no_embedding(running: Up, client: Client) -> None:
    first = client.put("same.md", "a curlew calls over the moor", wait=PATIENCE_SECONDS)
    before = [running.metric(name) for name in ("evercurrent_jobs_total", "evercurrent_embedded_texts_total")]
    assert client.put("same.md", "a curlew calls over the moor", wait=PATIENCE_SECONDS) == first
    client.settle(PATIENCE_SECONDS)
    assert [running.metric(name) for name in ("evercurrent_jobs_total", "evercurrent_embedded_texts_total")] == before


def test_a_patch_changes_what_a_filter_finds_at_once_and_embeds_nothing(running: Up, client: Client) -> None:
    client.put("rule.md", "a plover feigns a broken wing", metadata={"kind": "draft"}, wait=PATIENCE_SECONDS)
    before = [running.metric(name) for name in ("evercurrent_jobs_total", "evercurrent_embedded_texts_total")]
    for kind in ("rule", "law", "rule"):
        client.patch("rule.md", metadata={"kind": kind})
        assert found(client, "plover", filter={"kind": kind}) == ["rule.md"]
        assert found(client, "plover", filter={"kind": "draft"}) == []
    client.patch("file.md", metadata={"kind": "filed"})
    assert found(client, "bittern", filter={"kind": "filed"}) == ["file.md"]
    assert [running.metric(name) for name in ("evercurrent_jobs_total", "evercurrent_embedded_texts_total")] == before


def test_two_tenants_upload_the_same_bytes_under_the_same_uri_and_see_only_theirs(servers: Servers) -> None:
    acme, other = (Client(replace(servers, namespace=name), timeout=PATIENCE_SECONDS) for name in ("acme", "other"))
    with acme, other:
        for tenant in (acme, other):
            assert tenant.put("shared.md", "an avocet sweeps the shallows", wait=PATIENCE_SECONDS).is_served
        other.patch("shared.md", metadata={"owner": "other"})
        acme.delete("shared.md")
        assert (found(acme, "avocet"), found(other, "avocet")) == ([], ["shared.md"])
        assert other.original("shared.md") == b"an avocet sweeps the shallows"
        with pytest.raises(NotThere):
            acme.original("shared.md")
        assert acme.get("shared.md")["state"] == "deleted"


def test_a_deletion_beats_uploads_in_flight(client: Client) -> None:
    for number in range(5):
        client.put("fleeting.md", f"a dunlin number {number} passes")
        client.delete("fleeting.md")
        assert found(client, "dunlin") == []
    client.settle(PATIENCE_SECONDS)
    assert (found(client, "dunlin"), client.get("fleeting.md")["state"]) == ([], "deleted")


def test_a_document_has_one_owner(running: Up, client: Client) -> None:
    with pytest.raises(OwnedElsewhere):
        client.put("file.md", "mine now")
    assert found(client, "bittern") == ["file.md"]
    answer = running.product.run("sync", "--json")
    assert (answer.code, answer.json["documents"]["unchanged"], answer.json["documents"]["deleted"]) == (0, 1, 0)


def test_a_large_body_that_is_refused_is_answered_to_a_client_that_sends_all_of_it_first(servers: Servers) -> None:
    for uri, body_bytes, status in (("photo.png", 24 << 20, 415), ("large.txt", 65 << 20, 413)):
        connection = http.client.HTTPConnection(servers.intake.removeprefix("http://"), timeout=PATIENCE_SECONDS)
        connection.request("PUT", f"/v1/collections/main/documents/{uri}", bytes(body_bytes))
        assert connection.getresponse().status == status
        connection.close()


def test_half_a_body_is_no_document(running: Up, client: Client, servers: Servers) -> None:
    connection = http.client.HTTPConnection(servers.intake.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    connection.putrequest("PUT", "/v1/collections/main/documents/half.md")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"half of it")
    drafts = running.product.data / "blobs" / "drafts"
    wait_until(lambda: drafts.is_dir() and any(drafts.iterdir()), "the upload has begun")
    connection.close()
    wait_until(lambda: not any(drafts.iterdir()), "nothing is left of it")
    with pytest.raises(NotThere):
        client.get("half.md")


def test_many_files_land_beside_a_bad_one(client: Client) -> None:
    files = [File(f"many/{number}.md", f"a knot, the {number}th of many") for number in range(30)]
    outcomes = client.put_many([*files, File("many/photo.png", b"\x89PNG")], wait=PATIENCE_SECONDS)
    assert [type(outcome) for outcome in outcomes] == [Uploaded] * 30 + [Refused]
    assert all(outcome.is_served for outcome in outcomes if isinstance(outcome, Uploaded))
    assert len(found(client, "knot", k=50)) == 30
    assert [row["document"] for row in client.documents("indexed")].count("many/7.md") == 1


def test_the_awaited_client_does_many_things_at_once(servers: Servers) -> None:
    async def all_at_once() -> list[Uploaded]:
        async with AsyncClient(servers, timeout=PATIENCE_SECONDS) as client:
            puts = (client.put(f"async/{number}.md", f"a ruff, the {number}th", wait=PATIENCE_SECONDS) for number in range(10))
            return await asyncio.gather(*puts)

    assert all(uploaded.is_served for uploaded in asyncio.run(all_at_once()))


def test_the_intake_answers_while_a_slow_upload_comes_in(running: Up, client: Client, servers: Servers) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"a whimbrel "
        begun.set()
        go_on.wait(PATIENCE_SECONDS)
        yield b"whistles seven times"

    url = f"{servers.intake}/v1/collections/main/documents/slow.md"
    upload = threading.Thread(target=lambda: httpx.put(url, content=slow(), timeout=PATIENCE_SECONDS, trust_env=False))
    upload.start()
    assert begun.wait(PATIENCE_SECONDS)
    assert client.put("quick.md", "a stint is quick", wait=PATIENCE_SECONDS).is_served
    with pytest.raises(NotThere):
        client.get("slow.md")
    go_on.set()
    upload.join()
    client.settle(PATIENCE_SECONDS)
    assert found(client, "whimbrel whistles") == ["slow.md"]


def test_a_quarantined_upload_is_retried_and_waited_for(running: Up, client: Client) -> None:
    client.put("disguised.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    wait_until(lambda: client.get("disguised.md")["state"] == "quarantined", "the worker has refused it")
    for asked in ((), ("disguised.md",)):
        answer = running.product.run("retry", *asked, "--json")
        assert (answer.code, answer.json["retried"]) == (1, 1)
        assert [row["document"] for row in answer.json["failed"]] == ["disguised.md"]
    client.delete("disguised.md")
    assert running.product.run("retry", "--json").json == {"retried": 0, "failed": []}


def test_what_was_acknowledged_before_everything_was_killed_is_searchable_after_up_again(tmp_path: Path) -> None:
    product = Product(tmp_path / "data", SETTINGS)
    with product.up() as up, Client(servers_of(product.data), timeout=PATIENCE_SECONDS) as client:
        client.put("early.md", "an oystercatcher pries", wait=PATIENCE_SECONDS)
        os.kill(up.pid("broker"), signal.SIGSTOP)  # so that nothing of what follows is indexed before the end
        acknowledged = [client.put(f"late/{number}.md", f"a godwit, the {number}th").document for number in range(20)]
        acknowledged += [
            outcome.document for outcome in client.put_many([(f"many/{number}.md", "a godwit of many") for number in range(20)])
        ]
        client.delete("early.md")
        assert {client.get(uri)["state"] for uri in acknowledged} == {"pending"}
        kill_everything(up)
    with product.up():
        wait_until(lambda: find_running(DataFolder(product.data)) is not None, "the new `up` has told its urls", PATIENCE_SECONDS)
        with Client(servers_of(product.data), timeout=PATIENCE_SECONDS) as client:
            client.settle(PATIENCE_SECONDS)
            for mode in ("keyword", "dense"):
                assert set(found(client, "godwit", mode, k=100)) == set(acknowledged)
            assert found(client, "oystercatcher") == []
            assert client.original("late/7.md") == b"a godwit, the 7th"
    assert product.run("check", "--json").json["ok"]


def kill_everything(up: Up) -> None:
    pids = [int(process["pid"]) for process in up.running["processes"]]
    for role in ("indexer", "broker", "worker"):
        os.kill(up.pid(role), signal.SIGKILL)
    up.process.kill()
    up.process.wait()
    wait_until(lambda: not any(map(is_running, pids)), "every process is gone", PATIENCE_SECONDS)
