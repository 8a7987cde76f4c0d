//! PayPal's ids: 17 capital letters and digits. Those of an order's capture and refund follow from the
//! order's, so that a capture is found by its id.
use crate::{config::SimError, ids};

/// Letters of an id.
pub(crate) const LENGTH: usize = 17;

/// A new order's id.
pub(crate) fn order() -> Result<String, SimError> {
    Ok(of("5", &ids::random("")?.to_ascii_uppercase()))
}

/// The id of an order's capture.
pub(crate) fn capture(order: &str) -> String {
    of("3", order.get(1..).unwrap_or_default())
}

/// A refund's id, out of hexadecimal characters.
pub(crate) fn refund(hex: &str) -> String {
    of("1", &hex.to_ascii_uppercase())
}

/// A dispute's id, out of hexadecimal characters.
pub(crate) fn dispute(hex: &str) -> String {
    format!("PP-D-{}", of("4", &hex.to_ascii_uppercase()))
}

/// The id of what a lost dispute took, out of the dispute's.
pub(crate) fn reversal(dispute: &str) -> String {
    of("2", dispute.trim_start_matches("PP-D-4"))
}

/// The order that a capture's id belongs to.
pub(crate) fn captured_order(capture: &str) -> Option<String> {
    Some(of("5", capture.strip_prefix('3')?))
}

fn of(kind: &str, rest: &str) -> String {
    kind.chars().chain(rest.chars()).take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_leads_back_to_its_order() {
        let order = order().unwrap();
        assert_eq!(order.len(), LENGTH);
        assert_eq!(captured_order(&capture(&order)), Some(order.clone()));
        assert_eq!(captured_order(&order), None);
    }
}
