//! The configuration: which settings there are (`registry`), what their values may be (`value`),
//! the files they stand in (`file`), where those are (`locations`), which source wins (`resolve`)
//! and what of it nobody may see (`secrets`).
//!
//! Code never asks for a setting by its text: it takes [`Key`]s or the typed getters of
//! [`Settings`].

pub mod file;
pub mod locations;
pub mod registry;
pub mod resolve;
pub mod secrets;
pub mod template;
pub mod value;

pub use locations::Locations;
pub use registry::{Key, Setting};
pub use resolve::{ResolvedSetting, SettingSource, Settings};
pub use value::{SettingValue, ValueKind, parse_duration};
