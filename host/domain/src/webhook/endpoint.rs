//! A merchant's or a reseller's destination for events.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::event::EventType;
use crate::id::EndpointId;
use crate::key::{Environment, KeyOwner, base62};
use crate::secret::Secret;
use crate::time::Time;

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Characters of base62 in a secret, about 256 bits.
const SECRET: usize = 43;

/// A destination. Its secrets stand apart, so that no list or log can hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub id: EndpointId,
    /// Whose it is: a merchant's hears of all its payments, a reseller's of those that the reseller made, as long as
    /// it may work for their merchant.
    pub owner: KeyOwner,
    pub environment: Environment,
    /// Where events are posted to, as it was set.
    pub url: String,
    pub event_types: EventFilter,
    /// Whether it gets new events; what waits for a disabled one is held back.
    pub enabled: bool,
    pub created_at: Time,
}

impl Endpoint {
    /// Most endpoints of one owner in one environment: an event is written for all of them in
    /// one transaction.
    pub const MAX_PER_OWNER: usize = 32;

    /// The first of these that posts to an address, however it is written.
    pub fn at<'a>(endpoints: &'a [Self], address: &str) -> Option<&'a Self> {
        let place = Url::parse(address).ok();
        endpoints.iter().find(|endpoint| {
            endpoint.url == address || (place.is_some() && Url::parse(&endpoint.url).ok() == place)
        })
    }

    /// Whether a payment's event of a kind is for this endpoint, of all that its owner has in
    /// the payment's environment.
    pub fn wants(&self, kind: EventType) -> bool {
        self.enabled && self.event_types.matches(kind)
    }
}

/// Which events an endpoint wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventFilter {
    /// Every one that need not be asked for by name, those of later releases too.
    #[default]
    All,
    /// These; none is a valid choice.
    Only(Vec<EventType>),
}

impl EventFilter {
    /// These, in the order of [`EventType::ALL`], each once.
    pub fn only(types: &[EventType]) -> Self {
        let wanted = EventType::ALL
            .into_iter()
            .filter(|kind| types.contains(kind));
        Self::Only(wanted.collect())
    }

    /// Whether it lets an event through.
    pub fn matches(&self, kind: EventType) -> bool {
        match self {
            Self::All => kind.is_by_default(),
            Self::Only(types) => types.contains(&kind),
        }
    }

    /// The events that it lets through.
    pub fn types(&self) -> &[EventType] {
        match self {
            Self::All => EventType::BY_DEFAULT,
            Self::Only(types) => types,
        }
    }
}

/// Draws a secret: `whsec_` and 43 characters of base62.
///
/// # Errors
/// Whatever `random` fails with.
pub fn generate_secret<E>(random: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Secret, E> {
    Ok(Secret::new(format!("{PREFIX}{}", base62(SECRET, random)?)))
}

/// The overlap is longer than a rotation may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the overlap must be 0 to 72 hours")]
pub struct NoSuchOverlap;

/// What signs an endpoint's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSecrets {
    current: Secret,
    /// Signs from the time on.
    next: Option<(Secret, Time)>,
}

impl EndpointSecrets {
    /// Longest overlap of a rotation.
    pub const MAX_OVERLAP: Duration = Duration::from_secs(72 * 3600);

    /// The secret that an endpoint begins with.
    pub const fn new(secret: Secret) -> Self {
        Self {
            current: secret,
            next: None,
        }
    }

    /// The secret that signs now.
    pub fn signing(&self, now: Time) -> &Secret {
        match &self.next {
            Some((next, from)) if *from <= now => next,
            _ => &self.current,
        }
    }

