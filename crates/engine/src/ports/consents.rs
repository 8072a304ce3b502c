//! The user's consents to use files of repositories.

use cleveragents_domain::{AbsolutePath, Consent, ResourcePath};

use super::Result;

pub trait Consents {
    /// Stores a consent. Returns false, and changes nothing, if the user has already consented to
    /// that content of that file.
    fn insert_consent(&mut self, consent: &Consent) -> Result<bool>;

    /// Returns the consents to a file, one per content, oldest first.
    fn consents_to(
        &mut self,
        repository: &AbsolutePath,
        path: &ResourcePath,
    ) -> Result<Vec<Consent>>;
}
