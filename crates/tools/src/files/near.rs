//! What to tell a caller whose text is not there, or there too often.

use std::collections::HashMap;

use crate::excerpt::beginning;

/// The most lines that are compared, and how much of each.
const MOST_LINES: usize = 20_000;
const MOST_COMPARED: usize = 400;

/// How alike a line must be to be worth showing, and how many are.
const LIKENESS: f64 = 0.5;
const MOST_SHOWN: usize = 3;

/// The most places that are named.
const MOST_PLACES: usize = 10;

/// Says that `old` is not there, why that may be, and which lines are like it.
pub(super) fn not_found(content: &[u8], old: &str) -> String {
    let text = String::from_utf8_lossy(content);
    let mut told = "`old` is not in it".to_owned();
    if !old.contains('\r') && old.contains('\n') && text.contains(&old.replace('\n', "\r\n")) {
        told.push_str(" with these line ends: its lines end with CRLF (`\\r\\n`)");
        return told;
    }
    if squeezed(&text).contains(&squeezed(old)) {
        told.push_str(" with exactly this white space");
    }
    let near = nearest(&text, old);
    if near.is_empty() {
        told.push_str(", nor anything like it");
        return told;
    }
    told.push_str("; the nearest lines are:");
    for (number, line) in near {
        told.push_str(&shown(number, line));
    }
    told
}

/// Says how often and where `old` is.
pub(super) fn ambiguous(content: &[u8], places: &[usize]) -> String {
    let mut told = format!(
        "`old` is in it {} times, so it is not clear which is meant: give more of the lines around \
         it, or set `all`; it is at:",
        places.len()
    );
    let (mut counted, mut line) = (0, 1);
    for place in places.iter().take(MOST_PLACES) {
        line += memchr::memchr_iter(b'\n', &content[counted..*place]).count();
        counted = *place;
        let start = memchr::memrchr(b'\n', &content[..*place]).map_or(0, |at| at + 1);
        let rest = &content[start..content.len().min(start + MOST_COMPARED)];
        let text = String::from_utf8_lossy(rest);
        told.push_str(&shown(line, text.lines().next().unwrap_or_default()));
    }
    let more = places.len().saturating_sub(MOST_PLACES);
    if more > 0 {
        told.push_str(&format!("\n[… {more} more …]"));
    }
    told
}

fn shown(number: usize, line: &str) -> String {
    format!("\n{number}: {}", beginning(line, MOST_COMPARED))
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines most like the first line of `old` that says something.
fn nearest<'a>(text: &'a str, old: &str) -> Vec<(usize, &'a str)> {
    let wanted = old.lines().map(str::trim).find(|line| line.len() > 2);
    let Some(wanted) = wanted else {
        return Vec::new();
    };
    let wanted = pairs(beginning(wanted, MOST_COMPARED));
    let mut alike: Vec<(f64, usize, &str)> = Vec::new();
    for (index, line) in text.lines().take(MOST_LINES).enumerate() {
        let likeness = likeness(&wanted, &pairs(beginning(line.trim(), MOST_COMPARED)));
        if likeness >= LIKENESS {
            alike.push((likeness, index + 1, line));
        }
    }
    alike.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    alike.truncate(MOST_SHOWN);
    alike.sort_by_key(|(_, number, _)| *number);
    let lines = alike.into_iter();
    lines.map(|(_, number, line)| (number, line)).collect()
}

/// How often each pair of neighbouring characters is there.
fn pairs(text: &str) -> HashMap<(char, char), usize> {
    let mut pairs = HashMap::new();
    for (one, next) in text.chars().zip(text.chars().skip(1)) {
        *pairs.entry((one, next)).or_default() += 1;
    }
    pairs
}

/// The share of pairs that two texts have in common.
fn likeness(one: &HashMap<(char, char), usize>, other: &HashMap<(char, char), usize>) -> f64 {
    let common: usize = one
        .iter()
        .map(|(pair, count)| (*count).min(other.get(pair).copied().unwrap_or(0)))
        .sum();
    let all: usize = one.values().sum::<usize>() + other.values().sum::<usize>();
    match all {
        0 => 0.0,
        _ => 2.0 * common as f64 / all as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_named() {
        let told = not_found(b"a\r\nb\r\n", "a\nb\n");
        assert!(told.contains("CRLF"), "{told}");
        let told = not_found(
            b"fn main() {\n\tcall();\n}\n",
            "fn main() {\n    call();\n}",
        );
        assert!(told.contains("white space"), "{told}");
        assert!(told.contains("\n1: fn main() {"), "{told}");
        let told = not_found(b"let total = count + 1;\nother\n", "let total = count + 2;");
        assert_eq!(
            told,
            "`old` is not in it; the nearest lines are:\n1: let total = count + 1;"
        );
        assert_eq!(
            not_found(b"x\n", "something"),
            "`old` is not in it, nor anything like it"
        );
        assert_eq!(
            not_found(b"", "a"),
            "`old` is not in it, nor anything like it"
        );
    }

    #[test]
    fn places_are_named_and_bounded() {
        let content = "  hit\nmiss\n".repeat(12);
        let places: Vec<usize> = content.match_indices("hit").map(|(at, _)| at).collect();
        let told = ambiguous(content.as_bytes(), &places);
        assert!(told.contains("12 times"), "{told}");
        assert!(told.contains("\n1:   hit\n3:   hit"), "{told}");
        assert!(told.ends_with("[… 2 more …]"), "{told}");
    }
}
