//! A random generator whose bytes can be reproduced: they depend only on the routing context.
//!
//! The seed is a SHA-256 of the whole context, with the candidates sorted by id because their order has no
//! meaning. The bytes are SHA-256 of the seed and a counter. The module has no influence, so two versions can be
//! compared on the same context. Later versions of this host replay recorded decisions: the bytes for a context
//! must never change.

use kassette_domain::key::Environment;
use kassette_domain::routing::{AccountCandidate, Availability, Context, Health};
use sha2::{Digest as _, Sha256};

/// Domain separation from any other derivation.
const LABEL: &[u8] = b"kassette chance 1";

/// Random bytes of one call.
pub(super) struct SeededRandom {
    seed: [u8; 32],
    /// Number of blocks generated so far.
    blocks: u64,
    block: [u8; 32],
    /// Number of bytes of `block` that were used.
    drawn: usize,
}

impl SeededRandom {
    pub(super) fn fixed() -> Self {
        Self::seeded([0; 32])
    }

    /// A generator with the seed of a routing context.
    pub(super) fn new(context: &Context) -> Self {
        Self::seeded(seed(context))
    }

    const fn seeded(seed: [u8; 32]) -> Self {
        Self {
            seed,
            blocks: 0,
            block: [0; 32],
            drawn: 32,
        }
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.drawn == self.block.len() {
                self.block = Sha256::new()
                    .chain_update(self.seed)
                    .chain_update(self.blocks.to_le_bytes())
                    .finalize()
                    .into();
                self.blocks += 1;
                self.drawn = 0;
            }
            *byte = self.block.get(self.drawn).copied().unwrap_or_default();
            self.drawn += 1;
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

fn seed(context: &Context) -> [u8; 32] {
    // Destructured, so that a new field cannot be forgotten.
    let Context {
        amount,
        currency,
        usd,
        environment,
        email_known,
        country,
        now,
        settings,
        candidates,
    } = context;
    let mut fields = Fields(Sha256::new_with_prefix(LABEL));
    fields.optional(amount.map(|amount| amount.0));
    fields.text(currency.code());
    fields.optional(usd.map(|usd| usd.0));
    fields.number(match environment {
        Environment::Test => 0,
        Environment::Live => 1,
    });
    fields.number(u64::from(*email_known));
    fields.number(u64::from(country.is_some()));
    fields.text(country.as_deref().unwrap_or_default());
    fields.number(now.as_millis());
    fields.number(settings.len() as u64);
    for (name, value) in settings {
        fields.text(name);
        fields.text(value);
    }
    let mut candidates: Vec<&AccountCandidate> = candidates.iter().collect();
    candidates.sort_unstable_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    fields.number(candidates.len() as u64);
    for candidate in candidates {
        fields.candidate(candidate);
    }
    fields.0.finalize().into()
}

/// Hashes fields with a fixed length or a length prefix, so that two different contexts cannot give the same
/// input.
struct Fields(Sha256);

impl Fields {
    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn optional(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or_default());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text);
    }

    fn candidate(&mut self, candidate: &AccountCandidate) {
        let AccountCandidate {
            id,
            minimum,
            maximum,
            fee,
            priority,
            health,
        } = candidate;
        let Health {
            status,
            success,
            latency,
            samples,
        } = health;
        self.text(id.as_str());
        self.optional(minimum.map(|amount| amount.0));
        self.optional(maximum.map(|amount| amount.0));
        self.optional(fee.map(|amount| amount.0));
        self.0.update(priority.to_le_bytes());
        self.number(match status {
            Availability::Operational => 0,
            Availability::Degraded => 1,
            Availability::Down => 2,
            Availability::Stale => 3,
        });
        self.optional(success.map(u64::from));
        self.optional(latency.map(u64::from));
        self.number(u64::from(*samples));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use kassette_domain::id::AccountId;
    use kassette_domain::money::{Currency, Minor};
    use kassette_domain::time::Time;

    use super::*;

    fn candidate(id: &str) -> AccountCandidate {
        AccountCandidate {
            id: AccountId::parse(id).unwrap(),
            minimum: None,
            maximum: None,
            fee: Some(Minor(29)),
            priority: 0,
            health: Health {
                status: Availability::Operational,
                success: None,
                latency: Some(200),
                samples: 7,
            },
        }
    }

    fn context() -> Context {
        Context {
            amount: Some(Minor(1234)),
            currency: Currency::EUR,
            usd: Some(Minor(1300)),
            environment: Environment::Test,
            email_known: true,
            country: Some("NL".into()),
            now: Time::from_secs(1_795_000_000),
            settings: vec![("order".into(), "cost".into())],
            candidates: vec![candidate("a"), candidate("b")],
        }
    }

    fn drawn(context: &Context) -> [u8; 40] {
        let mut bytes = [0; 40];
        SeededRandom::new(context).fill(&mut bytes);
        bytes
    }

    /// Recorded decisions depend on these bytes. If this test fails, decisions of earlier versions can no longer
    /// be replayed.
    #[test]
    fn what_a_context_draws_never_changes() {
        assert_eq!(
            hex::encode(drawn(&context())),
            "6f124f2dfa6e9a6bd56b399355e332a43e46c017c141df4dcf22b21d7de7e58ce0ecbffc65adce39"
        );
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let mut random = SeededRandom::new(&context());
        let mut pieces = [0; 40];
        let (first, rest) = pieces.split_at_mut(3);
        random.fill(first);
        random.fill(rest);
        assert_eq!(pieces, drawn(&context()));
    }

    #[test]
    fn every_field_of_a_context_counts() {
        let change = |change: &dyn Fn(&mut Context)| {
            let mut other = context();
            change(&mut other);
            drawn(&other)
        };
        let all = [
            drawn(&context()),
            change(&|c| c.amount = Some(Minor(1235))),
            change(&|c| c.amount = None),
            change(&|c| c.currency = Currency::USD),
            change(&|c| c.usd = None),
            change(&|c| c.environment = Environment::Live),
            change(&|c| c.email_known = false),
            change(&|c| c.country = None),
            change(&|c| c.country = Some(String::new())),
            change(&|c| c.now = Time::from_millis(c.now.as_millis() + 1)),
            change(&|c| c.settings.clear()),
            change(&|c| c.settings[0] = ("orde".into(), "rcost".into())),
            change(&|c| c.candidates.truncate(1)),
            change(&|c| c.candidates[0].minimum = Some(Minor(1))),
            change(&|c| c.candidates[0].maximum = Some(Minor(1))),
            change(&|c| c.candidates[0].fee = None),
            change(&|c| c.candidates[0].priority = -1),
            change(&|c| c.candidates[0].health.status = Availability::Degraded),
            change(&|c| c.candidates[0].health.success = Some(990)),
            change(&|c| c.candidates[0].health.latency = None),
            change(&|c| c.candidates[0].health.samples = 8),
        ];
        let different: HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn the_order_of_candidates_means_nothing() {
        let mut other = context();
        other.candidates.reverse();
        assert_eq!(drawn(&other), drawn(&context()));
    }
}
