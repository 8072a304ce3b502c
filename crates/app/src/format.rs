//! Amounts in messages.

/// Formats as `1 plan`, `3 plans` or `2 sandboxes`.
pub(crate) fn format_count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ if what.ends_with('x') => format!("{number} {what}es"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        for (number, what, text) in [
            (0, "plan", "0 plans"),
            (1, "sandbox", "1 sandbox"),
            (2, "sandbox", "2 sandboxes"),
        ] {
            assert_eq!(format_count(number, what), text);
        }
    }
}
