//! Numbers, sizes and durations as text.

use std::time::Duration;

/// Returns for example `1 event`, `2 events` or `2 sandboxes`.
pub fn format_count(number: i64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ if what.ends_with('x') => format!("{number} {what}es"),
        _ => format!("{number} {what}s"),
    }
}

/// Like [`format_count`], for the length of a list.
pub fn format_length(number: usize, what: &str) -> String {
    format_count(i64::try_from(number).unwrap_or(i64::MAX), what)
}

/// Formats the number of entries that match, and how many of them are not listed.
pub(crate) fn format_listed(listed: usize, total: usize, what: &str) -> String {
    let counted = format_length(total, what);
    match total.saturating_sub(listed) {
        0 => counted,
        more => format!("{counted}, {more} of them not shown"),
    }
}

/// Formats as `2h 05m`, `1m 09s` or `12s`.
pub fn format_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {seconds:02}s"),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

/// Formats a size as `512 B`, `1.5 KiB` or `20 GiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Integer tenths of the unit: rounds down, so a size never reaches the next unit by rounding.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if tenths < 100 {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    } else {
        format!("{} {}", tenths / 10, UNITS[unit])
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

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16383 PiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let shown = |seconds| format_duration(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(69), "1m 09s");
        assert_eq!(shown(7_500), "2h 05m");
        assert_eq!(shown(90_000), "1d 01h");
    }
}
