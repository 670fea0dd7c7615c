-- Workspaces: the files of sessions. Truth is rows and immutable blobs; a version is a number, made by one transaction.
-- kind: 0 file, 1 directory, 2 symlink, 3 deleted (stages only).

CREATE TABLE sessions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: rows of a deleted session are swept later
    name        TEXT NOT NULL UNIQUE,
    repo        INTEGER REFERENCES repos (id),     -- none before its first task, when nobody said
    labels      TEXT NOT NULL,
    quota_bytes INTEGER,                           -- none: the coordinator's default
    version     INTEGER NOT NULL DEFAULT 0,
    known_from  INTEGER NOT NULL DEFAULT 0,        -- differences from this version on are complete
    used_bytes  INTEGER NOT NULL DEFAULT 0,
    entries     INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    used_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_used ON sessions (used_at);

-- Sessions that were deleted and whose entries are still to be swept.
CREATE TABLE gone_sessions (
    id INTEGER PRIMARY KEY
) STRICT;

-- What stood at a path from a version on, until another; none: it still does.
CREATE TABLE entries (
    session      INTEGER NOT NULL,
    path         TEXT NOT NULL,
    from_version INTEGER NOT NULL,
    to_version   INTEGER,
    parent       TEXT NOT NULL,
    kind         INTEGER NOT NULL,
    blob         TEXT,                             -- many rows may name one
    size         INTEGER NOT NULL,
    sha256       TEXT,
    mode         INTEGER NOT NULL,
    target       TEXT,
    modified_at  INTEGER NOT NULL,
    PRIMARY KEY (session, path, from_version)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entries_live ON entries (session, path) WHERE to_version IS NULL;
CREATE INDEX entries_children    ON entries (session, parent);
CREATE INDEX entries_begun       ON entries (session, from_version);
CREATE INDEX entries_ended       ON entries (session, to_version) WHERE to_version IS NOT NULL;
CREATE INDEX entries_content     ON entries (session, sha256)     WHERE sha256 IS NOT NULL;
CREATE INDEX entries_blob        ON entries (blob)                WHERE blob IS NOT NULL;

CREATE TABLE versions (
    session    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    made_at    INTEGER NOT NULL,
    made_by    TEXT NOT NULL,                      -- the id of a key or of a task
    used_bytes INTEGER NOT NULL,
    entries    INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots (
    session    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    used_bytes INTEGER NOT NULL,
    entries    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

-- The version that a live lease works on.
CREATE TABLE pins (
    lease   BLOB PRIMARY KEY,
    session INTEGER NOT NULL,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pins_session ON pins (session);

-- Changes that a lease uploaded and that its report has not yet published.
CREATE TABLE stages (
    lease   BLOB PRIMARY KEY,
    id      BLOB NOT NULL,
    session INTEGER NOT NULL,
    base    INTEGER NOT NULL,
    sealed  INTEGER NOT NULL DEFAULT 0,            -- whether all of it has come
    entries INTEGER NOT NULL DEFAULT 0,
    deletes INTEGER NOT NULL DEFAULT 0,
    bytes   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE stage_entries (
    lease  BLOB NOT NULL,
    path   TEXT NOT NULL,
    kind   INTEGER NOT NULL,
    blob   TEXT,
    size   INTEGER NOT NULL,
    sha256 TEXT,
    mode   INTEGER NOT NULL,
    target TEXT,
    PRIMARY KEY (lease, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX stage_entries_blob ON stage_entries (blob) WHERE blob IS NOT NULL;

-- The outbox of the published copy: what changed, with the newest version that changed it. An empty path is a whole session
-- that is gone; whoever copies looks at what is live when it comes to a row.
CREATE TABLE mirror (
    session TEXT NOT NULL,
    path    TEXT NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;

-- Blobs that nothing names, since when.
CREATE TABLE orphans (
    blob  TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Whether only exit code 0 keeps the task's changes of its session.
ALTER TABLE tasks ADD COLUMN on_success INTEGER NOT NULL DEFAULT 0;

-- Sessions that tasks have named so far belong to the repo that named them first.
INSERT INTO sessions (name, repo, labels, created_at, used_at)
    SELECT session, repo, '{}', created_at, created_at FROM tasks
    WHERE seq IN (SELECT min(seq) FROM tasks WHERE session IS NOT NULL GROUP BY session);
