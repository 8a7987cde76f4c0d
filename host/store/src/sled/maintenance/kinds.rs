//! Every kind of row in one table: backups, `verify` and `rekey` go by it. A row that fits no entry
//! is damage, so a new kind of row needs one entry here and nothing else.

use kassette_domain::id::{InvitationId, WorkId};
use kassette_domain::key::TokenHash;
use kassette_domain::time::Time;
use kassette_engine::IVec;

use super::checks;
use super::connect_checks;
use super::hook_checks;
use super::judge::Judge;
use super::reseal;
use super::reseller_checks;
use crate::Fault;
use crate::sled::memory::View;
use crate::sled::open::this_format;
use crate::sled::payment_index::Entry;
use crate::sled::records;
use crate::sled::schema::{self, Key};
use crate::sled::seal::Sealer;
use crate::sled::stored::{AllReached, AttemptKey, EventRow, previous};
use crate::sled::{endpoints, invitation_rows};
use kassette_engine::Memtable;
use kassette_engine::Span;

/// Looks at one row: whether it decodes, opens and fits the rest. What is wrong with the row itself
/// is the error; everything else is told to the judge.
pub(super) type Check = fn(&mut Judge<'_>, &[u8], &IVec) -> Result<(), Fault>;

/// Seals anew what stands sealed in a row: from one key to another.
pub(super) type Reseal = fn(&Sealer, &Sealer, &[u8], &[u8]) -> Result<IVec, Fault>;

/// Writes a row of the layout before in this one; the rows are the old ones.
pub(super) type Migrate = fn(&Memtable, &[u8], &[u8]) -> Result<IVec, Fault>;

/// Whether rows of a kind follow from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derived {
    /// No: they are what is kept.
    Not,
    /// Each key is promised by exactly one other row.
    Key,
    /// So is each value.
    Row,
}

/// A kind of row.
pub(super) struct Kind {
    /// Its number in backups: never given to another kind, never changed.
    pub(super) tag: u8,
    /// Its name there.
    pub(super) name: &'static str,
    /// What its keys begin with.
    pub(super) prefix: &'static [u8],
    /// Whether its rows follow from others.
    pub(super) derived: Derived,
    /// What must hold of a row.
    pub(super) check: Check,
    /// How its secrets change to another master key, where it has any.
    pub(super) reseal: Option<Reseal>,
    /// How it comes from the layout before, where that was another.
    pub(super) migrate: Option<Migrate>,
}

const fn own(tag: u8, name: &'static str, prefix: &'static [u8], check: Check) -> Kind {
    Kind {
        tag,
        name,
        prefix,
        derived: Derived::Not,
        check,
        reseal: None,
        migrate: None,
    }
}

impl Kind {
    /// With secrets.
    const fn sealing(mut self, reseal: Reseal) -> Self {
        self.reseal = Some(reseal);
        self
    }

    /// Written otherwise in the layout before.
    const fn migrated_by(mut self, migrate: Migrate) -> Self {
        self.migrate = Some(migrate);
        self
    }

    /// Promised by other rows.
    const fn following(mut self, derived: Derived) -> Self {
        self.derived = derived;
        self
    }
}

