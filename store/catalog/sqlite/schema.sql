-- The catalog's schema, version 2, for new folders; older ones reach it by migrations.py. A column that came later stands last.
-- A row is visible when it is born and has not died; `died` is null while it lives. Keys are local to this file:
-- only ids, hashes, uris and (incarnation, seq) leave it.

CREATE TABLE meta (
    only_row      INTEGER PRIMARY KEY CHECK (only_row = 1),
    incarnation   TEXT NOT NULL,          -- changed by restore: positions of another incarnation mean nothing here
    seq           INTEGER NOT NULL,       -- head of the change log
    log_floor     INTEGER NOT NULL,       -- rows up to here may have been thinned: an older cursor has lapsed
    version       INTEGER NOT NULL,       -- last document version assigned
    fence         INTEGER NOT NULL,       -- last fence assigned
    last_key      INTEGER NOT NULL DEFAULT 0 -- collections and builds have keys above it: those of dropped ones never come back
) STRICT;

CREATE TABLE namespaces (
    namespace_key INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE spaces (
    space_key     INTEGER PRIMARY KEY,
    space_id      TEXT NOT NULL UNIQUE,
    provider      TEXT NOT NULL,
    model         TEXT NOT NULL,
    dimensions    INTEGER NOT NULL,
    settings      TEXT NOT NULL           -- JSON, no secrets
) STRICT;

CREATE TABLE collections (
    collection_key INTEGER PRIMARY KEY,
    namespace_key  INTEGER NOT NULL REFERENCES namespaces,
    name           TEXT NOT NULL,
    served_build   INTEGER NOT NULL,
    growing_build  INTEGER,
    born           INTEGER NOT NULL DEFAULT 0, -- head of the change log when it was created: an older cursor knew another one
    UNIQUE (namespace_key, name)
) STRICT;

-- What is left of dropped collections until it is removed, piece by piece.
CREATE TABLE dropped (
    collection_key INTEGER PRIMARY KEY,
    namespace_key  INTEGER NOT NULL REFERENCES namespaces,
    name           TEXT NOT NULL
) STRICT;

CREATE TABLE builds (
    build_key      INTEGER PRIMARY KEY,
    collection_key INTEGER NOT NULL REFERENCES collections,
    recipe_id      TEXT NOT NULL,
    recipe         TEXT NOT NULL,         -- settings as JSON
    space_key      INTEGER NOT NULL REFERENCES spaces,
    retired        INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE roots (
    root_key       INTEGER PRIMARY KEY,
    collection_key INTEGER NOT NULL REFERENCES collections,
    name           TEXT NOT NULL,
    kind           TEXT NOT NULL,
    path           BLOB NOT NULL,         -- as the file system has it, byte for byte
    prefix         TEXT NOT NULL,
    device         INTEGER,
    standing       TEXT NOT NULL DEFAULT 'live' -- live; leaving: takes nothing, its documents go; left: tombstones refer to it
) STRICT;
CREATE UNIQUE INDEX roots_by_name ON roots (collection_key, name) WHERE standing <> 'left';
CREATE UNIQUE INDEX roots_by_path ON roots (collection_key, path) WHERE standing <> 'left';

-- The ledger: a row a document, its tombstone included.
CREATE TABLE documents (
    document_key    INTEGER PRIMARY KEY,
    collection_key  INTEGER NOT NULL REFERENCES collections,
    uri             TEXT NOT NULL,
    root_key        INTEGER NOT NULL REFERENCES roots,
    wanted          INTEGER NOT NULL,     -- 1 present, 0 absent
    wanted_version  INTEGER NOT NULL,
    indexed_version INTEGER NOT NULL DEFAULT 0,
    build_key       INTEGER,              -- the newest build that has indexed_version
    wants_work      INTEGER NOT NULL,     -- 1: the feeder may nudge it
    state           TEXT NOT NULL,
    served_state    TEXT,                 -- indexed or empty, while something is visible
    urgency         INTEGER NOT NULL,
    cause           TEXT NOT NULL,
    noticed_at      REAL NOT NULL,        -- oldest unserved notice
    renoticed_at    REAL NOT NULL,        -- first notice since the last lease; 0: none
    attempts        INTEGER NOT NULL DEFAULT 0,
    retry_at        REAL,
    code            TEXT,
    message         TEXT,
    bytes           INTEGER,              -- the signature: bytes, mtime, inode, device
    mtime_ns        INTEGER,
    inode           INTEGER,
    device          INTEGER,
    proven          INTEGER NOT NULL DEFAULT 0,
    content_hash    BLOB,                 -- of the bytes last read
    wanted_hash     BLOB,                 -- of the bytes an upload wants
    own_metadata    TEXT,                 -- JSON: the source's own metadata, of the wanted version
    acl             TEXT,                 -- JSON list
    moved_from      INTEGER,              -- document_key that leaves when this one is committed
    moving_to       INTEGER,              -- document_key whose commit takes this one away
    session_id      TEXT,                 -- the lease,
    lease_seconds   REAL NOT NULL DEFAULT 0, -- free when its session is silent this long
    fence           INTEGER NOT NULL DEFAULT 0,
    leased_version  INTEGER NOT NULL DEFAULT 0, -- wanted_version when the lease was taken
    media_type      TEXT,                 -- what the source says that the wanted bytes are
    waiting_acl     TEXT,                 -- JSON: [version from which on, permissions or null]; they are shown with its commit
    UNIQUE (collection_key, uri)
) STRICT;
CREATE INDEX documents_waiting ON documents (collection_key, urgency, noticed_at) WHERE wants_work = 1;
CREATE INDEX documents_leased ON documents (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX documents_of_root ON documents (root_key, uri);
CREATE INDEX documents_of_blob ON documents (wanted_hash) WHERE wanted_hash IS NOT NULL;

-- Documents of a root whose uri another root owns: the oldest takes over when the owner's leaves.
CREATE TABLE claims (
    claim_key      INTEGER PRIMARY KEY,
    collection_key INTEGER NOT NULL REFERENCES collections,
    uri            TEXT NOT NULL,
    root_key       INTEGER NOT NULL REFERENCES roots,
    noticed_at     REAL NOT NULL,
    cause          TEXT NOT NULL,
    bytes          INTEGER,
    mtime_ns       INTEGER,
    inode          INTEGER,
    device         INTEGER,
    UNIQUE (collection_key, uri, root_key)
) STRICT;
CREATE INDEX claims_of_root ON claims (root_key, uri);

CREATE TABLE aliases (
    collection_key INTEGER NOT NULL,
    uri            TEXT NOT NULL,
    document_key   INTEGER NOT NULL,
    PRIMARY KEY (collection_key, uri)
) STRICT, WITHOUT ROWID;

CREATE TABLE texts (
    text_key INTEGER PRIMARY KEY,
    text     BLOB NOT NULL                -- UTF-8, zlib
) STRICT;

CREATE TABLE versions (
    version_key  INTEGER PRIMARY KEY,
    document_key INTEGER NOT NULL REFERENCES documents,
    build_key    INTEGER NOT NULL REFERENCES builds,
    version      INTEGER NOT NULL,
    born         INTEGER NOT NULL,
    died         INTEGER,
    title        TEXT,
    media_type   TEXT NOT NULL,
    language     TEXT,
    metadata     TEXT NOT NULL,           -- JSON: what the loader found
    content_hash BLOB NOT NULL,
    layout       BLOB NOT NULL,
    text_key     INTEGER NOT NULL REFERENCES texts,
    indexed_at   REAL NOT NULL,
    own_metadata TEXT                     -- JSON: the source's own, shown over the loader's; NULL: none
) STRICT;
CREATE INDEX versions_of_document ON versions (document_key, build_key);
CREATE UNIQUE INDEX versions_visible ON versions (document_key, build_key) WHERE died IS NULL;
CREATE INDEX versions_dead ON versions (died) WHERE died IS NOT NULL;
CREATE INDEX versions_of_text ON versions (text_key);

CREATE TABLE chunks (
    chunk_key    INTEGER PRIMARY KEY,
    document_key INTEGER NOT NULL REFERENCES documents,
    build_key    INTEGER NOT NULL REFERENCES builds,
    chunk_id     BLOB NOT NULL,
    text_hash    BLOB NOT NULL,
    occurrence   INTEGER NOT NULL,
    input_hash   BLOB,                    -- null: equal to the text hash
    vector_key   INTEGER NOT NULL REFERENCES vectors,
    born         INTEGER NOT NULL,
    died         INTEGER
) STRICT;
CREATE INDEX chunks_of_document ON chunks (document_key, build_key);
CREATE INDEX chunks_by_id ON chunks (chunk_id);
CREATE INDEX chunks_of_vector ON chunks (vector_key);
CREATE INDEX chunks_dead ON chunks (died) WHERE died IS NOT NULL;

CREATE TABLE vectors (
    vector_key    INTEGER PRIMARY KEY,
    namespace_key INTEGER NOT NULL REFERENCES namespaces,
    space_key     INTEGER NOT NULL REFERENCES spaces,
    input_hash    BLOB NOT NULL,
    vector        BLOB NOT NULL,          -- float32, little endian; empty: the chunk is kept without vector
    digest        INTEGER NOT NULL,       -- xxh3-64 of the vector, signed
    staged_by     TEXT,                   -- session that staged it and has not committed it yet
    UNIQUE (namespace_key, space_key, input_hash)
) STRICT;
CREATE INDEX vectors_staged ON vectors (staged_by) WHERE staged_by IS NOT NULL;

CREATE TABLE changes (
    seq            INTEGER PRIMARY KEY,
    at             REAL NOT NULL,
    kind           TEXT NOT NULL,
    collection_key INTEGER NOT NULL,
    document_key   INTEGER,
    version        INTEGER NOT NULL,
    first          INTEGER NOT NULL DEFAULT 0,
    moved_from     INTEGER,
    added          INTEGER NOT NULL DEFAULT 0,
    kept           INTEGER NOT NULL DEFAULT 0,
    moved          INTEGER NOT NULL DEFAULT 0,
    dropped        INTEGER NOT NULL DEFAULT 0,
    embedded       INTEGER NOT NULL DEFAULT 0,
    reused         INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX changes_of_collection ON changes (collection_key, seq);
CREATE INDEX changes_of_document ON changes (document_key, seq);

CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    role       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    beat_at    REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tallies (
    name   TEXT NOT NULL,
    labels TEXT NOT NULL,                 -- JSON list of [label, value], sorted
    value  REAL NOT NULL,
    PRIMARY KEY (name, labels)
) STRICT, WITHOUT ROWID;
