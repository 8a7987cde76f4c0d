//! Converts times between RFC 3339 and milliseconds since 1970.

const DAY: u64 = 86_400;

/// Formats a time as `2026-11-21T19:22:04Z`, without fractions of a second.
#[must_use]
pub fn rfc3339(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (year, month, day) = date(seconds / DAY);
    let of_day = seconds % DAY;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// Parses RFC 3339 with any number of decimals and any offset. `None` for any other text, for times before 1970,
/// and for invalid dates.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let whole = |from: usize, to: usize| -> Option<u64> {
        let part = text.get(from..to)?;
        part.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(())?;
        part.parse().ok()
    };
    let mark = |at: usize, any: &[u8]| any.contains(text.as_bytes().get(at)?).then_some(());
    mark(4, b"-").and(mark(7, b"-"))?;
    mark(10, b"Tt ").and(mark(13, b":")).and(mark(16, b":"))?;
    let (year, month, day) = (whole(0, 4)?, whole(5, 7)?, whole(8, 10)?);
    let (hour, minute, second) = (whole(11, 13)?, whole(14, 16)?, whole(17, 19)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if day == 0 || day > length(year, month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut ms = 0;
    if let Some(decimals) = rest.strip_prefix('.') {
        let digits = decimals
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(decimals.len());
        let kept = decimals
            .get(..digits.min(3))
            .filter(|kept| !kept.is_empty())?;
        let scale = [100, 10, 1].get(kept.len() - 1)?;
        ms = kept.parse::<u64>().ok()? * scale;
        rest = decimals.get(digits..)?;
    }
    let local = days(year, month, day) * DAY + hour * 3_600 + minute * 60 + second;
    let seconds = match rest.as_bytes() {
        b"Z" | b"z" => local,
        [sign @ (b'+' | b'-'), ..] => {
            let offset = offset(rest.get(1..)?)?;
            match sign {
                b'+' => local.checked_sub(offset)?,
                _ => local + offset,
            }
        }
        _ => return None,
    };
    Some(seconds * 1_000 + ms)
}

/// Parses `01:00` or `0100` to seconds.
fn offset(text: &str) -> Option<u64> {
    let digits: Vec<u64> = text
        .bytes()
        .filter(|byte| *byte != b':')
        .map(|byte| byte.is_ascii_digit().then(|| u64::from(byte - b'0')))
        .collect::<Option<_>>()?;
    let [a, b, c, d] = *digits else { return None };
    let (hours, minutes) = (a * 10 + b, c * 10 + d);
    (hours < 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn length(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Number of days from 1970-01-01 to a date in 1970 or later.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let before = year - 1;
    // Leap days up to the end of the year before. 477 of them are before 1970.
    let leaps = before / 4 - before / 100 + before / 400 - 477;
    let months: u64 = (1..month).map(|month| length(year, month)).sum();
    (year - 1970) * 365 + leaps + months + day - 1
}

/// Year, month and day of a number of days since 1970-01-01.
fn date(mut left: u64) -> (u64, u64, u64) {
    let mut year = 1970 + left / 366;
    while days(year + 1, 1, 1) <= left {
        year += 1;
    }
    left -= days(year, 1, 1);
    let mut month = 1;
    while left >= length(year, month) {
        left -= length(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_and_read() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_800_000_000_000, "2027-01-15T08:00:00Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
            assert_eq!(parse_rfc3339(text), Some(ms));
        }
    }

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in 0..146_097 {
            let ms = (day * DAY + 43_200) * 1_000;
            assert_eq!(parse_rfc3339(&rfc3339(ms)), Some(ms));
        }
    }

    #[test]
    fn decimals_and_offsets_count() {
        for text in [
            "2027-01-15T08:00:00.25Z",
            "2027-01-15T09:30:00.250000+01:30",
            "2027-01-15T06:00:00.25-0200",
        ] {
            assert_eq!(parse_rfc3339(text), Some(1_800_000_000_250), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-02-29T08:00:00Z",
            "2027-13-01T08:00:00Z",
            "2027-00-01T08:00:00Z",
            "2027-01-15T24:00:00Z",
            "2027-01-15T08:00:00.Z",
            "2027-01-15T08:00:00+1",
            "1969-12-31T23:59:59Z",
            "+027-01-15T08:00:00Z",
            "1970-01-01T00:00:00+01:00",
        ] {
            assert_eq!(parse_rfc3339(wrong), None, "{wrong}");
        }
    }
}
