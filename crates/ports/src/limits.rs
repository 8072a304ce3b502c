//! Resource limits of commands and captures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of all processes of a command, in bytes.
    Memory,
    /// Number of processes and threads of a command.
    Processes,
    /// Size of any one file that a command writes or a capture reads, in bytes.
    FileSize,
    /// Disk use of a sandbox's tree and its scratch folder, in bytes.
    Disk,
    /// Number of new paths in one capture.
    CapturedFiles,
    /// Size of all new and changed files of one capture, in bytes.
    CapturedSize,
}

impl Limit {
    pub const ALL: [Self; 6] = [
        Self::Memory,
        Self::Processes,
        Self::FileSize,
        Self::Disk,
        Self::CapturedFiles,
        Self::CapturedSize,
    ];

    /// The setting that raises this limit.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Memory => "sandbox.limits.memory-mib",
            Self::Processes => "sandbox.limits.processes",
            Self::FileSize => "sandbox.limits.file-mib",
            Self::Disk => "sandbox.limits.disk-mib",
            Self::CapturedFiles => "sandbox.limits.captured-files",
            Self::CapturedSize => "sandbox.limits.captured-mib",
        }
    }

    const fn is_counted(self) -> bool {
        matches!(self, Self::Processes | Self::CapturedFiles)
    }
}

/// An exceeded limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverLimit {
    pub limit: Limit,
    pub allowed: u64,
    /// The measured amount, a lower bound; `None` if unknown.
    pub found: Option<u64>,
    /// The file or folder concerned, if there is one.
    pub path: Option<String>,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |value| {
            if self.limit.is_counted() {
                format!("{value}")
            } else {
                size_text(value)
            }
        };
        let found = self.found.map(amount);
        let found = found.as_deref().unwrap_or("more than allowed");
        let path = self.path.as_deref().unwrap_or("a file");
        match self.limit {
            Limit::Memory => write!(f, "its processes used {found} of memory"),
            Limit::Processes => write!(f, "it ran {found} processes and threads"),
            Limit::FileSize => write!(f, "{path} has {found}"),
            Limit::Disk => write!(f, "the sandbox takes {found} on disk"),
            Limit::CapturedFiles => write!(f, "there are at least {found} new files, up to {path}"),
            Limit::CapturedSize => {
                write!(
                    f,
                    "new and changed files have at least {found}, up to {path}"
                )
            }
        }?;
        let (allowed, setting) = (amount(self.allowed), self.limit.setting());
        write!(f, "; the limit is {allowed} (setting `{setting}`)")
    }
}

/// Formats a byte count: exact below 1 KiB, else with one decimal.
fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let exponent = usize::try_from(bytes.ilog2() / 10).unwrap_or(1);
    let unit = 1_u128 << (exponent * 10);
    let tenths = u128::from(bytes) * 10 / unit;
    let unit = UNITS[exponent - 1];
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        digit => format!("{}.{digit} {unit}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_use_the_limit_and_the_setting() {
        let over = OverLimit {
            limit: Limit::FileSize,
            allowed: 4 << 30,
            found: Some(1 << 40),
            path: Some("x".to_owned()),
        };
        let text = "x has 1 TiB; the limit is 4 GiB (setting `sandbox.limits.file-mib`)";
        assert_eq!(over.to_string(), text);
        let over = OverLimit {
            limit: Limit::Processes,
            allowed: 64,
            found: Some(70),
            path: None,
        };
        let text =
            "it ran 70 processes and threads; the limit is 64 (setting `sandbox.limits.processes`)";
        assert_eq!(over.to_string(), text);
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (5 << 20, "5 MiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }
}
