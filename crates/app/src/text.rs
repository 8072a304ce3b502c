//! Numbers, sizes and durations as text.

use std::time::Duration;

/// Returns for example `1 event` or `2 events`.
pub fn format_count(number: i64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Like [`format_count`], for the length of a list.
pub fn format_length(number: usize, what: &str) -> String {
    format_count(i64::try_from(number).unwrap_or(i64::MAX), what)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        let shown = |seconds| format_duration(Duration::from_secs(seconds));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(69), "1m 09s");
        assert_eq!(shown(7_500), "2h 05m");
        assert_eq!(shown(90_000), "1d 01h");
    }
}
