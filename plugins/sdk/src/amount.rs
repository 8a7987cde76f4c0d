//! Amounts as text: minor units in, the wire form out, never a float between.

/// Minor units in one unit of every currency of this version of the contract.
pub const MINOR_UNITS: u64 = 100;

/// Minor units in so many whole units: `units(50)` is 50.00. Only for constants: no check is made.
#[must_use]
pub const fn units(units: u64) -> u64 {
    units * MINOR_UNITS
}

/// The wire form with its currency, for refusals and reasons: `1250.00 EUR`.
#[must_use]
pub fn format(amount: u64, currency: &str) -> String {
    let mut text = String::new();
    push(&mut text, amount, currency);
    text
}

/// The same at the end of a text. Reasons are written for every candidate of every question, and
/// the machinery behind `format!` would be a good part of the whole call.
pub(crate) fn push(text: &mut String, amount: u64, currency: &str) {
    push_number(text, amount / MINOR_UNITS);
    text.push('.');
    if amount % MINOR_UNITS < 10 {
        text.push('0');
    }
    push_number(text, amount % MINOR_UNITS);
    text.push(' ');
    text.push_str(currency);
}

/// A number in decimal digits at the end of a text.
pub(crate) fn push_number(text: &mut String, number: u64) {
    if number > 9 {
        push_number(text, number / 10);
    }
    // less than ten
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// Reads the wire form `0.50`: digits, a point and exactly two digits. None for anything else, or
/// where it does not fit.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let (units, minor) = text.split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(units) || !digits(minor) || minor.len() != 2 {
        return None;
    }
    let units: u64 = units.parse().ok()?;
    let minor: u64 = minor.parse().ok()?;
    units.checked_mul(MINOR_UNITS)?.checked_add(minor)
}

/// Whether the amount has no fraction of a unit, which schemes without decimals demand.
#[must_use]
pub const fn is_whole(amount: u64) -> bool {
    amount.is_multiple_of(MINOR_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_both_decimals() {
        assert_eq!(format(5, "EUR"), "0.05 EUR");
        assert_eq!(format(10_000_000, "INR"), "100000.00 INR");
        assert_eq!(format(u64::MAX, "USD"), "184467440737095516.15 USD");
    }

    #[test]
    fn reads_the_wire_form_alone() {
        assert_eq!(parse("0.50"), Some(50));
        assert_eq!(parse("2500.00"), Some(250_000));
        for wrong in [
            "", "1", "1.", ".50", "1.5", "1.500", "-1.00", "+1.00", "1,00", " 1.00",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse("184467440737095516.16"), None);
    }

    #[test]
    fn whole_means_no_fraction() {
        assert!(is_whole(0) && is_whole(100) && !is_whole(150));
    }
}
