//! The index of an owner's endpoints, in which an event is looked up.

use kassette_domain::event::EventType;
use kassette_domain::id::EndpointId;
use kassette_domain::webhook::Endpoint;
use serde::{Deserialize, Serialize};

use crate::rows::wants::Wants;

/// An owner's endpoints in one environment.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct EndpointIndex(pub(crate) Vec<(EndpointId, Wants)>);

impl EndpointIndex {
    /// What it says of each endpoint, as bytes. Those that name every kind there was once and those
    /// that want all are told alike; see [`EndpointIndex::wanting_all`].
    pub(crate) fn told(&self) -> impl Iterator<Item = (EndpointId, [u8; 4])> {
        self.0.iter().map(|(id, wants)| (*id, wants.told()))
    }

    /// The endpoints that want all, those not counted whose rows were written before there was a bit
    /// for it.
    pub(crate) fn wanting_all(&self) -> impl Iterator<Item = EndpointId> {
        let all = self.0.iter().filter(|(_, wants)| wants.wants_all());
        all.map(|(id, _)| *id)
    }

    /// The endpoints that want an event.
    pub(crate) fn wanting(&self, kind: EventType) -> Vec<EndpointId> {
        let wanting = self.0.iter().filter(|(_, wants)| wants.wants(kind));
        wanting.map(|(id, _)| *id).collect()
    }
}

/// What an index has to say of an endpoint, as bytes.
pub(crate) fn wanted_by(endpoint: &Endpoint) -> [u8; 4] {
    Wants::of(endpoint).told()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixtures::{NOW, endpoint};

    fn roster(wants: u32) -> (EndpointId, EndpointIndex) {
        let id = endpoint("a", NOW).id;
        (id, EndpointIndex(vec![(id, Wants(wants))]))
    }

    #[test]
    fn who_wants_all_hears_of_kinds_that_its_row_does_not_name() {
        let (id, all) = roster(1 << 31);
        for kind in EventType::BY_DEFAULT {
            assert_eq!(all.wanting(*kind), [id], "{kind:?}");
        }
        assert_eq!(all.wanting(EventType::PaymentAttemptFailed), []);
        let (_, one) = roster(1 << 4);
        assert_eq!(one.wanting(EventType::PaymentCompleted), [id]);
        assert_eq!(one.wanting(EventType::PaymentPending), []);
    }

    #[test]
    fn a_roster_of_an_earlier_release_still_says_all() {
        let (id, before) = roster(0x7ff);
        for kind in EventType::BY_DEFAULT {
            assert_eq!(before.wanting(*kind), [id], "{kind:?}");
        }
        let told: Vec<_> = before.told().collect();
        assert_eq!(told, [(id, wanted_by(&endpoint("a", NOW)))]);
    }
}
