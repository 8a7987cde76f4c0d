//! Converts amounts between minor units and text, without floating-point numbers.

/// Minor units in one unit, in every currency of this version of the contract.
pub const MINOR_UNITS: u64 = 100;

/// Converts whole units to minor units: `units(50)` is 50.00. Only for constants: at run time, overflow is not
/// checked.
#[must_use]
pub const fn units(units: u64) -> u64 {
    units * MINOR_UNITS
}

/// Formats minor units in the wire form with the currency, for refusals and reasons: `1250.00 EUR`.
#[must_use]
pub fn format(amount: u64, currency: &str) -> String {
    let mut text = String::new();
    push(&mut text, amount, currency);
    text
}

/// Like [`format()`], but appends to a text. Reasons are written for every candidate of every question, and the code
/// behind `format!` would take a large part of the call.
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

/// Appends a number in decimal digits.
pub(crate) fn push_number(text: &mut String, number: u64) {
    if number > 9 {
        push_number(text, number / 10);
    }
    // A single digit.
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// Parses the wire form `0.50`: digits, a point and exactly two digits. `None` for any other text, and on
/// overflow.
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

/// Whether the amount has no fraction of a unit, as schemes without decimals require.
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
