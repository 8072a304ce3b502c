//! Hiding secrets in a text that comes in pieces.

use super::{SecretRange, Secrets};

/// Gives a text on without its secrets, wherever it was cut into pieces.
///
/// What comes out is, put together, exactly what [`Secrets::hide`] makes of the whole. So much of
/// the end is held back as may be the beginning of a secret, until more comes or
/// [`finish`](Self::finish) says that nothing does. No more than that is kept in memory.
#[derive(Debug)]
#[must_use = "what is held back comes with `finish`"]
pub struct StreamMasker {
    secrets: Secrets,
    pending: PendingText,
}

/// The end of the text so far.
#[derive(Default)]
struct PendingText {
    text: String,
    /// A finding that began before what is held and reaches into it.
    open_match: Option<SecretRange>,
}

impl StreamMasker {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self {
            secrets,
            pending: PendingText::default(),
        }
    }

    /// Takes the next piece; gives what is certain by now, which may be nothing.
    pub fn push(&mut self, piece: &str) -> String {
        self.pending.text.push_str(piece);
        // A secret that is not yet complete begins behind this place.
        let open = self.secrets.longest().saturating_sub(1);
        let certain = self.pending.text.len().saturating_sub(open);
        let certain = self.pending.text.floor_char_boundary(certain);
        self.emit(certain)
    }

    /// Gives the rest.
    pub fn finish(mut self) -> String {
        self.emit(self.pending.text.len())
    }

    /// Gives the text up to `certain`, a place between two characters. A finding that reaches
    /// beyond may still grow: it is replaced when its end is known.
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
