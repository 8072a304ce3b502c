//! Masks secrets in everything that a front end displays, sends or logs.
//!
//! Known values (secret settings, and variables whose names mark them as secret) become
//! `«secret:NAME»`; text that looks like a credential becomes `«secret»`. All matches are collected
//! as ranges first and overlapping ones merged, so that no part of one secret survives the masking
//! of another. Every scan is linear in the length of the text.

mod patterns;
mod url;

use std::ops::Range;

use serde_json::Value;

use super::{SHORTEST_SECRET, is_secret, mask};

/// Masks the secrets that this process knows, and what looks like one.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a merged range gets the name of the longest secret in it.
    known: Vec<KnownSecret>,
}

#[derive(Clone)]
struct KnownSecret {
    name: String,
    /// The text to search for.
    text: String,
    /// The part of it to mask; the rest is context that makes the match certain.
    secret: Range<usize>,
}

/// A range to mask, and the index of the known secret, if it is one.
#[derive(Debug, Clone)]
struct RedactionMatch {
    range: Range<usize>,
    known: Option<usize>,
}

impl Redactor {
    /// Learns the variables whose names mark them as secret.
    pub fn from_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut redactor = Self::default();
        for (name, value) in variables {
            if is_secret(name, value) {
                redactor.learn(name, value);
            }
        }
        redactor
    }

    /// Learns a secret. A value learnt twice keeps the newer name.
    pub fn learn(&mut self, name: &str, value: &str) {
        let value = value.trim();
        // A shorter value occurs by accident, and masking it would reveal it by the holes in the
        // output.
        if value.len() >= SHORTEST_SECRET {
            self.add_known(name, value, 0..value.len());
        }
    }

    /// Returns the known secrets as names and values, for masking elsewhere.
    pub fn values(&self) -> Vec<(String, String)> {
        let value = |known: &KnownSecret| {
            let secret = known.text[known.secret.clone()].to_owned();
            (known.name.clone(), secret)
        };
        self.known.iter().map(value).collect()
    }

    /// Learns the passwords in a URL, encoded and decoded. Inside the URL itself even a short
    /// password is masked.
    pub fn learn_url(&mut self, name: &str, address: &str) {
        for url::UrlPassword { context, password } in url::find_passwords(address) {
            let raw = &address[password.clone()];
            self.learn(name, raw);
            // Drivers repeat a password in their errors in either form.
            self.learn(name, &url::percent_decode(raw));
            let start = context.start;
            let secret = password.start - start..password.end - start;
            self.add_known(name, &address[context], secret);
        }
    }

    fn add_known(&mut self, name: &str, text: &str, secret: Range<usize>) {
        self.known.retain(|known| known.text != text);
        let place = self
            .known
            .partition_point(|known| known.secret.len() > secret.len());
        let known = KnownSecret {
            name: name.to_owned(),
            text: text.to_owned(),
            secret,
        };
        self.known.insert(place, known);
    }

    /// Returns the text with its secrets masked.
    pub fn redact(&self, text: &str) -> String {
        let findings = self.find_secrets(text);
        if findings.is_empty() {
            return text.to_owned();
        }
        let mut clean = String::with_capacity(text.len());
        let mut end = 0;
        for finding in findings {
            clean.push_str(&text[end..finding.range.start]);
            match finding.known {
                Some(index) => clean.push_str(&mask(&self.known[index].name)),
                None => clean.push_str("«secret»"),
            }
            end = finding.range.end;
        }
        clean.push_str(&text[end..]);
        clean
    }

    /// Masks every string of a JSON value in place, keys included.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(map) => {
                let entries = std::mem::take(map);
                for (key, mut item) in entries {
                    self.redact_value(&mut item);
                    // Keys can be data too, such as headers or variables.
                    map.insert(self.redact(&key), item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns all ranges to mask, sorted and without overlaps.
    fn find_secrets(&self, text: &str) -> Vec<RedactionMatch> {
        let mut findings: Vec<RedactionMatch> = patterns::find(text)
            .into_iter()
            .map(|range| RedactionMatch { range, known: None })
            .collect();
        for (index, known) in self.known.iter().enumerate() {
            findings.extend(
                text.match_indices(&known.text)
                    .map(|(start, _)| RedactionMatch {
                        range: start + known.secret.start..start + known.secret.end,
                        known: Some(index),
                    }),
            );
        }
        // By position in the original text. Masking one after the other would leave parts of
        // overlapping secrets.
        findings.sort_by_key(|finding| finding.range.start);
        let mut merged: Vec<RedactionMatch> = Vec::with_capacity(findings.len());
        for finding in findings {
            match merged.last_mut() {
                Some(last) if finding.range.start < last.range.end => {
                    last.range.end = last.range.end.max(finding.range.end);
                    last.known = match (last.known, finding.known) {
                        // The lower index belongs to the longer secret.
                        (Some(one), Some(other)) => Some(one.min(other)),
                        (one, other) => one.or(other),
                    };
                }
                _ => merged.push(finding),
            }
        }
        merged
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Only the names: debug output ends in logs.
        let names: Vec<&str> = self.known.iter().map(|known| known.name.as_str()).collect();
        f.debug_tuple("Redactor").field(&names).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        let mut redactor = Redactor::default();
        for (name, value) in secrets {
            redactor.learn(name, value);
        }
        redactor
    }

    #[test]
    fn a_known_value_is_masked_everywhere() {
        let redactor = redactor(&[("K", "hunter2hunter2")]);
        for (text, clean) in [
            ("hunter2hunter2", "«secret:K»"),
            ("hunter2hunter2 end", "«secret:K» end"),
            ("start hunter2hunter2", "start «secret:K»"),
            ("xhunter2hunter2y", "x«secret:K»y"),
            ("hunter2hunter2hunter2hunter2", "«secret:K»«secret:K»"),
            ("größe hunter2hunter2 日本", "größe «secret:K» 日本"),
            ("hunter2hunter", "hunter2hunter"),
            ("", ""),
        ] {
            assert_eq!(redactor.redact(text), clean);
        }
    }

    #[test]
    fn overlapping_secrets_are_masked_whole() {
        let redactor = redactor(&[
            ("SHORT", "abcdefgh"),
            ("LONG", "abcdefgh-and-more"),
            ("TAIL", "more-of-the-tail"),
        ]);
        assert_eq!(redactor.redact("abcdefgh"), "«secret:SHORT»");
        assert_eq!(redactor.redact("abcdefgh-and-more"), "«secret:LONG»");
        assert_eq!(
            redactor.redact("<abcdefgh-and-more-of-the-tail>"),
            "<«secret:LONG»>"
        );
    }

    #[test]
    fn multi_byte_secrets_and_lines_are_masked() {
        let redactor = redactor(&[("W", "pässwörd-日本"), ("P", "line one\nline two\n")]);
        assert_eq!(redactor.redact("„pässwörd-日本“"), "„«secret:W»“");
        assert_eq!(redactor.redact("a line one\nline two b"), "a «secret:P» b");
    }

    #[test]
    fn secret_names_are_masked_and_short_values_are_not() {
        let redactor = Redactor::from_variables([
            ("DEPLOY_TOKEN", "0123456789"),
            ("MY_KEY", "short"),
            ("HOME", "/home/somebody"),
            ("pgpassword", "s3cretive"),
        ]);
        let text = "0123456789 short /home/somebody s3cretive";
        assert_eq!(
            redactor.redact(text),
            "«secret:DEPLOY_TOKEN» short /home/somebody «secret:pgpassword»"
        );
    }

    #[test]
    fn the_passwords_of_a_url_are_masked_in_it_and_the_longer_ones_anywhere() {
        let mut redactor = Redactor::default();
        for url in [
            "postgresql://u:pa/ss@h/d",
            "postgresql://u:a#b@h/d",
            "postgresql://u:longer%2Fand@worse@h/d?x=y",
            "postgresql://h/d?sslmode=require&password=it's",
        ] {
            redactor.learn_url("U", url);
        }
        for (text, clean) in [
            (
                "<postgresql://u:pa/ss@h/d>",
                "<postgresql://u:«secret:U»@h/d>",
            ),
            ("postgresql://u:a#b@h/d", "postgresql://u:«secret:U»@h/d"),
            (
                "postgresql://u:longer%2Fand@worse@h/d?x=y",
                "postgresql://u:«secret:U»@h/d?x=y",
            ),
            ("no longer%2Fand@worse", "no «secret:U»"),
            ("no longer/and@worse", "no «secret:U»"),
            (
                "postgresql://h/d?sslmode=require&password=it's",
                "postgresql://h/d?sslmode=require&password=«secret:U»",
            ),
            ("a pa/ss or a#b: it's short", "a pa/ss or a#b: it's short"),
        ] {
            assert_eq!(redactor.redact(text), clean);
            assert_eq!(redactor.redact(clean), clean, "masks are not secrets");
        }
    }

    #[test]
    fn values_are_masked_before_they_are_escaped() {
        let redactor = redactor(&[("Q", "with \"quotes\"\nand lines")]);
        let mut value = json!({
            "list": ["with \"quotes\"\nand lines", 1, null],
            "with \"quotes\"\nand lines": {"deep": "a with \"quotes\"\nand lines b"},
        });
        redactor.redact_value(&mut value);
        assert_eq!(
            value,
            json!({"list": ["«secret:Q»", 1, null], "«secret:Q»": {"deep": "a «secret:Q» b"}})
        );
    }

    #[test]
    fn redacting_a_megabyte_is_fast() {
        let redactor = redactor(&[("A", &"a".repeat(4000)), ("B", "aaaaaaaaab")]);
        let texts = [
            "a".repeat(1 << 20),
            "sk-".repeat(1 << 18),
            "-----BEGIN ".repeat(1 << 16),
            "://a:".repeat(1 << 17),
            "?password".repeat(1 << 17),
            "&pwd=".repeat(1 << 17),
            "eyJhbGciOiJI.".repeat(1 << 16),
            "Bearer ".repeat(1 << 17),
            "«ü»".repeat(1 << 17),
        ];
        for text in texts {
            let started = Instant::now();
            let clean = redactor.redact(&text);
            assert!(!clean.is_empty());
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{} took {:?}",
                &text[..8],
                started.elapsed()
            );
        }
    }

    #[test]
    fn debugging_a_redactor_shows_names_only() {
        let shown = format!("{:?}", redactor(&[("K", "hunter2hunter2")]));
        assert_eq!(shown, "Redactor([\"K\"])");
    }
}
