//! Records of the processes that tools start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text_enum::text_enum;

text_enum! {
    /// The confinement level of a command.
    Confinement: "level of confinement" {
        /// Own mount and process namespaces; network only on request (bubblewrap).
        Namespaces = "namespaces",
        /// The kernel restricts writes, reads and sockets (Landlock); everything else is shared
        /// with the machine.
        Landlock = "landlock",
        /// Only a working directory and a clean environment.
        None = "none",
    }
}

text_enum! {
    /// Whether a command may use the network.
    #[derive(Default)]
    Network: "network policy" {
        #[default]
        Deny = "deny",
        Allow = "allow",
    }
}

/// Identifies a process across restarts of this program and detects a reused process id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    pub process_group: i32,
    /// In clock ticks since boot, as reported by the kernel. Differs if the process id was reused.
    pub started: u64,
    pub boot_id: String,
    pub confinement: Confinement,
}
