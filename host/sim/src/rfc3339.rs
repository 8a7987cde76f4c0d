//! Times in the notation of most providers.
use jiff::Timestamp;

/// `2026-11-21T19:22:04Z`, without fractions of a second.
pub(crate) fn utc(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_second() {
        assert_eq!(utc(1_800_000_000_999), "2027-01-15T08:00:00Z");
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
    }
}
