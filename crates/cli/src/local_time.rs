//! Times for people: local and short. Programs get exact times in UTC.

use cleveragents_domain::Timestamp;
use jiff::tz::TimeZone;

/// The user's time zone, and the time at which the command started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalClock {
    zone: TimeZone,
    now: Timestamp,
}

impl LocalClock {
    pub fn new(zone: TimeZone, now: Timestamp) -> Self {
        Self { zone, now }
    }

    /// Returns the time of day if it is today, else the date too: `14:03:09`, `Nov 19 14:03` or
    /// `2025-11-19 14:03`.
    pub fn format(&self, time: Timestamp) -> String {
        let (Ok(then), Ok(now)) = (utc(time), utc(self.now)) else {
            return time.to_string();
        };
        let (then, now) = (
            then.to_zoned(self.zone.clone()),
            now.to_zoned(self.zone.clone()),
        );
        let format = if then.date() == now.date() {
            "%H:%M:%S"
        } else if then.year() == now.year() {
            "%b %-d %H:%M"
        } else {
            "%Y-%m-%d %H:%M"
        };
        then.strftime(format).to_string()
    }
}

fn utc(time: Timestamp) -> Result<jiff::Timestamp, jiff::Error> {
    jiff::Timestamp::from_microsecond(time.as_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_as_short_as_the_day_permits() {
        let now: Timestamp = "2026-11-19T21:30:00Z".parse().unwrap();
        let zone = TimeZone::posix("CET-1").unwrap();
        let clock = LocalClock::new(zone, now);
        for (time, text) in [
            ("2026-11-19T20:15:09.123456Z", "21:15:09"),
            ("2026-11-18T23:30:00Z", "00:30:00"),
            ("2026-11-18T22:30:00Z", "Nov 18 23:30"),
            ("2026-02-03T11:00:00Z", "Feb 3 12:00"),
            ("2025-12-31T22:59:00Z", "2025-12-31 23:59"),
            ("2025-12-31T23:00:00Z", "Jan 1 00:00"),
        ] {
            assert_eq!(clock.format(time.parse().unwrap()), text, "{time}");
        }
    }
}
