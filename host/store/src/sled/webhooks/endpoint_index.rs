//! Index of an owner's endpoints, used to find the endpoints that want an event.

use kassette_domain::event::EventType;
use kassette_domain::id::EndpointId;
use kassette_domain::webhook::Endpoint;
use serde::{Deserialize, Serialize};

use crate::rows::wants::Wants;

/// An owner's endpoints in one environment.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct EndpointIndex(pub(crate) Vec<(EndpointId, Wants)>);

impl EndpointIndex {
    /// The entry of each endpoint in comparable form, as bytes. Endpoints that list every former event type
    /// and endpoints that want all events have the same form; see [`EndpointIndex::wanting_all`].
    pub(crate) fn told(&self) -> impl Iterator<Item = (EndpointId, [u8; 4])> {
        self.0.iter().map(|(id, wants)| (*id, wants.told()))
    }

    /// Endpoints that want all events, except those whose rows were written before there was a bit for it.
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

/// Entry that an endpoint must have, in comparable form.
pub(crate) fn wanted_by(endpoint: &Endpoint) -> [u8; 4] {
    Wants::new(endpoint).told()
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
}
