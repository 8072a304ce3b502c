//! Parses the retry delay that a server requests.

use std::time::Duration;

use cleveragents_domain::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// Longer delays are reduced to this.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the headers: milliseconds, seconds, or a date. A date is compared with the server's own
/// clock if it sends one, so that a wrong local clock does no harm.
pub(crate) fn parse_retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: HeaderName| Some(headers.get(name)?.to_str().ok()?.trim().to_owned());
    // The most precise header first.
    let milliseconds = text(HeaderName::from_static("retry-after-ms"));
    if let Some(milliseconds) = milliseconds.and_then(|it| it.parse::<f64>().ok()) {
        return bounded_duration(milliseconds / 1000.0);
    }
    let wanted = text(RETRY_AFTER)?;
    if let Ok(seconds) = wanted.parse::<f64>() {
        return bounded_duration(seconds);
    }
    let then = parse_http_date(&wanted)?;
    let now = text(DATE)
        .and_then(|date| parse_http_date(&date))
        .unwrap_or(now.as_micros() / 1_000_000);
    let seconds = u64::try_from(then.saturating_sub(now)).unwrap_or(0);
    Some(Duration::from_secs(seconds).min(MAX_DELAY))
}

fn bounded_duration(seconds: f64) -> Option<Duration> {
    let seconds = (seconds.is_finite() && seconds >= 0.0).then_some(seconds)?;
    Some(Duration::from_secs_f64(
        seconds.min(MAX_DELAY.as_secs_f64()),
    ))
}

fn parse_http_date(text: &str) -> Option<i64> {
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text)
        .ok()?;
    Some(date.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.iter().map(header).collect()
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_read() {
        let now = Timestamp::from_micros(1_445_412_480_000_000);
        let date = "Wed, 21 Oct 2015 07:29:00 GMT";
        let earlier = "Wed, 21 Oct 2015 07:28:50 GMT";
        for (pairs, milliseconds) in [
            (&[("retry-after", "2")][..], Some(2_000)),
            (&[("retry-after", "0.5")], Some(500)),
            (
                &[("retry-after", "3"), ("retry-after-ms", "250")],
                Some(250),
            ),
            (&[("retry-after", date)], Some(60_000)),
            (&[("retry-after", date), ("date", earlier)], Some(10_000)),
            (&[("retry-after", earlier), ("date", date)], Some(0)),
            (&[("retry-after", "99999999999")], Some(86_400_000)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "NaN")], None),
            (&[], None),
        ] {
            let found = parse_retry_after(&headers(pairs), now);
            assert_eq!(found, milliseconds.map(Duration::from_millis), "{pairs:?}");
        }
    }
}
