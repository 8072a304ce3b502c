//! The installation: where data is stored, what it contains and how much space it takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Request, RequestKind};

/// Returns where data is stored, what it contains and how much space it takes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Info {}

impl Request for Info {
    type Answer = InfoAnswer;
    const NAME: &'static str = "info";
    const KIND: RequestKind = RequestKind::Read;
}

/// The installation and its data.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InfoAnswer {
    pub version: String,
    #[serde(flatten)]
    pub installation: Installation,
    /// The name of this machine.
    pub node: String,
    pub server_mode: ServerMode,
    pub database: DatabaseInfo,
    pub statistics: DatabaseContents,
    pub disk: DiskUsage,
}

/// The files and folders of the program on its machine.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Installation {
    pub data_directory: String,
    pub config_file: String,
    pub config_file_present: bool,
    /// The settings of the repository that the program was started in, if it has any.
    pub project_config_file: Option<String>,
}

/// Whether requests are sent to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerMode {
    /// They are handled in the process of the front end. There is no other mode yet.
    Disabled,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseInfo {
    /// `sqlite`, `postgresql` or `memory`.
    pub engine: String,
    /// A file, or the address of a server without its password.
    pub place: String,
    pub schema_version: i64,
}

/// Counts and sizes of what the database contains.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseContents {
    pub streams: i64,
    pub events: i64,
    pub actions: i64,
    pub plans: i64,
    pub operations: i64,
    pub blobs: i64,
    pub blob_bytes: i64,
    pub database_bytes: i64,
}

/// The space that the data directory takes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct DiskUsage {
    pub database_bytes: u64,
    /// The write-ahead log of the database.
    pub wal_bytes: u64,
    pub blobs_bytes: u64,
    pub backups_bytes: u64,
    /// Everything in the data directory.
    pub total_bytes: u64,
    /// The free space of its disk; `None` if it cannot be determined.
    pub free_bytes: Option<u64>,
}
