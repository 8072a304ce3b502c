//! Removes what differs between runs: ids, times and durations. The replacements have the same
//! width, so that nothing else moves.

use super::screen::{Screen, ScreenCell};

/// A time as programs get it, and a time of today as people see it.
const TIMES: [&str; 2] = ["2026-01-31T12:00:00.000000Z", "12:00:00"];

/// The first ten characters of an id encode its time.
const ID_TIME: &str = "01KGA4Q0C0";

/// Words of at least this many hexadecimal digits are hashes.
const SHORTEST_HASH: usize = 7;

/// The digits of ids, without letters that look like digits.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Fixed ids that replace those of a run, in order of registration.
#[derive(Debug, Default)]
pub struct IdNormalizer {
    ids: Vec<String>,
}

impl IdNormalizer {
    /// Registers an id; a known id keeps its number.
    pub fn register_id(&mut self, id: &str) {
        if !self.ids.iter().any(|known| known == id) {
            self.ids.push(id.to_owned());
        }
    }

    /// Replaces the known ids in a text, long or short.
    pub fn normalize_text(&self, text: &str) -> String {
        let mut fixed = text.to_owned();
        for (number, id) in self.ids.iter().enumerate() {
            let instead = fixed_id(number);
            fixed = fixed.replace(id, &instead);
            fixed = fixed.replace(&short_id(id), &short_id(&instead));
        }
        fixed
    }

    /// Replaces ids, hashes and times on a screen.
    pub fn normalize_screen(&self, screen: &mut Screen) {
        let mut hashes = 0;
        for line in &mut screen.lines {
            let text: String = line.iter().map(|cell| cell.character).collect();
            let text = replace_times(&self.normalize_text(&text));
            replace_line(line, &replace_hashes(&text, &mut hashes));
        }
    }
}

fn replace_line(line: &mut [ScreenCell], text: &str) {
    for (cell, character) in line.iter_mut().zip(text.chars()) {
        cell.character = character;
    }
}

/// The short form of an id, as users see it.
fn short_id(id: &str) -> String {
    let end = id.get(id.len().saturating_sub(8)..).unwrap_or(id);
    end.to_ascii_lowercase()
}

/// The fixed id with that number; it looks like any other.
fn fixed_id(number: usize) -> String {
    let digits = fixed_digits(number as u64).map(|digit| char::from(DIGITS[digit]));
    ID_TIME.chars().chain(digits.take(16)).collect()
}

/// Numbers below 32 that look random and are always the same.
fn fixed_digits(seed: u64) -> impl Iterator<Item = usize> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 59) as usize
    })
}

/// Times become one fixed time; `1m 55s` and the like become `4s`, padded with blanks.
fn replace_times(text: &str) -> String {
    let mut fixed: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < fixed.len() {
        let begins = at == 0 || !fixed[at - 1].is_alphanumeric();
        let length = if begins {
            time_at(&fixed[at..])
                .or_else(|| duration_at(&fixed[at..]))
                .or_else(|| seconds_at(&fixed[at..]))
        } else {
            None
        };
        let Some((length, instead)) = length else {
            at += 1;
            continue;
        };
        let instead = instead.chars().chain(std::iter::repeat(' '));
        for (character, instead) in fixed[at..at + length].iter_mut().zip(instead) {
            *character = instead;
        }
        at += length;
    }
    fixed.into_iter().collect()
}

/// Hashes and commit ids become others of the same length; `seen` counts them.
fn replace_hashes(text: &str, seen: &mut u64) -> String {
    let mut fixed = String::new();
    let mut words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words.by_ref().for_each(|word| {
        let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_hash = end.len() >= SHORTEST_HASH
            && end
                .bytes()
                .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hash {
            fixed.push_str(word);
            return;
        }
        *seen += 1;
        let digits = fixed_digits(*seen).map(|digit| char::from(b"0123456789abcdef"[digit % 16]));
        fixed.extend(digits.take(end.len()));
        fixed.push_str(&word[end.len()..]);
    });
    fixed
}

fn time_at(text: &[char]) -> Option<(usize, &'static str)> {
    let found = TIMES.into_iter().find(|time| is_like(text, time))?;
    Some((found.len(), found))
}

