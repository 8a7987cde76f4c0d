//! Webhook endpoints of merchants and resellers.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::event::EventType;
use crate::id::{EndpointId, KeyId, OperatorId};
use crate::key::{Environment, KeyOwner, base62};
use crate::secret::Secret;
use crate::time::Time;

/// Prefix of a secret.
const PREFIX: &str = "whsec_";
/// Number of base62 characters in a secret, about 262 bits; a multiple of four, so that they are also base64.
const SECRET: usize = 44;

/// An endpoint. Its secrets are stored separately, so that no list or log can contain them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub id: EndpointId,
    /// A merchant's endpoint receives events of all its payments; a reseller's endpoint, of payments that the
    /// reseller made, as long as it may work for the merchant.
    pub owner: KeyOwner,
    pub environment: Environment,
    /// URL to which events are posted, as configured.
    pub url: String,
    pub event_types: EventFilter,
    /// Whether it gets new events. Pending deliveries of a disabled endpoint are held back.
    pub enabled: bool,
    pub created_at: Time,
    pub created_by: EndpointCreator,
    /// Periods in which it was off, oldest first. The end is `None` if it is still off.
    pub off: Vec<(Time, Option<Time>)>,
}

/// Creator of an endpoint. The endpoint stays when its creator's key or token is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointCreator {
    /// The server itself, or an operator or key from before this was recorded.
    System,
    Operator(OperatorId),
    /// A key of the endpoint's owner. For a connected shop it is the key that the connection issued.
    Key(KeyId),
}

impl fmt::Display for EndpointCreator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Operator(id) => write!(f, "operator/{id}"),
            Self::Key(id) => write!(f, "key/{id}"),
        }
    }
}

impl Endpoint {
    /// Maximum number of endpoints of one owner in one environment: an event is written for all of them in one
    /// transaction.
    pub const MAX_PER_OWNER: usize = 32;

    /// Maximum length of `off`. The oldest period is removed first.
    const MAX_OFF: usize = 16;

    /// Switches it on or off, and updates `off`.
    pub fn switch(&mut self, enabled: bool, now: Time) {
        if self.enabled == enabled {
            return;
        }
        self.enabled = enabled;
        if enabled {
            if let Some((_, until @ None)) = self.off.last_mut() {
                *until = Some(now);
            }
            return;
        }
        if self.off.len() >= Self::MAX_OFF {
            self.off.remove(0);
        }
        self.off.push((now, None));
    }

    /// Periods since `since`, ends excluded, in which events were possibly not queued because the endpoint was off.
    /// They have some slack, because a step's time is shortly before its transaction.
    pub fn missed(&self, since: Time, now: Time) -> Vec<(Time, Time)> {
        const SLACK: Duration = Duration::from_secs(60);
        let off = self.off.iter().map(|(from, until)| {
            let from = from.before(SLACK).max(since).max(self.created_at);
            let until = until.map_or(now, |until| until.after(SLACK).min(now));
            (from, until.after(Duration::from_millis(1)))
        });
        off.filter(|(from, until)| from < until).collect()
    }

    /// The first of these that posts to an address, however it is written.
    pub fn at<'a>(endpoints: &'a [Self], address: &str) -> Option<&'a Self> {
        let place = Url::parse(address).ok();
        endpoints.iter().find(|endpoint| {
            endpoint.url == address || (place.is_some() && Url::parse(&endpoint.url).ok() == place)
        })
    }

    /// Whether the endpoint receives an event of a kind, if the event is of its owner and environment.
    pub fn wants(&self, kind: EventType) -> bool {
        self.enabled && self.event_types.matches(kind)
    }
}

/// Selection of events for an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventFilter {
    /// All events that are sent by default, also in later releases.
    #[default]
    All,
    /// Only these types; may be empty.
    Only(Vec<EventType>),
}

impl EventFilter {
    /// Selects these types, in the order of [`EventType::ALL`], each once.
    pub fn only(types: &[EventType]) -> Self {
        let wanted = EventType::ALL
            .into_iter()
            .filter(|kind| types.contains(kind));
        Self::Only(wanted.collect())
    }

    /// Whether it selects an event.
    pub fn matches(&self, kind: EventType) -> bool {
        match self {
            Self::All => kind.is_by_default(),
            Self::Only(types) => types.contains(&kind),
        }
    }

    /// The selected types.
    pub fn types(&self) -> &[EventType] {
        match self {
            Self::All => EventType::BY_DEFAULT,
            Self::Only(types) => types,
        }
    }
}