/// All kinds, in the order of their prefixes.
pub(super) const KINDS: &[Kind] = &[
    own(1, "attempt", b"att/", checks::attempt)
        .sealing(reseal::attempt)
        .migrated_by(previous::attempt)
        .following(Derived::Key),
    own(2, "attempt-by-id", b"atx/", checks::plain::<AttemptKey>).following(Derived::Row),
    own(3, "audit-line", b"aud/", checks::audit),
    own(59, "consent-code", b"cns/", reseller_checks::consent),
    own(
        60,
        "consent-code-end",
        schema::resellers::CONSENT_ENDS,
        checks::empty,
    )
    .following(Derived::Key),
    own(
        80,
        "connect-code",
        schema::connect::CODES,
        connect_checks::code,
    ),
    own(
        81,
        "connect-code-end",
        schema::connect::CODE_ENDS,
        checks::empty,
    )
    .following(Derived::Key),
    own(
        82,
        "connect-code-by-merchant",
        schema::connect::CODES_OF,
        checks::plain::<TokenHash>,
    )
    .following(Derived::Row),
    own(
        83,
        "connection",
        schema::connect::CONNECTIONS,
        connect_checks::connection,
    ),
    own(4, "webhook-event", b"dlb/", hook_checks::body),
    own(5, "delivery-due", schema::webhooks::DUE, checks::empty).following(Derived::Key),
    own(6, "delivery-by-endpoint", b"dle/", checks::empty).following(Derived::Key),
    own(7, "delivery-failed", b"dlf/", checks::plain::<bool>).following(Derived::Key),
    own(
        61,
        "delegation",
        schema::resellers::DELEGATIONS,
        reseller_checks::delegation,
    ),
    own(8, "delivery-response", b"dlr/", checks::plain::<String>).following(Derived::Key),
    own(
        9,
        "delivery",
        schema::webhooks::DELIVERIES,
        hook_checks::delivery,
    ),
    own(10, "due", schema::TIMERS, checks::due),
    own(11, "event", b"evt/", checks::plain::<EventRow>).following(Derived::Key),
    own(71, "reference-for-search", b"fnd/", checks::empty).following(Derived::Key),
    own(
        62,
        "invitation",
        schema::resellers::INVITATIONS,
        reseller_checks::invitation,
    )
    .sealing(invitation_rows::reseal),
    own(
        63,
        "invitation-count",
        schema::resellers::INVITED,
        reseller_checks::invited,
    ),
    own(
        64,
        "invitation-by-reference",
        b"ivr/",
        checks::plain::<InvitationId>,
    )
    .following(Derived::Row),
    own(
        65,
        "invitation-by-token",
        b"ivt/",
        checks::plain::<InvitationId>,
    )
    .following(Derived::Row),
    own(12, "api-key", b"key/", checks::api_key),
    own(13, "api-key-by-id", b"kid/", checks::plain::<TokenHash>).following(Derived::Row),
    own(14, "api-key-by-owner", b"kow/", checks::plain::<TokenHash>).following(Derived::Row),
    own(15, "api-key-seen", b"ksn/", checks::api_key_seen),
    own(16, "retention-laggard", schema::LAGGARDS, checks::laggard),
    own(17, "merchant", b"mer/", checks::merchant),
    own(
        18,
        "audit-end",
        schema::AUDIT_END,
        checks::plain::<(u64, [u8; 32])>,
    ),
    own(19, "canary", schema::CANARY, checks::canary).sealing(reseal::whole::<String>),
    own(20, "format", schema::FORMAT, checks::format).migrated_by(|_, _, _| Ok(this_format())),
    own(21, "last-group", schema::GROUP, checks::plain::<u64>),
    own(22, "mark-key", schema::MARK, checks::mark).sealing(reseal::whole::<[u8; 32]>),
    own(
        23,
        "merchant-count",
        schema::MERCHANT_COUNT,
        checks::plain::<u64>,
    ),
    own(
        24,
        "pending-deliveries",
        schema::webhooks::PENDING,
        checks::plain::<u64>,
    ),
    own(25, "probe", schema::PROBE, checks::plain::<u64>),
    own(
        66,
        "reseller-count",
        schema::resellers::COUNT,
        checks::plain::<u64>,
    ),
    own(
        26,
        "retention",
        schema::RETENTION,
        checks::plain::<AllReached>,
    ),
    own(70, "nonces", schema::NONCES, checks::nonces),
    own(27, "operator-by-id", b"oid/", checks::plain::<TokenHash>).following(Derived::Row),
    own(28, "operator", b"opr/", checks::operator),
    own(29, "operator-by-time", b"otm/", checks::plain::<TokenHash>).following(Derived::Row),
    own(30, "payment", schema::PAYMENTS, checks::payment)
        .sealing(reseal::payment)
        .migrated_by(previous::payment),
    own(31, "parked-count", b"pkc/", checks::pending_callback_count),
    own(
        32,
        "parked-end",
        schema::PENDING_CALLBACK_ENDS,
        checks::empty,
    )
    .following(Derived::Key),
    own(33, "parked-notice", b"prk/", checks::pending_callback)
        .migrated_by(previous::pending_callback),
    own(34, "reference", b"ref/", checks::plain::<AttemptKey>).following(Derived::Row),
    own(35, "register", schema::PAYMENT_INDEX, checks::payment_index),
    own(67, "reseller-relation", b"rel/", checks::empty).following(Derived::Key),
    own(68, "payment-by-reseller", b"rpy/", checks::empty).following(Derived::Key),
    own(
        69,
        "reseller",
        schema::resellers::RESELLERS,
        reseller_checks::reseller,
    ),
    own(
        36,
        "attempt-by-return",
        b"rtn/",
        checks::plain::<AttemptKey>,
    )
    .following(Derived::Row),
    own(37, "account-switch", schema::SWITCHES, checks::switch),
    own(38, "timeline", b"tml/", checks::line).following(Derived::Key),
    own(39, "account-in-use", schema::IN_USE, checks::empty).following(Derived::Key),
    own(
        40,
        "endpoint",
        schema::webhooks::ENDPOINTS,
        hook_checks::endpoint,
    )
    .sealing(endpoints::reseal),
    own(41, "endpoint-by-merchant", b"whm/", checks::empty).following(Derived::Key),
    own(42, "endpoint-roster", b"whr/", hook_checks::roster),
    own(
        43,
        "work-by-attempt",
        b"wra/",
        checks::plain::<(Time, WorkId)>,
    )
    .following(Derived::Row),
    own(44, "work", schema::ALL_WORK, checks::work).migrated_by(previous::work),
    own(45, "open-work", schema::OPEN_WORK, checks::empty).following(Derived::Key),
    own(46, "work-by-id", b"wrx/", checks::plain::<Time>).following(Derived::Row),
];

