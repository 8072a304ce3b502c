//! Replaces known secrets by `«secret:NAME»` before anything is put into a prompt or stored.
//!
//! Masking happens on the way to storage, logs and models, never on the way to execution. Values
//! that are executed later are stored as [`references`] and resolved where they run. A
//! [`mask`] on its way into a file, a command or an argument is refused. [`is_secret_name`] decides
//! which variables hold secrets.
//!
//! Only named values are searched, in raw and in common encoded forms (`encodings.rs`), in one pass
//! for all secrets. Guessing what looks like a secret is left to [`Redactor`], which masks the output
//! of a front end, where a wrong guess does no harm. [`StreamMasker`] handles texts that arrive in
//! pieces.

mod encodings;
mod redactor;
pub mod references;
mod stream;
#[cfg(test)]
mod tests;
mod truncation;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use serde_json::Value;

pub use cleveragents_domain::secret_mask::mask;
use cleveragents_domain::secret_mask::{MASK_BEGINS, MASK_ENDS, NAMELESS};
pub use cleveragents_domain::secret_name::{SHORTEST_SECRET, is_secret, is_secret_name};
pub use redactor::Redactor;
pub use stream::StreamMasker;

/// Whether two values are equal, regardless of which secrets were known when each was masked: two
/// processes may know different secrets, so a mask matches anything.
pub fn equal_ignoring_secrets(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => {
            one == other || matches_masked(one, other) || matches_masked(other, one)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| equal_ignoring_secrets(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |((a, one), (b, other)): ((&String, &Value), (&String, &Value))| {
                (a == b || matches_masked(a, b) || matches_masked(b, a))
                    && equal_ignoring_secrets(one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(same)
        }
        // A number that contains a secret is masked as a string.
        (Value::String(mask), Value::Number(number))
        | (Value::Number(number), Value::String(mask)) => matches_masked(mask, &number.to_string()),
        (one, other) => one == other,
    }
}

/// Whether `text` may be the unmasked form of `masked`.
fn matches_masked(masked: &str, text: &str) -> bool {
    let Some((before, rest)) = masked.split_once(MASK_BEGINS) else {
        return masked == text;
    };
    let (Some((_, mut rest)), Some(mut text)) =
        (rest.split_once(MASK_ENDS), text.strip_prefix(before))
    else {
        return false;
    };
    loop {
        let Some((piece, after)) = rest.split_once(MASK_BEGINS) else {
            return text.ends_with(rest);
        };
        let Some((_, after)) = after.split_once(MASK_ENDS) else {
            return text.ends_with(rest);
        };
        let Some(at) = text.find(piece) else {
            return false;
        };
        text = &text[at + piece.len()..];
        rest = after;
    }
}

/// The secrets of this process; clones share them.
///
/// After masking, no known value of at least [`SHORTEST_SECRET`] characters is left, nor its form
/// escaped for JSON (once or twice), percent-encoded, or in base64, alone or within a longer text.
/// For base64 within a longer text, characters at the ends that also encode neighbouring bytes
/// stay. Overlapping values are masked as one, with the name of the longest. Each long line of a
/// multi-line value is masked by itself too. A value that is cut in two elsewhere is not found; for
/// answers that tools truncate, [`mask_answer`](Self::mask_answer) finds the remaining parts.
#[derive(Clone, Default)]
pub struct Secrets {
    /// `None` if there is nothing to search for.
    known: Option<Arc<SecretIndex>>,
}

/// There are more patterns than fit into memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot search for secrets: {0}")]
pub struct SecretsError(String);

struct SecretIndex {
    finder: AhoCorasick,
    /// The patterns of the finder.
    forms: Vec<String>,
    /// The mask for each pattern of the finder; longest pattern first.
    masks: Vec<String>,
    names: Vec<String>,
    /// Values by name, to resolve references.
    values: BTreeMap<String, String>,
    /// Length of the longest pattern.
    longest: usize,
}

/// A range to mask, and the pattern whose mask replaces it.
#[derive(Debug, Clone)]
struct SecretRange {
    range: Range<usize>,
    pattern: usize,
}

impl Secrets {
    /// Creates the set from names and values. If two names have the same value, the first name is
    /// used.
    pub fn new(values: Vec<(String, String)>) -> Result<Self, SecretsError> {
        let mut seen = HashSet::new();
        let mut patterns: Vec<(String, String)> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut by_name = BTreeMap::new();
        for (name, value) in values {
            let value = value.trim();
            if value.chars().count() < SHORTEST_SECRET {
                continue;
            }
            let forms = encodings::forms(value).into_iter();
            for form in forms.chain(encodings::secret_lines(value)) {
                if seen.insert(form.clone()) {
                    patterns.push((form, mask(&name)));
                }
            }
            by_name
                .entry(name.clone())
                .or_insert_with(|| value.to_owned());
            names.push(name);
        }
        if patterns.is_empty() {
            return Ok(Self::default());
        }
        patterns.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        let longest = patterns.first().map_or(0, |(form, _)| form.len());
        let (forms, masks): (Vec<String>, Vec<String>) = patterns.into_iter().unzip();
        let finder = AhoCorasick::new(&forms).map_err(|error| SecretsError(error.to_string()))?;
        let known = SecretIndex {
            finder,
            forms,
            masks,
            names,
            values: by_name,
            longest,
        };
        Ok(Self {
            known: Some(Arc::new(known)),
        })
    }

    /// Returns the text with secrets masked; borrowed if it has none.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let findings = self.find_matches(text.as_bytes(), None);
        if findings.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        let mut end = 0;
        for finding in &findings {
            clean.push_str(&text[end..finding.range.start]);
            clean.push_str(self.mask_of(finding));
            end = finding.range.end;
        }
        clean.push_str(&text[end..]);
        Cow::Owned(clean)
    }

    /// Returns the bytes with secrets masked, whether they are text or not.
    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let findings = self.find_matches(bytes, None);
        if findings.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let mut end = 0;
        for finding in &findings {
            clean.extend_from_slice(&bytes[end..finding.range.start]);
            clean.extend_from_slice(self.mask_of(finding).as_bytes());
            end = finding.range.end;
        }
        clean.extend_from_slice(&bytes[end..]);
        Cow::Owned(clean)
    }

    /// Masks the secrets in a JSON tree: in strings, in keys, and in numbers, which then become
    /// strings. Keys that become equal are made distinct.
    pub fn mask_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.mask(text) {
                    *text = clean;
                }
            }
            Value::Number(number) => {
                if let Cow::Owned(clean) = self.mask(&number.to_string()) {
                    *value = Value::String(clean);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_json(item)),
            Value::Object(map) => {
                for (key, mut item) in std::mem::take(map) {
                    self.mask_json(&mut item);
                    let mut key = self.mask(&key).into_owned();
                    while map.contains_key(&key) {
                        key.push('\'');
                    }
                    map.insert(key, item);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_none()
    }

    /// Returns the names of the secrets in these bytes. If values overlap, the longest counts.
    pub fn names_in(&self, bytes: &[u8]) -> BTreeSet<String> {
        let findings = self.find_matches(bytes, None);
        let name = |finding: &SecretRange| {
            let mask = self.mask_of(finding).strip_prefix(MASK_BEGINS)?;
            mask.strip_suffix(MASK_ENDS).map(str::to_owned)
        };
        findings.iter().filter_map(name).collect()
    }

    /// Returns the names of the known secrets, without duplicates.
    pub fn names(&self) -> Vec<&str> {
        let values = self.known.iter().flat_map(|known| known.values.keys());
        values.map(String::as_str).collect()
    }

    /// Returns the value of the secret of this name.
    fn value_of(&self, name: &str) -> Option<&str> {
        let known = self.known.as_ref()?;
        known.values.get(name).map(String::as_str)
    }

    /// Returns a masker for text that arrives in pieces.
    pub fn stream_masker(&self) -> StreamMasker {
        StreamMasker::new(self.clone())
    }

    /// Returns the length of the longest pattern.
    fn longest(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.longest)
    }

    fn mask_of(&self, finding: &SecretRange) -> &str {
        self.known
            .as_ref()
            .and_then(|known| known.masks.get(finding.pattern))
            .map_or(NAMELESS, String::as_str)
    }

    /// Returns all ranges to mask, in order and without overlaps. `begun` is an earlier match that
    /// extends into these bytes. Patterns are UTF-8, so in a text every match starts and ends on a
    /// character boundary.
    fn find_matches(&self, bytes: &[u8], begun: Option<SecretRange>) -> Vec<SecretRange> {
        let Some(known) = &self.known else {
            return Vec::new();
        };
        let mut found: Vec<SecretRange> = known
            .finder
            .find_overlapping_iter(bytes)
            .map(|found| SecretRange {
                range: found.range(),
                pattern: found.pattern().as_usize(),
            })
            .collect();
        found.sort_by_key(|finding| finding.range.start);
        let mut merged: Vec<SecretRange> = Vec::with_capacity(found.len());
        for finding in begun.into_iter().chain(found) {
            match merged.last_mut() {
                Some(last) if finding.range.start < last.range.end => {
                    last.range.end = last.range.end.max(finding.range.end);
                    last.pattern = last.pattern.min(finding.pattern);
                }
                _ => merged.push(finding),
            }
        }
        merged
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.known.as_ref().map(|known| known.names.as_slice());
        f.debug_tuple("Secrets")
            .field(&names.unwrap_or_default())
            .finish()
    }
}
