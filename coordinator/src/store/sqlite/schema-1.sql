-- The queue. `tasks` is hot and narrow; what is written once and read seldom stands in tables of its own.
-- Instants are milliseconds since 1970. state: 0 queued, 1 leased, 2 done.

CREATE TABLE repos (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    agent       TEXT,
    max_running INTEGER,
    paused      INTEGER NOT NULL DEFAULT 0,
    turn        INTEGER NOT NULL DEFAULT 0      -- grows with each lease: the repo with the smallest is next
) STRICT;
CREATE INDEX repos_turn ON repos (turn);

CREATE TABLE tasks (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of submission; never used twice
    id                  BLOB NOT NULL UNIQUE,
    repo                INTEGER NOT NULL REFERENCES repos (id),
    priority            INTEGER NOT NULL,       -- 0 critical … 3 low
    needs               TEXT NOT NULL,          -- the words that a worker must offer
    is_agent            INTEGER NOT NULL,
    session             TEXT,
    writes              INTEGER NOT NULL,       -- whether it changes its session
    max_attempts        INTEGER NOT NULL,
    retry               TEXT,
    event_budget        INTEGER NOT NULL,       -- bytes of events that one lease may add
    state               INTEGER NOT NULL,
    hold                INTEGER,                -- 0 not before (wall), 1 backoff (timeline), 2 session
    hold_until          INTEGER,
    attempt             INTEGER NOT NULL DEFAULT 0,
    counted             INTEGER NOT NULL DEFAULT 0,
    releases            INTEGER NOT NULL DEFAULT 0,
    lease               BLOB,                   -- the newest lease, whether it lives or not
    lease_key           BLOB,
    worker              BLOB,
    lease_end           INTEGER,                -- 0 reported, 1 released, 2 lapsed
    lease_expires_at    INTEGER,
    lease_renewed       INTEGER NOT NULL DEFAULT 0,
    events              INTEGER NOT NULL DEFAULT 0,   -- the newest event's number
    lease_events        INTEGER NOT NULL DEFAULT 0,   -- the newest lease's events; 0 again once they are pruned
    lease_event_bytes   INTEGER NOT NULL DEFAULT 0,
    created_at          INTEGER NOT NULL,
    started_at          INTEGER,
    cancel_requested_at INTEGER,
    finished_at         INTEGER,
    reason              TEXT
) STRICT;

-- Partial: each holds only the tasks that its one question is about.
CREATE INDEX tasks_ready    ON tasks (repo, priority, needs, seq) WHERE state = 0 AND hold IS NULL;
CREATE INDEX tasks_held     ON tasks (hold, hold_until)           WHERE state = 0 AND hold_until IS NOT NULL;
CREATE INDEX tasks_waiting  ON tasks (repo)                       WHERE state = 0 AND hold IS NOT NULL;
CREATE INDEX tasks_queuing  ON tasks (repo, session, priority, seq)
    WHERE state = 0 AND writes = 1 AND hold_until IS NULL;
CREATE INDEX tasks_leading  ON tasks (repo, session)              WHERE state = 0 AND writes = 1 AND hold IS NULL;
CREATE INDEX tasks_writing  ON tasks (repo, session)              WHERE state = 1 AND writes = 1;
CREATE INDEX tasks_running  ON tasks (repo, seq)                  WHERE state = 1;
CREATE INDEX tasks_expiring ON tasks (lease_expires_at)           WHERE state = 1;
CREATE INDEX tasks_done     ON tasks (finished_at)                WHERE state = 2;
CREATE INDEX tasks_output   ON tasks (finished_at)                WHERE state = 2 AND lease_events > 0;
CREATE UNIQUE INDEX tasks_lease ON tasks (lease)                  WHERE lease IS NOT NULL;
CREATE INDEX tasks_of_repo  ON tasks (repo, seq);

CREATE TABLE specs (
    task  INTEGER PRIMARY KEY,
    brief TEXT NOT NULL,                        -- what a list shows, first, so that a list never reads the rest
    full  TEXT NOT NULL
) STRICT;

CREATE TABLE results (
    task INTEGER PRIMARY KEY,
    json TEXT NOT NULL
) STRICT;

CREATE TABLE labels (
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    task  INTEGER NOT NULL,
    PRIMARY KEY (name, value, task)
) STRICT, WITHOUT ROWID;

-- Everything that happened to a task, in order; output bytes are here too. kind: 0 state, 1 stdout, 2 stderr, 3 progress,
-- 4 tool, 5 message, 6 usage, 7 error.
CREATE TABLE events (
    task    INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    feed    INTEGER,                            -- the number in the queue-wide feed, of state changes
    attempt INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    data    BLOB NOT NULL,
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX events_feed ON events (feed) WHERE feed IS NOT NULL;

-- One row: the newest number of the feed that was pruned, so that none is given twice.
CREATE TABLE feed_floor (
    number INTEGER NOT NULL
) STRICT;
INSERT INTO feed_floor VALUES (0);

CREATE TABLE idempotency (
    key        BLOB NOT NULL,
    name       TEXT NOT NULL,
    body       BLOB NOT NULL,                   -- SHA-256 of the request
    task       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (key, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE keys (
    id         BLOB PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,            -- SHA-256 of the secret
    role       TEXT NOT NULL,
    repos      TEXT NOT NULL,
    name       TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    id           BLOB PRIMARY KEY,
    info         TEXT NOT NULL,
    repos        TEXT NOT NULL,
    last_seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