    /// Has another secret sign from `overlap` on; says from when. A rotation under way is given up:
    /// what signs now does so until then.
    ///
    /// # Errors
    /// [`NoSuchOverlap`] over 72 hours.
    pub fn rotate(
        &mut self,
        secret: Secret,
        overlap: Duration,
        now: Time,
    ) -> Result<Time, NoSuchOverlap> {
        if overlap > Self::MAX_OVERLAP {
            return Err(NoSuchOverlap);
        }
        let from = now.after(overlap);
        self.current = self.signing(now).clone();
        self.next = Some((secret, from));
        Ok(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MerchantId;
    use proptest::prelude::*;
    use std::convert::Infallible;

    const NOW: Time = Time::from_secs(1_800_000_000);

    fn endpoint(url: &str) -> Endpoint {
        Endpoint {
            id: EndpointId::from_bytes([1; 16]),
            owner: KeyOwner::Merchant(MerchantId(1)),
            environment: Environment::Test,
            url: url.into(),
            event_types: EventFilter::All,
            enabled: true,
            created_at: NOW,
        }
    }

    #[test]
    fn an_address_is_found_however_it_is_written() {
        let known = [
            endpoint("https://other.example/"),
            endpoint("https://shop.example/hook?a=b"),
        ];
        for same in [
            "https://shop.example/hook?a=b",
            "HTTPS://Shop.example:443/x/../hook?a=b",
        ] {
            assert_eq!(Endpoint::at(&known, same), Some(&known[1]), "{same}");
        }
        for other in [
            "https://shop.example/hook",
            "https://shop.example/Hook?a=b",
            "https://shop.example:8443/hook?a=b",
            "not an address",
        ] {
            assert_eq!(Endpoint::at(&known, other), None, "{other}");
        }
    }

    #[test]
    fn a_secret_has_the_decided_form() {
        let Ok(secret) = generate_secret(|buffer| {
            buffer.fill(61);
            Ok::<_, Infallible>(())
        });
        assert_eq!(secret.expose(), format!("whsec_{}", "z".repeat(43)));
    }

    #[test]
    fn a_new_secret_signs_after_the_overlap_and_not_before() {
        let mut secrets = EndpointSecrets::new(Secret::new("a"));
        let overlap = Duration::from_secs(3600);
        let from = secrets.rotate(Secret::new("b"), overlap, NOW).unwrap();
        assert_eq!(from, NOW.after(overlap));
        let just_before = from.before(Duration::from_millis(1));
        assert_eq!(secrets.signing(just_before).expose(), "a");
        assert_eq!(secrets.signing(from).expose(), "b");
        // Rotated once more while both were good: what signed goes on until the newest takes over.
        let mid = NOW.after(Duration::from_secs(60));
        let from = secrets.rotate(Secret::new("c"), overlap, mid).unwrap();
        assert_eq!(secrets.signing(from.before(overlap)).expose(), "a");
        assert_eq!(secrets.signing(from).expose(), "c");
        let at_once = secrets.rotate(Secret::new("d"), Duration::ZERO, from);
        assert_eq!(at_once, Ok(from));
        assert_eq!(secrets.signing(from).expose(), "d");
    }

    #[test]
    fn an_overlap_is_72_hours_at_most() {
        let mut secrets = EndpointSecrets::new(Secret::new("a"));
        let most = EndpointSecrets::MAX_OVERLAP;
        let over = most + Duration::from_millis(1);
        let before = secrets.clone();
        assert_eq!(
            secrets.rotate(Secret::new("b"), over, NOW),
            Err(NoSuchOverlap)
        );
        assert_eq!(secrets, before);
        assert!(secrets.rotate(Secret::new("b"), most, NOW).is_ok());
    }

    proptest! {
        #[test]
        fn a_filter_lets_through_exactly_what_it_names(
            chosen in prop::collection::vec(0_usize..EventType::ALL.len(), 0..20),
            enabled in any::<bool>(),
        ) {
            let types: Vec<_> = chosen.iter().map(|at| EventType::ALL[*at]).collect();
            let endpoint = |event_types| Endpoint {
                event_types,
                enabled,
                ..endpoint("https://shop.example/")
            };
            for kind in EventType::ALL {
                let only = endpoint(EventFilter::only(&types));
                prop_assert_eq!(only.wants(kind), enabled && types.contains(&kind));
                prop_assert_eq!(endpoint(EventFilter::All).wants(kind), enabled && kind.is_by_default());
            }
        }
    }
}
