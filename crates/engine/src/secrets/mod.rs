//! Known secrets become `«secret:NAME»` before anything is put into a prompt or stored.
//!
//! Masking happens on the way to storage, logs and models, never on the way to execution: what is
//! executed later is stored as [`references`] and gets its secrets back where it runs, and a mask
//! ([`masks`]) on its way into a file, a command or an argument is refused. [`names`] says which
//! variables hold secrets.
//!
//! Only values that somebody named are looked for, as they are and in the forms in which they
//! usually travel (`encodings.rs`); guessing what looks like a secret is for the output of the
//! program, where a wrong guess does no harm. Everything is found in one pass, however many
//! secrets there are. For texts that come in pieces there is [`StreamMasker`].

mod encodings;
pub mod masks;
pub mod names;
pub mod references;
mod stream;
#[cfg(test)]
mod tests;
mod truncation;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use serde_json::Value;

pub use masks::mask;
use masks::{MASK_BEGINS, MASK_ENDS, NAMELESS};
pub use names::{is_secret, is_secret_name};
pub use stream::StreamMasker;

/// Shorter values are not replaced: they would make ordinary words unreadable.
pub const SHORTEST_SECRET: usize = 8;

/// Whether two values are the same, whichever secrets were known when each of them was masked: what
/// is secret to one process need not be to another, and a mask stands for anything.
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
        // A number that holds a secret is masked as a text.
        (Value::String(mask), Value::Number(number))
        | (Value::Number(number), Value::String(mask)) => matches_masked(mask, &number.to_string()),
        (one, other) => one == other,
    }
}

/// Whether `text` is what `masked` was before it was masked.
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
/// After hiding, no known value of at least [`SHORTEST_SECRET`] characters is left, nor its form
/// escaped for JSON (once or twice), percent-encoded, or in base64, alone or within something
/// longer. Of base64 within something longer, the characters at its ends stay that also belong to
/// its neighbours. Values that overlap are hidden as one, by the name of the longest. Of a value with
/// several lines each long line is hidden by itself too. A value that is cut in two otherwise is not
/// found; where tools cut their answers, [`hide_answer`](Self::hide_answer) finds what is left of it.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Nothing if there is nothing to look for.
    known: Option<Arc<SecretIndex>>,
}

/// There is more to look for than fits into memory.
#[derive(Debug, thiserror::Error)]
#[error("the secrets cannot be looked for: {0}")]
pub struct SecretsError(String);

struct SecretIndex {
    finder: AhoCorasick,
    /// The patterns of the finder.
    forms: Vec<String>,
    /// What each pattern of the finder is replaced by; longest pattern first.
    masks: Vec<String>,
    names: Vec<String>,
    /// What a reference to a name stands for.
    values: BTreeMap<String, String>,
    /// The length of the longest pattern.
    longest: usize,
}

/// Something to hide, and the pattern whose mask takes its place.
#[derive(Debug, Clone)]
struct SecretRange {
    range: Range<usize>,
    pattern: usize,
}

impl Secrets {
    /// Knows the values by their names. Of two names with one value the first is used.
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

    /// The text without secrets; the same text if it has none.
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
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

    /// The bytes without secrets, whether they are text or not.
    pub fn hide_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
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

    /// Hides the secrets in a tree of values: in strings, in keys, and in numbers, which become
    /// strings then. Keys that would fall together are told apart.
    pub fn hide_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.hide(text) {
                    *text = clean;
                }
            }
            Value::Number(number) => {
                if let Cow::Owned(clean) = self.hide(&number.to_string()) {
                    *value = Value::String(clean);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_json(item)),
            Value::Object(map) => {
                for (key, mut item) in std::mem::take(map) {
                    self.hide_json(&mut item);
                    let mut key = self.hide(&key).into_owned();
                    while map.contains_key(&key) {
                        key.push('\'');
                    }
                    map.insert(key, item);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Returns the names of the secrets that are looked for, each once.
    pub fn names(&self) -> Vec<&str> {
        let values = self.known.iter().flat_map(|known| known.values.keys());
        values.map(String::as_str).collect()
    }

    /// What a reference to this name stands for.
    fn value_of(&self, name: &str) -> Option<&str> {
        let known = self.known.as_ref()?;
        known.values.get(name).map(String::as_str)
    }

    /// Hides the secrets of a text that comes in pieces.
    pub fn stream_masker(&self) -> StreamMasker {
        StreamMasker::new(self.clone())
    }

    /// The length of the longest thing looked for.
    fn longest(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.longest)
    }

    fn mask_of(&self, finding: &SecretRange) -> &str {
        self.known
            .as_ref()
            .and_then(|known| known.masks.get(finding.pattern))
            .map_or(NAMELESS, String::as_str)
    }

    /// Everything to hide, in order and without overlaps; `begun` is what was found before and
    /// reaches into these bytes. Patterns are UTF-8, so in a text every finding begins and ends
    /// between characters.
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
