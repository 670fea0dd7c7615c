-- Plain objects as they were last written, to know what others write; or why there can be none.
CREATE TABLE copies (
    session TEXT NOT NULL,
    path    TEXT NOT NULL,
    size    INTEGER NOT NULL,
    tag     TEXT NOT NULL,
    sha256  TEXT NOT NULL,
    problem TEXT,
    PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;
