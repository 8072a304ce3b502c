//! Times in milliseconds, and their output.

use serde_json::{Value, json};

/// The median and extremes of a series of times.
#[derive(Debug, PartialEq)]
pub(crate) struct TimingSummary {
    pub(crate) median: f64,
    least: f64,
    p90: f64,
}

impl TimingSummary {
    pub(crate) fn from_times(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| {
            let index = times.len() * part / 100;
            times.get(index).copied().unwrap_or_default()
        };
        Self {
            median: at(50),
            least: at(0),
            p90: at(90),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "median_ms": self.median, "least_ms": self.least, "p90_ms": self.p90 })
    }
}

pub(crate) fn format_row(name: &str, few: &TimingSummary, many: &TimingSummary) -> String {
    let ratio = many.median / few.median;
    format!(
        "{name:<42} {:>9.3} {:>9.3} {ratio:>7.2}",
        few.median, many.median
    )
}
