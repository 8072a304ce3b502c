-- Files of repositories that the user consented to use: one row for each content of a file.
-- `repository` is the top of its working tree, `path` is seen from there, `hash` is BLAKE3.
CREATE TABLE repository_file_consents (
    repository TEXT NOT NULL,
    path TEXT NOT NULL,
    hash TEXT NOT NULL,
    actor TEXT NOT NULL,
    given_at BIGINT NOT NULL,
    PRIMARY KEY (repository, path, hash)
) {BY KEY};