/// Generates a secret: `whsec_` and 44 characters of base62, which are also the base64 of 33 bytes.
///
/// # Errors
/// Errors of `random`.
pub fn generate_secret<E>(random: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Secret, E> {
    Ok(Secret::new(format!("{PREFIX}{}", base62(SECRET, random)?)))
}

/// The overlap exceeds the limit of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the overlap must be 0 to 72 hours")]
pub struct NoSuchOverlap;

/// Secrets that sign an endpoint's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSecrets {
    current: Secret,
    /// Signs from this time.
    next: Option<(Secret, Time)>,
}

impl EndpointSecrets {
    /// Maximum overlap of a rotation.
    pub const MAX_OVERLAP: Duration = Duration::from_secs(72 * 3600);

    /// The first secret of an endpoint.
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

    /// Time at which the next secret starts to sign. `None` without a rotation in progress.
    pub fn changes_at(&self, now: Time) -> Option<Time> {
        let next = self.next.as_ref().filter(|(_, from)| *from > now);
        next.map(|(_, from)| *from)
    }

    /// Secrets of which a receiver may have only one: the signing secret, and during a rotation the next.
    pub fn shared(&self, now: Time) -> impl Iterator<Item = &Secret> {
        let next = self.next.as_ref().filter(|(_, from)| *from > now);
        std::iter::once(self.signing(now)).chain(next.map(|(next, _)| next))
    }

    /// Makes another secret sign after `overlap`, and returns that time. A rotation in progress is abandoned: the
    /// signing secret stays until then.
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
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use proptest::prelude::*;
    use std::convert::Infallible;

    const NOW: Time = Time::from_secs(1_800_000_000);

    #[test]
    fn what_was_missed_is_what_was_made_while_the_endpoint_was_off() {
        let at = |seconds| NOW.after(Duration::from_secs(seconds));
        let moment = Duration::from_millis(1);
        let mut endpoint = endpoint("https://shop.example/hook");
        endpoint.created_at = NOW;
        assert_eq!(endpoint.missed(NOW, at(9000)), []);
        endpoint.switch(false, at(1000));
        endpoint.switch(false, at(1500));
        assert_eq!(
            endpoint.missed(NOW, at(9000)),
            [(at(940), at(9000).after(moment))]
        );
        endpoint.switch(true, at(2000));
        endpoint.switch(true, at(2500));
        assert_eq!(
            endpoint.missed(NOW, at(9000)),
            [(at(940), at(2060).after(moment))]
        );
        assert_eq!(
            endpoint.missed(at(1200), at(9000)),
            [(at(1200), at(2060).after(moment))]
        );
        assert_eq!(endpoint.missed(at(2100), at(9000)), []);
        endpoint.switch(false, at(3000));
        assert_eq!(endpoint.missed(NOW, at(9000)).len(), 2);
        for time in 0..99 {
            endpoint.switch(time % 2 == 0, at(4000 + time));
        }
        assert_eq!(endpoint.off.len(), Endpoint::MAX_OFF);
    }

    fn endpoint(url: &str) -> Endpoint {
        Endpoint {
            id: EndpointId::from_bytes([1; 16]),
            owner: KeyOwner::Merchant(MerchantId(1)),
            environment: Environment::Test,
            url: url.into(),
            event_types: EventFilter::All,
            enabled: true,
            created_at: NOW,
            created_by: EndpointCreator::System,
            off: Vec::new(),
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
        assert_eq!(secret.expose(), format!("whsec_{}", "z".repeat(44)));
        let key = BASE64_STANDARD.decode("z".repeat(44)).unwrap();
        assert_eq!(key.len(), 33);
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
        // A second rotation during the overlap: the signing secret stays until the newest replaces it.
        let mid = NOW.after(Duration::from_secs(60));
        let from = secrets.rotate(Secret::new("c"), overlap, mid).unwrap();
        assert_eq!(secrets.signing(from.before(overlap)).expose(), "a");
        assert_eq!(secrets.signing(from).expose(), "c");
        let at_once = secrets.rotate(Secret::new("d"), Duration::ZERO, from);
        assert_eq!(at_once, Ok(from));
        assert_eq!(secrets.signing(from).expose(), "d");
    }

    #[test]
    fn both_secrets_are_shared_until_the_new_one_signs() {
        let mut secrets = EndpointSecrets::new(Secret::new("a"));
        let shared = |secrets: &EndpointSecrets, at| {
            let shared = secrets.shared(at).map(Secret::expose);
            shared.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shared(&secrets, NOW), "a");
        let overlap = Duration::from_secs(3600);
        let from = secrets.rotate(Secret::new("b"), overlap, NOW).unwrap();
        assert_eq!(shared(&secrets, NOW), "a b");
        assert_eq!(shared(&secrets, from), "b");
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
