//! A JSON file in the folder of an apply.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::{read_if_exists, remove, replace};

/// A file with one value of type `T`, or none.
#[derive(Debug, Clone)]
pub(crate) struct JsonFile<T> {
    path: PathBuf,
    value: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> JsonFile<T> {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            value: PhantomData,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.is_file()
    }

    /// Returns the value, or `None` if there is no file.
    pub(crate) fn read(&self) -> SandboxResult<Option<T>> {
        let Some(bytes) = read_if_exists(&self.path)? else {
            return Ok(None);
        };
        let value = serde_json::from_slice(&bytes).map_err(|error| self.io_error(&error))?;
        Ok(Some(value))
    }

    /// Replaces the file. The new one survives a power failure.
    pub(crate) fn write(&self, value: &T) -> SandboxResult<()> {
        let bytes = serde_json::to_vec_pretty(value).map_err(|error| self.io_error(&error))?;
        replace(&self.path, &bytes)
    }

    pub(crate) fn remove(&self) -> SandboxResult<()> {
        remove(&self.path)
    }

    fn io_error(&self, error: &serde_json::Error) -> SandboxError {
        SandboxError::Io {
            path: self.path.clone(),
            reason: error.to_string(),
        }
    }
}
