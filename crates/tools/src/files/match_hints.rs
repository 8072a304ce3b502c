//! Error messages for a text that has no match, or too many.

use std::collections::HashMap;

use crate::excerpt::truncate_str;

/// Maximum number of lines compared, and of bytes of each.
const MAX_LINES: usize = 20_000;
const MAX_COMPARED: usize = 400;

/// Minimum similarity of a line to be shown, and the maximum number of lines shown.
const MIN_SIMILARITY: f64 = 0.5;
const MAX_SHOWN: usize = 3;

/// Maximum number of matches listed.
const MAX_MATCHES: usize = 10;

/// Reports that `old` has no match, likely reasons, and similar lines.
pub(super) fn no_match_message(content: &[u8], old: &str) -> String {
    let text = String::from_utf8_lossy(content);
    let mut message = "`old` is not in it".to_owned();
    if !old.contains('\r') && old.contains('\n') && text.contains(&old.replace('\n', "\r\n")) {
        message.push_str(" with these line ends: its lines end with CRLF (`\\r\\n`)");
        return message;
    }
    if collapse_whitespace(&text).contains(&collapse_whitespace(old)) {
        message.push_str(" with exactly this white space");
    }
    let near = most_similar_lines(&text, old);
    if near.is_empty() {
        message.push_str(", nor anything like it");
        return message;
    }
    message.push_str("; the nearest lines are:");
    for (number, line) in near {
        message.push_str(&format_line(number, line));
    }
    message
}

/// Reports how often and where `old` matches.
pub(super) fn ambiguous_match_message(content: &[u8], matches: &[usize]) -> String {
    let mut message = format!(
        "`old` is in it {} times, so it is not clear which is meant: give more of the lines around \
         it, or set `all`; it is at:",
        matches.len()
    );
    let (mut counted, mut line) = (0, 1);
    for place in matches.iter().take(MAX_MATCHES) {
        line += memchr::memchr_iter(b'\n', &content[counted..*place]).count();
        counted = *place;
        let start = memchr::memrchr(b'\n', &content[..*place]).map_or(0, |at| at + 1);
        let rest = &content[start..content.len().min(start + MAX_COMPARED)];
        let text = String::from_utf8_lossy(rest);
        message.push_str(&format_line(line, text.lines().next().unwrap_or_default()));
    }
    let more = matches.len().saturating_sub(MAX_MATCHES);
    if more > 0 {
        message.push_str(&format!("\n[… {more} more …]"));
    }
    message
}

fn format_line(number: usize, line: &str) -> String {
    format!("\n{number}: {}", truncate_str(line, MAX_COMPARED))
}

fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the lines most similar to the first significant line of `old`.
fn most_similar_lines<'a>(text: &'a str, old: &str) -> Vec<(usize, &'a str)> {
    let target = old.lines().map(str::trim).find(|line| line.len() > 2);
    let Some(target) = target else {
        return Vec::new();
    };
    let target = character_pairs(truncate_str(target, MAX_COMPARED));
    let mut candidates: Vec<(f64, usize, &str)> = Vec::new();
    for (index, line) in text.lines().take(MAX_LINES).enumerate() {
        let likeness = similarity(
            &target,
            &character_pairs(truncate_str(line.trim(), MAX_COMPARED)),
        );
        if likeness >= MIN_SIMILARITY {
            candidates.push((likeness, index + 1, line));
        }
    }
    candidates.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    candidates.truncate(MAX_SHOWN);
    candidates.sort_by_key(|(_, number, _)| *number);
    let lines = candidates.into_iter();
    lines.map(|(_, number, line)| (number, line)).collect()
}

/// Counts each pair of adjacent characters.
fn character_pairs(text: &str) -> HashMap<(char, char), usize> {
    let mut pairs = HashMap::new();
    for (one, next) in text.chars().zip(text.chars().skip(1)) {
        *pairs.entry((one, next)).or_default() += 1;
    }
    pairs
}

/// Returns the share of pairs that two texts have in common.
fn similarity(one: &HashMap<(char, char), usize>, other: &HashMap<(char, char), usize>) -> f64 {
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
    fn the_reason_for_no_match_is_reported() {
        let message = no_match_message(b"a\r\nb\r\n", "a\nb\n");
        assert!(message.contains("CRLF"), "{message}");
        let message = no_match_message(
            b"fn main() {\n\tcall();\n}\n",
            "fn main() {\n    call();\n}",
        );
        assert!(message.contains("white space"), "{message}");
        assert!(message.contains("\n1: fn main() {"), "{message}");
        let message =
            no_match_message(b"let total = count + 1;\nother\n", "let total = count + 2;");
        assert_eq!(
            message,
            "`old` is not in it; the nearest lines are:\n1: let total = count + 1;"
        );
        assert_eq!(
            no_match_message(b"x\n", "something"),
            "`old` is not in it, nor anything like it"
        );
        assert_eq!(
            no_match_message(b"", "a"),
            "`old` is not in it, nor anything like it"
        );
    }

    #[test]
    fn match_positions_are_listed_and_bounded() {
        let content = "  hit\nmiss\n".repeat(12);
        let matches: Vec<usize> = content.match_indices("hit").map(|(at, _)| at).collect();
        let message = ambiguous_match_message(content.as_bytes(), &matches);
        assert!(message.contains("12 times"), "{message}");
        assert!(message.contains("\n1:   hit\n3:   hit"), "{message}");
        assert!(message.ends_with("[… 2 more …]"), "{message}");
    }
}
