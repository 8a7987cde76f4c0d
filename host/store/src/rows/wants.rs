//! The events that an endpoint wants, as bits.

use kassette_domain::event::EventType;
use kassette_domain::webhook::{Endpoint, EventFilter};
use serde::{Deserialize, Serialize};

/// A bit for each wanted event type, and one for all. No bits for a disabled endpoint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Wants(pub(crate) u32);

impl Wants {
    /// All event types that are sent by default, including those of later releases, for which earlier rows
    /// have no bits.
    const ALL: u32 = 1 << 31;

    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let wanted = EventType::ALL
            .into_iter()
            .filter(|kind| endpoint.wants(*kind));
        let all = match endpoint.event_types {
            EventFilter::All if endpoint.enabled => Self::ALL,
            EventFilter::All | EventFilter::Only(_) => 0,
        };
        // Each type's bit is set too, for releases that do not know the bit for all.
        Self(wanted.fold(all, |bits, kind| bits | Self::bit(kind)))
    }

    const fn bit(kind: EventType) -> u32 {
        1 << number_of(kind)
    }

    /// Bits of which an endpoint that wants an event type has at least one.
    const fn any_of(kind: EventType) -> Self {
        let all = if kind.is_by_default() { Self::ALL } else { 0 };
        Self(all | Self::bit(kind))
    }

    pub(crate) const fn wants(self, kind: EventType) -> bool {
        self.0 & Self::any_of(kind).0 != 0
    }

    pub(crate) const fn wants_all(self) -> bool {
        self.0 & Self::ALL != 0
    }

    /// The bits, as a column of type `bigint`.
    pub(crate) fn bits(self) -> i64 {
        self.0.into()
    }

    /// The bits of [`Wants::any_of`], as a column of type `bigint`.
    pub(crate) fn asking_for(kind: EventType) -> i64 {
        Self::any_of(kind).bits()
    }

    /// Comparable form: rows that want all events are equal, regardless of their other bits.
    pub(crate) const fn told(self) -> [u8; 4] {
        let bits = match self.0 {
            bits if bits & Self::ALL != 0 => Self::ALL,
            bits => bits,
        };
        bits.to_be_bytes()
    }
}

/// Number of an event type in rows. New types are declared at the end.
pub(crate) const fn number_of(kind: EventType) -> u8 {
    kind as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixtures::{NOW, endpoint};

    /// Every kind with the number that stands for it in rows: a bit in rosters, and what the encoding
    /// writes in all else. A new kind gets the next number, at the end.
    const NUMBERS: [(EventType, u8); 16] = [
        (EventType::PaymentPending, 0),
        (EventType::PaymentProcessing, 1),
        (EventType::PaymentVerificationPending, 2),
        (EventType::PaymentReview, 3),
        (EventType::PaymentCompleted, 4),
        (EventType::PaymentFailed, 5),
        (EventType::PaymentCancelled, 6),
        (EventType::PaymentExpired, 7),
        (EventType::PaymentRefunded, 8),
        (EventType::PaymentDisputed, 9),
        (EventType::WebhookTest, 10),
        (EventType::PaymentRefundFailed, 12),
        (EventType::PaymentDisputeClosed, 13),
        (EventType::PaymentCaptureReversed, 14),
        (EventType::WebhookDisabled, 15),
        (EventType::PaymentAttemptFailed, 11),
    ];

    #[test]
    fn a_kind_of_event_keeps_its_number_in_rows() {
        assert_eq!(NUMBERS.map(|(kind, _)| kind), EventType::ALL);
        for (kind, number) in NUMBERS {
            assert_eq!(Wants::bit(kind), 1 << number, "{kind:?}");
            let row = postcard::to_allocvec(&kind).unwrap();
            assert_eq!(row, [number], "{kind:?}");
        }
        let bits = |event_types| {
            Wants::new(&Endpoint {
                event_types,
                ..endpoint("a", NOW)
            })
        };
        assert_eq!(bits(EventFilter::All), Wants(0x8000_f7ff));
        assert_eq!(
            bits(EventFilter::Only(EventType::ALL.to_vec())),
            Wants(0xffff)
        );
        let named = EventFilter::only(&[EventType::PaymentAttemptFailed]);
        assert!(bits(named).wants(EventType::PaymentAttemptFailed));
        assert!(!bits(EventFilter::All).wants(EventType::PaymentAttemptFailed));
        let some = EventFilter::only(&[EventType::PaymentRefunded, EventType::PaymentProcessing]);
        assert_eq!(bits(some), Wants(0x102));
        let off = Endpoint {
            enabled: false,
            ..endpoint("a", NOW)
        };
        assert_eq!(Wants::new(&off), Wants(0));
    }
}
