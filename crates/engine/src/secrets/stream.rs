//! Masks secrets in text that arrives in pieces.

use super::{SecretRange, Secrets};

/// Forwards text with its secrets masked, wherever it was cut into pieces.
///
/// The concatenated output is exactly what [`Secrets::mask`] returns for the whole text. The part
/// of the end that may be the start of a secret is held back until more text arrives or
/// [`finish`](Self::finish) is called. No more than that is kept in memory.
#[derive(Debug)]
#[must_use = "what is held back comes with `finish`"]
pub struct StreamMasker {
    secrets: Secrets,
    pending: PendingText,
}

/// The held-back end of the text.
#[derive(Default)]
struct PendingText {
    text: String,
    /// A match that started before the held-back text and extends into it.
    open_match: Option<SecretRange>,
}

impl StreamMasker {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self {
            secrets,
            pending: PendingText::default(),
        }
    }

    /// Adds the next piece and returns the output that is certain by now, which may be empty.
    pub fn push(&mut self, piece: &str) -> String {
        self.pending.text.push_str(piece);
        // An incomplete secret can only start after this position.
        let open = self.secrets.longest().saturating_sub(1);
        let certain = self.pending.text.len().saturating_sub(open);
        let certain = self.pending.text.floor_char_boundary(certain);
        self.emit(certain)
    }

    /// Returns the rest.
    pub fn finish(mut self) -> String {
        self.emit(self.pending.text.len())
    }

    /// Returns the output up to `certain`, a character boundary. A match that extends beyond it may
    /// still grow, so it is replaced when its end is known.
    fn emit(&mut self, certain: usize) -> String {
        if certain == 0 {
            return String::new();
        }
        let text = std::mem::take(&mut self.pending.text);
        let begun = self.pending.open_match.take();
        let mut clean = String::with_capacity(certain);
        let mut end = 0;
        for finding in self.secrets.find_matches(text.as_bytes(), begun) {
            let range = finding.range.clone();
            if range.start >= certain {
                break;
            }
            clean.push_str(&text[end..range.start]);
            end = range.end;
            if range.end > certain {
                let range = 0..range.end - certain;
                self.pending.open_match = Some(SecretRange { range, ..finding });
                break;
            }
            clean.push_str(self.secrets.mask_of(&finding));
        }
        clean.push_str(&text[end.min(certain)..certain]);
        self.pending.text = text[certain..].to_owned();
        clean
    }
}

impl std::fmt::Debug for PendingText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}