/// Whether a text begins like this one, with any digits.
fn is_like(text: &[char], time: &str) -> bool {
    let Some(text) = text.get(..time.len()) else {
        return false;
    };
    let alike = |(one, other): (&char, char)| {
        if other.is_ascii_digit() {
            one.is_ascii_digit()
        } else {
            *one == other
        }
    };
    text.iter().zip(time.chars()).all(alike)
}

/// Numbers followed by `s`, `m` or `h`, separated by a blank.
fn duration_at(text: &[char]) -> Option<(usize, &'static str)> {
    let mut length = 0;
    loop {
        let digits = text[length..].iter().take_while(|it| it.is_ascii_digit());
        let digits = digits.count();
        let unit = text.get(length + digits)?;
        if digits == 0 || !matches!(unit, 's' | 'm' | 'h') {
            return None;
        }
        length += digits + 1;
        match text.get(length..) {
            Some([' ', next, ..]) if next.is_ascii_digit() && *unit != 's' => length += 1,
            Some([next, ..]) if next.is_alphanumeric() => return None,
            _ => return Some((length, "4s")),
        }
    }
}

/// Seconds with one decimal place: `3.2 s`.
fn seconds_at(text: &[char]) -> Option<(usize, &'static str)> {
    let digits = text.iter().take_while(|it| it.is_ascii_digit()).count();
    match text.get(digits..) {
        Some(['.', tenth, ' ', 's', rest @ ..])
            if digits > 0
                && tenth.is_ascii_digit()
                && !rest.first().is_some_and(|it| it.is_alphanumeric()) =>
        {
            Some((digits + 4, "4.0 s"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_width_and_their_number() {
        let (one, two) = ("01M7GX1TK0QAVVXVB20Y03GN22", "01M7GX1TK0QAVVXVB20Y03GN23");
        let mut normalizer = IdNormalizer::default();
        for id in [one, two, one] {
            normalizer.register_id(id);
        }
        let text = normalizer.normalize_text("01M7GX1TK0QAVVXVB20Y03GN22 lint-0y03gn22 0y03gn23");
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[0].len(), 26);
        assert_eq!(words[0][18..].to_ascii_lowercase(), words[1][5..]);
        assert_ne!(words[1][5..], *words[2]);
        assert!(!text.contains("03gn2") && !text.contains("03GN2"), "{text}");
        let mut again = IdNormalizer::default();
        again.register_id("01M7GX1TK0QAVVXVB20Y03GN99");
        assert_eq!(again.normalize_text("0y03gn99"), words[1][5..]);
    }

    #[test]
    fn times_and_durations_are_normalized() {
        for (text, fixed) in [
            (
                "at 2026-11-16T00:45:27.519959Z │",
                "at 2026-01-31T12:00:00.000000Z │",
            ),
            ("created   23:44:45 │", "created   12:00:00 │"),
            ("elapsed   0s      │", "elapsed   4s      │"),
            ("elapsed   1m 55s  │", "elapsed   4s      │"),
            ("elapsed   2h 1m 5s", "elapsed   4s      "),
            ("scripted, in 3.2 s", "scripted, in 4.0 s"),
            ("scripted, in 13.2 s", "scripted, in 4.0 s "),
            ("version 3.2 says", "version 3.2 says"),
            ("2 plans, 3steps, 4", "2 plans, 3steps, 4"),
            ("a5s 12 s 3x", "a5s 12 s 3x"),
        ] {
            assert_eq!(replace_times(text), fixed);
        }
    }

    #[test]
    fn hashes_are_replaced_with_equal_length() {
        let mut seen = 0;
        let text = "│ fa3404d   Rename │ 1234567 faded 123456 0123456789abcdef0123";
        let fixed = replace_hashes(text, &mut seen);
        assert_eq!(fixed.chars().count(), text.chars().count());
        let (words, new): (Vec<&str>, Vec<&str>) = (
            text.split_whitespace().collect(),
            fixed.split_whitespace().collect(),
        );
        let differ: Vec<bool> = words.iter().zip(&new).map(|(a, b)| a != b).collect();
        assert_eq!(
            differ,
            [false, true, false, false, true, false, false, true]
        );
        assert_ne!(new[1], new[4]);
        let again = replace_hashes(&text.replace("fa3404d", "0000000"), &mut 0);
        assert_eq!(again, fixed);
    }
}
