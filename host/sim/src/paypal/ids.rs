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

/// The id of an order's refund.
pub(crate) fn refund(order: &str) -> String {
    of("1", order.get(1..).unwrap_or_default())
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
        assert_ne!(capture(&order), refund(&order));
        assert_eq!(captured_order(&capture(&order)), Some(order.clone()));
        assert_eq!(captured_order(&order), None);
    }
}
