//! Which events an endpoint wants, as bits.

use kassette_domain::event::EventType;
use kassette_domain::webhook::{Endpoint, EventFilter};
use serde::{Deserialize, Serialize};

/// A bit for each kind of event that is wanted, and one for all; none for a disabled endpoint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Wants(pub(crate) u32);

impl Wants {
    /// Every kind that need not be asked for by name, those of later releases too: their bits are in no row that was written before them.
    const ALL: u32 = 1 << 31;
    /// What stood for every kind before there was a bit for all: the kinds that there were then. It
    /// stays what it is when kinds are added. An endpoint that wants all and whose row says this hears
    /// of a kind that comes later only once its row is written anew.
    const EVERY_ONE_ONCE: u32 = (1 << 11) - 1;

    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let wanted = EventType::ALL
            .into_iter()
            .filter(|kind| endpoint.wants(*kind));
        let all = match endpoint.event_types {
            EventFilter::All if endpoint.enabled => Self::ALL,
            EventFilter::All | EventFilter::Only(_) => 0,
        };
        // Each kind beside the bit for all: a release that does not know that one reads on.
        Self(wanted.fold(all, |bits, kind| bits | Self::bit(kind)))
    }

    const fn bit(kind: EventType) -> u32 {
        1 << number_of(kind)
    }

    /// Those of which an endpoint that wants a kind has one at least.
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

    /// The bits of [`Wants::any_of`].
    pub(crate) fn asking_for(kind: EventType) -> i64 {
        Self::any_of(kind).bits()
    }

    /// For comparing: what wants all is the same however it was written.
    pub(crate) const fn told(self) -> [u8; 4] {
        let bits = match self.0 {
            Self::EVERY_ONE_ONCE => Self::ALL,
            bits if bits & Self::ALL != 0 => Self::ALL,
            bits => bits,
        };
        bits.to_be_bytes()
    }
}

/// The number of a kind: never given to another kind, never changed, whatever the order in which kinds are
/// declared.
pub(crate) const fn number_of(kind: EventType) -> u8 {
    match kind {
        EventType::PaymentPending => 0,
        EventType::PaymentProcessing => 1,
        EventType::PaymentVerificationPending => 2,
        EventType::PaymentReview => 3,
        EventType::PaymentCompleted => 4,
        EventType::PaymentFailed => 5,
        EventType::PaymentCancelled => 6,
        EventType::PaymentExpired => 7,
        EventType::PaymentRefunded => 8,
        EventType::PaymentDisputed => 9,
        EventType::WebhookTest => 10,
        EventType::PaymentAttemptFailed => 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixtures::{NOW, endpoint};

    /// Every kind with the number that stands for it in rows: a bit in rosters, and what the encoding
    /// writes in all else. A new kind gets the next number, at the end.
    const NUMBERS: [(EventType, u8); 12] = [
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
            Wants::of(&Endpoint {
                event_types,
                ..endpoint("a", NOW)
            })
        };
        assert_eq!(bits(EventFilter::All), Wants(0x8000_07ff));
        assert_eq!(
            bits(EventFilter::Only(EventType::ALL.to_vec())),
            Wants(0xfff)
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
        assert_eq!(Wants::of(&off), Wants(0));
    }
}
