//! The pause that a receiver asks for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kassette_domain::time::Time;
use kassette_http::{HeaderMap, StatusCode};

/// Reads `Retry-After`: seconds, or an HTTP date relative to `now`. `None` if the header has no meaning for
/// the status, is missing or invalid.
pub(super) fn retry_after(status: StatusCode, headers: &HeaderMap, now: Time) -> Option<Duration> {
    if !matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        return None;
    }
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that is too large means a very long time, which the schedule limits.
        return Some(Duration::from_secs(
            text.parse().unwrap_or(u64::from(u32::MAX)),
        ));
    }
    let date: SystemTime = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    Some(Time::from_secs(since.as_secs()).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_http::HeaderValue;

    const NOW: Time = Time::from_secs(1_795_253_400);

    fn asked(status: u16, text: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_str(text).unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        retry_after(status, &headers, NOW).map(|pause| pause.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_read_where_they_mean_something() {
        assert_eq!(asked(429, "120"), Some(120));
        assert_eq!(asked(503, " 7 "), Some(7));
        assert_eq!(asked(503, "Sat, 21 Nov 2026 09:31:00 GMT"), Some(60));
        assert_eq!(asked(503, "Sat, 21 Nov 2026 09:29:00 GMT"), Some(0));
        assert_eq!(
            asked(429, "99999999999999999999999"),
            Some(u64::from(u32::MAX))
        );
        assert_eq!(asked(500, "120"), None);
        assert_eq!(asked(200, "120"), None);
        for odd in ["", "-1", "1.5", "soon", "2026-11-21T09:31:00Z"] {
            assert_eq!(asked(429, odd), None, "{odd}");
        }
    }
}
