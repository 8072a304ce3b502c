//! What is remembered of the processes that tools start.

use serde::{Deserialize, Serialize};

use crate::text_enum::text_enum;

text_enum! {
    /// How well a command was kept inside its sandbox.
    Confinement: "level of confinement" {
        /// Own view of the file system, own processes, network on demand (bubblewrap).
        Namespaces = "namespaces",
        /// Writes, reads and sockets limited by the kernel (Landlock); the rest is the machine's.
        Landlock = "landlock",
        /// Nothing but its working directory and a clean environment.
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

/// Enough to find a process again, and to know that it is the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub process_group: i32,
    /// In clock ticks since the boot, as the kernel says; a number that was used again differs.
    pub started: u64,
    pub boot_id: String,
    pub confinement: Confinement,
}
