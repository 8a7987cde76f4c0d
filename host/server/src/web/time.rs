//! Times in queries.

use kassette_domain::time::Time;

/// What a time in a query has to be.
pub(crate) const UTC: &str = "must be an RFC 3339 time with Z such as 2030-01-31T12:00:00Z";

/// Reads a time in a query, RFC 3339 with `Z`: of a sign before an offset a query makes a space.
pub(crate) fn utc(text: &str) -> Option<Time> {
    Time::parse_rfc3339(text).filter(|_| text.ends_with('Z'))
}
