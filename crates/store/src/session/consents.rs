//! Store operations on consents to repository files.

use cleveragents_domain::{AbsolutePath, Consent, RepositoryFile, ResourcePath};
use cleveragents_engine::ports::{Consents, Result};

use super::StoreSession;
use crate::value::{SqlRow, params};

impl Consents for StoreSession<'_> {
    fn insert_consent(&mut self, consent: &Consent) -> Result<bool> {
        let file = &consent.file;
        let inserted = self.execute(
            "INSERT INTO repository_file_consents (repository, path, hash, actor, given_at) \
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (repository, path, hash) DO NOTHING",
            params![
                file.repository.to_string(),
                file.path.to_string(),
                &file.hash,
                &consent.actor,
                consent.given_at
            ],
        )?;
        Ok(inserted == 1)
    }

    fn consents_to(
        &mut self,
        repository: &AbsolutePath,
        path: &ResourcePath,
    ) -> Result<Vec<Consent>> {
        let rows = self.query(
            "SELECT hash, actor, given_at FROM repository_file_consents \
             WHERE repository = ?1 AND path = ?2 ORDER BY given_at, hash",
            params![repository.to_string(), path.to_string()],
        )?;
        let consent = |row: &SqlRow| {
            Ok(Consent {
                file: RepositoryFile {
                    repository: repository.clone(),
                    path: path.clone(),
                    hash: row.text(0)?,
                },
                actor: row.text(1)?,
                given_at: row.time(2)?,
            })
        };
        rows.iter().map(consent).collect()
    }
}
