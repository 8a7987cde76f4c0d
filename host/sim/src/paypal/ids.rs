//! PayPal's ids: 17 capital letters and digits. Those of a capture and a refund are derived from the order's, so
//! that a capture is found by its id.
use crate::{config::SimError, ids};

/// Number of characters of an id.
pub(crate) const LENGTH: usize = 17;

/// A new order's id.
pub(crate) fn order() -> Result<String, SimError> {
    Ok(id("5", &ids::random("")?.to_ascii_uppercase()))
}

/// The id of an order's capture.
pub(crate) fn capture(order: &str) -> String {
    id("3", order.get(1..).unwrap_or_default())
}

/// A refund's id, from hexadecimal digits.
pub(crate) fn refund(hex: &str) -> String {
    id("1", &hex.to_ascii_uppercase())
}

/// A dispute's id, from hexadecimal digits.
pub(crate) fn dispute(hex: &str) -> String {
    format!("PP-D-{}", id("4", &hex.to_ascii_uppercase()))
}

/// The id of the refund that a lost dispute is booked as, from the dispute's id.
pub(crate) fn reversal(dispute: &str) -> String {
    id("2", dispute.trim_start_matches("PP-D-4"))
}

/// The order that a capture's id belongs to.
pub(crate) fn captured_order(capture: &str) -> Option<String> {
    Some(id("5", capture.strip_prefix('3')?))
}

fn id(kind: &str, rest: &str) -> String {
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
