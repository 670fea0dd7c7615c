-- Files of tasks; their bytes are blobs in the object store, each named by one row. A lease uploads, its report publishes.

CREATE TABLE uploads (
    lease  BLOB NOT NULL,
    path   TEXT NOT NULL,
    blob   TEXT NOT NULL UNIQUE,
    size   INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (lease, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifacts (
    task   INTEGER NOT NULL,
    path   TEXT NOT NULL,
    blob   TEXT NOT NULL UNIQUE,
    size   INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (task, path)
) STRICT, WITHOUT ROWID;
