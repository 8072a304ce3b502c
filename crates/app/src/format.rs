//! Amounts in messages.

/// Formats as `1 plan`, `3 plans` or `2 sandboxes`.
pub(crate) fn format_count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ if what.ends_with('x') => format!("{number} {what}es"),
        _ => format!("{number} {what}s"),
    }
}

/// Formats the number of entries that match, and how many of them are not listed.
pub(crate) fn format_listed(listed: usize, total: usize, what: &str) -> String {
    let counted = format_count(total, what);
    match total.saturating_sub(listed) {
        0 => counted,
        more => format!("{counted}, {more} of them not shown"),
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
