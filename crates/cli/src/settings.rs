//! The configuration: the table of settings (`registry`), their values (`value`), their files
//! (`file`), the paths of those (`locations`), the precedence of sources (`resolve`) and the
//! masking of secret values (`secrets`).
//!
//! Code never looks up a setting by a string: it uses [`Key`]s or the typed getters of
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
pub use value::{SettingValue, ValueKind};