/// How many payments there are, as the payment index's last row says.
pub(super) fn counted_payments(view: &View<'_>) -> Result<u64, Fault> {
    let last = view
        .scan_back(&Span::prefix(schema::PAYMENT_INDEX), 1)?
        .pop();
    let Some((key, row)) = last else {
        return Ok(0);
    };
    payments_until(&key, &row)
}

/// How many payments there are up to the end of a row of the payment index.
pub(super) fn payments_until(key: &[u8], row: &[u8]) -> Result<u64, Fault> {
    let entries: Vec<Entry> = records::decode(key, row)?;
    let first = schema::payment_index_first(key).unwrap_or_default();
    Ok(u64::from(first) + entries.len() as u64)
}

/// The kind of a key, and what follows the kind's prefix.
pub(super) fn find(key: &[u8]) -> Option<(&'static Kind, &[u8])> {
    // The last kind whose prefix is not above the key is the only one that it can begin with.
    let at = KINDS.partition_point(|kind| kind.prefix <= key);
    let kind = KINDS.get(at.checked_sub(1)?)?;
    Some((kind, key.strip_prefix(kind.prefix)?))
}

/// The same for a key that has to have a kind.
pub(super) fn split(key: &[u8]) -> Result<(&'static Kind, &[u8]), Fault> {
    find(key).ok_or_else(|| Fault::Corrupt(format!("a row of no known kind, {}", hex::encode(key))))
}

/// The key of a kind; none where there is no such kind.
pub(super) fn join(tag: u8, rest: &[u8]) -> Option<Key> {
    let kind = KINDS.iter().find(|kind| kind.tag == tag)?;
    Some([kind.prefix, rest].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_stand_in_order_and_none_begins_like_another() {
        for pair in KINDS.windows(2) {
            let [first, second] = pair else {
                unreachable!()
            };
            assert!(first.prefix < second.prefix, "{}", second.name);
            assert!(!second.prefix.starts_with(first.prefix), "{}", second.name);
        }
    }

    #[test]
    fn every_kind_has_a_number_and_a_name_of_its_own() {
        let tags: BTreeSet<u8> = KINDS.iter().map(|kind| kind.tag).collect();
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!((tags.len(), names.len()), (KINDS.len(), KINDS.len()));
    }

    #[test]
    fn a_key_is_found_by_its_prefix_alone() {
        for kind in KINDS {
            let key = join(kind.tag, b"rest").unwrap();
            let (found, rest) = find(&key).unwrap();
            assert_eq!((found.tag, rest), (kind.tag, &b"rest"[..]));
        }
        for unknown in [&b""[..], b"aaa/", b"pay", b"paz/1", b"zzz/1"] {
            assert!(find(unknown).is_none());
        }
    }
}
