//! `yaml`: the same envelope as `json`.

use serde::Serialize;

pub(super) fn render(envelope: &impl Serialize) -> String {
    match serde_saphyr::to_string(envelope) {
        Ok(text) if text.ends_with('\n') => text,
        Ok(text) => text + "\n",
        // Falls back to JSON, which is valid YAML.
        Err(_) => super::json::render(envelope),
    }
}
