//! Times in queries.

use kassette_domain::time::Time;

/// Error text for an invalid time in a query.
pub(crate) const INSTANT: &str = "must be an RFC 3339 time such as 2030-01-31T12:00:00Z";

/// Parses a time in a query: RFC 3339 with any offset. A `+` that the caller did not escape arrives as a space and
/// is read as `+`.
pub(crate) fn instant(text: &str) -> Option<Time> {
    Time::parse_rfc3339(text).or_else(|| {
        let (time, offset) = text.rsplit_once(' ')?;
        Time::parse_rfc3339(&format!("{time}+{offset}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_query_may_have_any_offset_and_an_unescaped_plus() {
        let noon = Time::parse_rfc3339("2030-01-31T12:00:00Z");
        assert!(noon.is_some());
        for text in [
            "2030-01-31T12:00:00Z",
            "2030-01-31T12:00:00+00:00",
            "2030-01-31T12:00:00 00:00",
            "2030-01-31T13:30:00+01:30",
            "2030-01-31T13:30:00 01:30",
            "2030-01-31T07:00:00-05:00",
        ] {
            assert_eq!(instant(text), noon, "{text}");
        }
        for text in [
            "",
            " ",
            "2030-01-31",
            "2030-01-31T12:00:00",
            "2030-01-31T12:00:00 ",
            "2030-01-31T12:00:00 Z",
            "now 00:00",
        ] {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
