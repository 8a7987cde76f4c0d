//! Points in time, passed in by the caller: nothing here reads a clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// A time from milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A time from whole seconds since the Unix epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// This time, rounded down to a whole second.
    #[must_use]
    pub const fn whole_second(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }

    /// This time plus `duration`; saturates at `u64::MAX` milliseconds.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// This time minus `duration`; saturates at the epoch.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// Time since `earlier`. Zero if `earlier` is later, because clocks can be set back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 with `Z` and milliseconds: `2026-11-21T09:30:00.000Z`.
    pub fn rfc3339(self) -> String {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis)
            .unwrap_or(jiff::Timestamp::MAX)
            .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
            .to_string()
    }

    /// Parses RFC 3339 with any offset. `None` for any other text and for times before 1970.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(timestamp.as_millisecond()).ok().map(Self)
    }
}

impl Time {
    /// Parses a date such as `2026-11-21` and returns its start in UTC. `None` for any other text.
    pub fn parse_date(text: &str) -> Option<Self> {
        let plain = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        plain
            .then(|| Self::parse_rfc3339(&format!("{text}T00:00:00Z")))
            .flatten()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_is_written_in_utc_and_read_with_any_offset() {
        let time = Time::from_millis(1_795_253_400_123);
        assert_eq!(Time::parse_rfc3339(&time.rfc3339()), Some(time));
        assert_eq!(
            Time::parse_rfc3339("1970-01-01T01:00:01+01:00"),
            Some(Time::from_secs(1))
        );
        assert_eq!(Time::parse_rfc3339("1969-12-31T00:00:00Z"), None);
        assert_eq!(Time::parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn a_date_is_its_beginning() {
        let day = Time::parse_rfc3339("2026-11-21T00:00:00Z");
        assert_eq!(Time::parse_date("2026-11-21"), day);
        for wrong in [
            "",
            "2026-11-31",
            "21-11-2026",
            "2026-11-21Z",
            "20261121",
            "2026-1-211",
        ] {
            assert_eq!(Time::parse_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(
            Time::from_secs(1).before(Duration::from_secs(5)),
            Time::default()
        );
        assert_eq!(Time::from_secs(1).since(Time::from_secs(2)), Duration::ZERO);
    }
}
