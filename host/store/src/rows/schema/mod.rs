//! The schema: one tree, and in it a prefix for each kind of row.
//!
//! | prefix | key | value |
//! |---|---|---|
//! | `meta/` | a name | format, canary, mark key, counters, the last group, the audit chain's end, probe, progress of retention, expiry of freed nonces, totals of the routing log, state of the ledger |
//! | `pay/` | payment | the payment, sealed parts, book-keeping |
//! | `att/` | payment, ordinal | an attempt, sealed parts |
//! | `atx/` | attempt | payment, ordinal |
//! | `reg/` | position | some payments in order of arrival, with their lookup keys: see `payment_index` |
//! | `rtn/` | half of the hash of the return token | payment, ordinal |
//! | `ref/` | account, provider's reference | payment, ordinal |
//! | `fnd/` | half of the hash of a reference, time, payment, ordinal | – ; attempts by references for searching |
//! | `mrk/` | keyed hash of a mailbox, last four digits or a dispute's id, time, payment | – ; erased with the person |
//! | `due/` | time, payment; or time, position, number: payments made together | – |
//! | `lag/` | time, rule, payment | – ; payments that were not over when they were to be forgotten |
//! | `use/` | account, attempt | – |
//! | `rfi/` | refund | payment, ordinal of its attempt |
//! | `rfk/` | origin, merchant or reseller, environment, idempotency key | the refund that the key ordered |
//! | `tml/` | payment, kind, ordinal | a line of the timeline |
//! | `evt/` | payment, ordinal | an event |
//! | `evx/` | event | payment, ordinal, kind |
//! | `evl/` | merchant, environment, time, event | payment, ordinal, kind |
//! | `prk/`, `pkx/`, `pkc/` | pending callbacks, their ends, their number per account | |
//! | `wrk/`, `wro/`, `wrx/`, `wra/` | the work list: all items, open ones, by id, by subject | |
//! | `mer/` | merchant | a merchant |
//! | `mov/` | payment or zeros, movement | a movement of money |
//! | `mvt/` | booking time, movement, payment or zeros | – |
//! | `nts/` | payment | its notes, sealed |
//! | `non/` | time, group | nonces that the group has taken, the last of them until then: see `taken_nonces` |
//! | `key/`, `kid/`, `kow/`, `ksn/` | API keys by hash, by id, by owner; when they were last seen | |
//! | `opr/`, `oid/`, `otm/` | operators by hash, by id, newest first | |
//! | `swt/` | account | whether it is enabled |
//! | `aud/` | number | a line of the audit log |
//! | `rlg/` | slot's name, time, number | entries of the routing log, sealed |
//! | `rlt/` | time, number, slot's name | number and size of these entries |
//! | `trl/` | slot | counts of its latest trial |
//!
//! The rows of webhooks are in `webhooks`, of resellers in `resellers`, of the connect exchange in `connect`.
//!
//! Numbers are big-endian, so that keys are in order. "Newest first" is a time that counts down.

pub(crate) mod connect;
pub(crate) mod resellers;
pub(crate) mod webhooks;

use kassette_domain::id::{
    AccountId, AttemptId, Digest, EventId, KeyId, MerchantId, MovementId, OperatorId, PaymentId,
    RefundId, Slot, SlotKind, WorkId,
};
use kassette_domain::key::{Environment, KeyOwner, TokenHash};
use kassette_domain::method::MethodId;
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::{Origin, Payment};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::time::Time;
use kassette_domain::work::WorkKey;

pub(crate) use kassette_engine::Key;

use crate::rows::seal::SearchMark;

/// A payment's number in order of arrival, from 0.
pub(crate) type Position = u32;

pub(crate) const FORMAT: &[u8] = b"meta/format";
pub(crate) const CANARY: &[u8] = b"meta/canary";
pub(crate) const MARK: &[u8] = b"meta/mark";
pub(crate) const MERCHANT_COUNT: &[u8] = b"meta/merchants";
pub(crate) const AUDIT_END: &[u8] = b"meta/audit";
pub(crate) const NONCES_FREED: &[u8] = b"meta/nonces";
pub(crate) const ROUTING_LOG: &[u8] = b"meta/routing";
pub(crate) const LEDGER: &[u8] = b"meta/ledger";

pub(crate) const PAYMENTS: &[u8] = b"pay/";
pub(crate) const ATTEMPT_IDS: &[u8] = b"atx/";
pub(crate) const REFUND_IDS: &[u8] = b"rfi/";
pub(crate) const EVENT_IDS: &[u8] = b"evx/";
pub(crate) const PAYMENT_INDEX: &[u8] = b"reg/";
pub(crate) const RETENTION: &[u8] = b"meta/retention";
pub(crate) const LAGGARDS: &[u8] = b"lag/";
pub(crate) const TIMERS: &[u8] = b"due/";
pub(crate) const IN_USE: &[u8] = b"use/";
pub(crate) const REFERENCES: &[u8] = b"ref/";
pub(crate) const PENDING_CALLBACK_ENDS: &[u8] = b"pkx/";
pub(crate) const ALL_WORK: &[u8] = b"wrk/";
pub(crate) const OPEN_WORK: &[u8] = b"wro/";
pub(crate) const MERCHANTS: &[u8] = b"mer/";
pub(crate) const MOVEMENTS: &[u8] = b"mov/";
pub(crate) const MOVEMENTS_BY_TIME: &[u8] = b"mvt/";
pub(crate) const NONCES: &[u8] = b"non/";
pub(crate) const API_KEYS: &[u8] = b"key/";
pub(crate) const OPERATORS: &[u8] = b"otm/";
pub(crate) const SWITCHES: &[u8] = b"swt/";
pub(crate) const AUDIT: &[u8] = b"aud/";
pub(crate) const ROUTING_BATCHES: &[u8] = b"rlg/";
pub(crate) const ROUTING_BY_TIME: &[u8] = b"rlt/";
pub(crate) const TRIALS: &[u8] = b"trl/";

fn key(parts: &[&[u8]]) -> Key {
    parts.concat()
}

/// Counts down, so that the newest comes first.
const fn newest_first(at: Time) -> [u8; 8] {
    (u64::MAX - at.as_millis()).to_be_bytes()
}

const fn ascending(at: Time) -> [u8; 8] {
    at.as_millis().to_be_bytes()
}

/// The last 16 bytes of an index key: the id that it refers to.
pub(crate) fn trailing_id(key: &[u8]) -> Option<[u8; 16]> {
    key.last_chunk().copied()
}

/// The time in a key of `due/`, `non/`, `pkx/` or `rlt/`.
pub(crate) fn leading_time(key: &[u8], prefix: &[u8]) -> Option<Time> {
    let time = key.strip_prefix(prefix)?.first_chunk()?;
    Some(Time::from_millis(u64::from_be_bytes(*time)))
}

pub(crate) fn payment(id: PaymentId) -> Key {
    key(&[PAYMENTS, id.as_bytes()])
}

/// The payment in a key of `pay/`.
pub(crate) fn payment_id(key: &[u8]) -> Option<PaymentId> {
    let id = key.strip_prefix(PAYMENTS)?.try_into().ok()?;
    Some(PaymentId::from_bytes(id))
}

pub(crate) fn attempt(payment: PaymentId, ordinal: u8) -> Key {
    key(&[b"att/", payment.as_bytes(), &[ordinal]])
}

/// The payment in a key of `att/`.
pub(crate) fn payment_of_attempt(key: &[u8]) -> Option<PaymentId> {
    let (_, id) = key.strip_prefix(b"att/")?.split_last()?;
    Some(PaymentId::from_bytes(id.try_into().ok()?))
}

pub(crate) fn attempt_index(id: AttemptId) -> Key {
    key(&[ATTEMPT_IDS, id.as_bytes()])
}

pub(crate) fn refund_index(id: RefundId) -> Key {
    key(&[REFUND_IDS, id.as_bytes()])
}

/// Keys of refunds are unique in an environment per merchant, per reseller, and per merchant among operators.
pub(crate) fn refund_by_key(
    payment: &Payment,
    origin: RefundOrigin,
    idempotency_key: &IdempotencyKey,
) -> Key {
    let (space, owner) = match (origin, &payment.origin) {
        (RefundOrigin::Reseller, Origin::Reseller { reseller, .. }) => (b"r", reseller.0),
        (RefundOrigin::Operator, _) => (b"o", payment.merchant.0),
        _ => (b"m", payment.merchant.0),
    };
    let idempotency_key = idempotency_key.as_str().as_bytes();
    key(&[
        b"rfk/",
        space,
        &owner.to_be_bytes(),
        world(payment.environment),
        idempotency_key,
    ])
}

/// The same key for an ordered refund. `None` for a refund without one.
pub(crate) fn key_of_refund(payment: &Payment, refund: &Refund) -> Option<Key> {
    let key = refund.ordered.as_ref()?.key.as_ref()?;
    Some(refund_by_key(payment, refund.origin, key))
}

/// The byte of an environment in keys.
const fn world(environment: Environment) -> &'static [u8] {
    match environment {
        Environment::Test => b"t",
        Environment::Live => b"l",
    }
}

pub(crate) fn payment_index(first: Position) -> Key {
    key(&[PAYMENT_INDEX, &first.to_be_bytes()])
}

/// The position of the first payment in a row of `reg/`, from its key.
pub(crate) fn payment_index_first(key: &[u8]) -> Option<Position> {
    let first = key.strip_prefix(PAYMENT_INDEX)?.try_into().ok()?;
    Some(Position::from_be_bytes(first))
}

/// By half of the hash, which is unique too; the reader compares the whole hash.
pub(crate) fn returning(token: TokenHash) -> Key {
    let (half, _) = token.0.split_at(16);
    key(&[b"rtn/", half])
}

/// An account's id contains no zero byte, so that the rest is the reference.
pub(crate) fn reference(account: &AccountId, reference: &str) -> Key {
    key(&[
        REFERENCES,
        account.as_str().as_bytes(),
        b"\0",
        reference.as_bytes(),
    ])
}

/// Prefix of the rows of all payments with a reference, at any account.
pub(crate) fn all_referred(reference: &str) -> Key {
    let hash = Digest::hash(reference.as_bytes()).0;
    let (half, _) = hash.split_at(16);
    key(&[b"fnd/", half])
}

/// Prefix of the rows of a payment with a reference, in order of time: one row for each attempt that has the
/// reference only for searching.
pub(crate) fn referred(reference: &str, created_at: Time, payment: PaymentId) -> Key {
    key(&[
        &all_referred(reference),
        &ascending(created_at),
        payment.as_bytes(),
    ])
}

pub(crate) fn referred_by(
    reference: &str,
    created_at: Time,
    payment: PaymentId,
    ordinal: u8,
) -> Key {
    key(&[&referred(reference, created_at, payment), &[ordinal]])
}

/// Prefix of the rows of all payments with a mark.
pub(crate) fn all_marked(mark: SearchMark) -> Key {
    key(&[b"mrk/", &mark])
}

/// First possible key of a payment with a mark that was created at a time or later.
pub(crate) fn marked_since(mark: SearchMark, created_at: Time) -> Key {
    key(&[&all_marked(mark), &ascending(created_at)])
}

/// A payment with a mark, in order of time.
pub(crate) fn marked(mark: SearchMark, created_at: Time, payment: PaymentId) -> Key {
    key(&[&marked_since(mark, created_at), payment.as_bytes()])
}

pub(crate) fn timer(at: Time, payment: PaymentId) -> Key {
    key(&[TIMERS, &ascending(at), payment.as_bytes()])
}

/// Prefix of the keys of `due/` at a time.
pub(crate) fn timers_since(at: Time) -> Key {
    key(&[TIMERS, &ascending(at)])
}

/// Payments that were created together, at the earliest of their due times.
pub(crate) fn shared_timer(at: Time, first: Position, count: u16) -> Key {
    key(&[
        TIMERS,
        &ascending(at),
        &first.to_be_bytes(),
        &count.to_be_bytes(),
    ])
}

/// The payments of a row of `due/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOf {
    One(PaymentId),
    Shared { first: Position, count: u16 },
}

/// Reads the payments from a key of `due/`.
pub(crate) fn timer_about(key: &[u8]) -> Option<TimerOf> {
    let about = key.get(TIMERS.len() + 8..)?;
    if let Ok(id) = <[u8; 16]>::try_from(about) {
        return Some(TimerOf::One(PaymentId::from_bytes(id)));
    }
    let (first, count) = about.split_first_chunk()?;
    Some(TimerOf::Shared {
        first: Position::from_be_bytes(*first),
        count: u16::from_be_bytes(count.try_into().ok()?),
    })
}

/// A payment that a rule examines again.
pub(crate) fn laggard(at: Time, rule: u8, payment: PaymentId) -> Key {
    key(&[LAGGARDS, &ascending(at), &[rule], payment.as_bytes()])
}

/// The rule and the payment in a key of `lag/`.
pub(crate) fn laggard_about(key: &[u8]) -> Option<(u8, PaymentId)> {
    let (rule, payment) = key.get(LAGGARDS.len() + 8..)?.split_first()?;
    Some((*rule, PaymentId::from_bytes(payment.try_into().ok()?)))
}

pub(crate) fn in_use(account: &AccountId, attempt: AttemptId) -> Key {
    key(&[
        IN_USE,
        account.as_str().as_bytes(),
        b"\0",
        attempt.as_bytes(),
    ])
}

/// The kinds of lines in a timeline.
#[derive(Clone, Copy)]
pub(crate) enum Line {
    Decision,
    Transition,
}

pub(crate) fn lines(payment: PaymentId, line: Line) -> Key {
    let tag: &[u8] = match line {
        Line::Decision => b"d",
        Line::Transition => b"t",
    };
    key(&[b"tml/", payment.as_bytes(), tag])
}

pub(crate) fn line(payment: PaymentId, line: Line, ordinal: u16) -> Key {
    key(&[&lines(payment, line), &ordinal.to_be_bytes()])
}

pub(crate) fn events(payment: PaymentId) -> Key {
    key(&[b"evt/", payment.as_bytes()])
}

pub(crate) fn event(payment: PaymentId, ordinal: u16) -> Key {
    key(&[&events(payment), &ordinal.to_be_bytes()])
}

pub(crate) fn event_index(id: EventId) -> Key {
    key(&[EVENT_IDS, id.as_bytes()])
}

/// The payment and the number in a key of `evt/`.
pub(crate) fn event_of(key: &[u8]) -> Option<(PaymentId, u16)> {
    let (id, ordinal) = key.strip_prefix(b"evt/")?.split_first_chunk()?;
    let ordinal = u16::from_be_bytes(ordinal.try_into().ok()?);
    Some((PaymentId::from_bytes(*id), ordinal))
}

/// Prefix of a merchant's events in an environment, in order of time.
pub(crate) fn listed_events(merchant: MerchantId, environment: Environment) -> Key {
    key(&[b"evl/", &merchant.0.to_be_bytes(), world(environment)])
}

/// First possible key of these events from a time on.
pub(crate) fn listed_events_since(
    merchant: MerchantId,
    environment: Environment,
    since: Time,
) -> Key {
    key(&[&listed_events(merchant, environment), &ascending(since)])
}

pub(crate) fn listed_event(
    merchant: MerchantId,
    environment: Environment,
    created_at: Time,
    id: EventId,
) -> Key {
    let since = listed_events_since(merchant, environment, created_at);
    key(&[&since, id.as_bytes()])
}

/// Prefix of all callbacks pending for a reference. It contains the length of the reference, so that no
/// prefix contains another.
pub(crate) fn pending_callbacks_for(account: &AccountId, reference: &str) -> Key {
    let length = u32::try_from(reference.len()).unwrap_or(u32::MAX);
    key(&[
        b"prk/",
        account.as_str().as_bytes(),
        b"\0",
        &length.to_be_bytes(),
        reference.as_bytes(),
    ])
}

pub(crate) fn pending_callback(account: &AccountId, reference: &str, ordinal: u32) -> Key {
    key(&[
        &pending_callbacks_for(account, reference),
        &ordinal.to_be_bytes(),
    ])
}

pub(crate) fn pending_callback_end(until: Time, callback: &[u8]) -> Key {
    key(&[PENDING_CALLBACK_ENDS, &ascending(until), callback])
}

/// The row of `prk/` that a key of `pkx/` refers to.
pub(crate) fn pending_callback_of_end(end: &[u8]) -> Option<&[u8]> {
    end.get(PENDING_CALLBACK_ENDS.len() + 8..)
}

pub(crate) fn pending_callback_count(account: &[u8]) -> Key {
    key(&[b"pkc/", account])
}

/// The account in a key of `prk/`, `ref/` or `use/`.
pub(crate) fn account_in(key: &[u8]) -> Option<&[u8]> {
    key.get(4..)?.split(|byte| *byte == 0).next()
}

pub(crate) fn work(opened_at: Time, id: WorkId) -> Key {
    key(&[ALL_WORK, &newest_first(opened_at), id.as_bytes()])
}

pub(crate) fn open_work(opened_at: Time, id: WorkId) -> Key {
    key(&[OPEN_WORK, &newest_first(opened_at), id.as_bytes()])
}

/// The row of `wrk/` that a key of `wro/` refers to.
pub(crate) fn work_of_open(open: &[u8]) -> Key {
    key(&[ALL_WORK, open.get(OPEN_WORK.len()..).unwrap_or_default()])
}

pub(crate) fn work_index(id: WorkId) -> Key {
    key(&[b"wrx/", id.as_bytes()])
}

pub(crate) fn work_about(about: &WorkKey) -> Key {
    key(&[
        b"wra/",
        about.attempt.as_bytes(),
        &[about.kind as u8],
        about.subject.as_bytes(),
    ])
}

/// Replaces the payment in movements without one.
const NO_PAYMENT: [u8; 16] = [0; 16];

pub(crate) fn notes(payment: PaymentId) -> Key {
    key(&[b"nts/", payment.as_bytes()])
}

/// Prefix of the movements of a payment, or of those without a payment.
pub(crate) fn movements(payment: Option<PaymentId>) -> Key {
    let owner = payment.map_or(NO_PAYMENT, |payment| *payment.as_bytes());
    key(&[MOVEMENTS, &owner])
}

pub(crate) fn movement(payment: Option<PaymentId>, id: MovementId) -> Key {
    key(&[&movements(payment), id.as_bytes()])
}

/// The payment and the movement in a key of `mov/`.
pub(crate) fn movement_of(key: &[u8]) -> Option<(Option<PaymentId>, MovementId)> {
    let (owner, id) = key.strip_prefix(MOVEMENTS)?.split_first_chunk()?;
    let payment = (*owner != NO_PAYMENT).then(|| PaymentId::from_bytes(*owner));
    Some((payment, MovementId::from_bytes(id.try_into().ok()?)))
}

/// First possible key of `mvt/` from a booking time on.
pub(crate) fn movements_since(booked_at: Time) -> Key {
    key(&[MOVEMENTS_BY_TIME, &ascending(booked_at)])
}

/// The index key of a movement by booking time.
pub(crate) fn movement_by_time(booked_at: Time, movement: &[u8]) -> Key {
    let about = movement.get(MOVEMENTS.len()..).unwrap_or_default();
    let (owner, id) = about.split_at_checked(16).unwrap_or_default();
    key(&[&movements_since(booked_at), id, owner])
}

/// The row of `mov/` that a key of `mvt/` refers to.
pub(crate) fn movement_of_time(by_time: &[u8]) -> Key {
    let about = by_time.get(MOVEMENTS_BY_TIME.len() + 8..);
    let (id, owner) = about
        .and_then(|about| about.split_at_checked(16))
        .unwrap_or_default();
    key(&[MOVEMENTS, owner, id])
}

pub(crate) fn merchant(id: MerchantId) -> Key {
    key(&[MERCHANTS, &id.0.to_be_bytes()])
}

/// Nonces of a group. The last one expires at `end`.
pub(crate) fn nonces(end: Time, group: u64) -> Key {
    key(&[NONCES, &ascending(end), &group.to_be_bytes()])
}

/// First possible key of `non/` at a time.
pub(crate) fn nonces_since(end: Time) -> Key {
    key(&[NONCES, &ascending(end)])
}

pub(crate) fn api_key(hash: TokenHash) -> Key {
    key(&[API_KEYS, &hash.0])
}

pub(crate) fn api_key_index(id: KeyId) -> Key {
    key(&[b"kid/", id.as_bytes()])
}

/// The row of the owner of a key or an endpoint.
pub(crate) fn owner(owner: KeyOwner) -> Key {
    match owner {
        KeyOwner::Merchant(id) => merchant(id),
        KeyOwner::Reseller(id) => resellers::reseller(id),
    }
}

/// Finding if that row is missing.
pub(crate) const fn no_owner(owner: KeyOwner) -> &'static str {
    match owner {
        KeyOwner::Merchant(_) => "the merchant whose it is is missing",
        KeyOwner::Reseller(_) => "the reseller whose it is is missing",
    }
}

pub(crate) fn api_keys_of(owner: KeyOwner) -> Key {
    let (tag, number): (&[u8], u64) = match owner {
        KeyOwner::Merchant(id) => (b"m", id.0),
        KeyOwner::Reseller(id) => (b"r", id.0),
    };
    key(&[b"kow/", tag, &number.to_be_bytes()])
}

pub(crate) fn api_key_of(owner: KeyOwner, created_at: Time, id: KeyId) -> Key {
    key(&[
        &api_keys_of(owner),
        &newest_first(created_at),
        id.as_bytes(),
    ])
}

pub(crate) fn api_key_seen(hash: TokenHash) -> Key {
    key(&[b"ksn/", &hash.0])
}

pub(crate) fn operator(hash: TokenHash) -> Key {
    key(&[b"opr/", &hash.0])
}

pub(crate) fn operator_index(id: OperatorId) -> Key {
    key(&[b"oid/", id.as_bytes()])
}

pub(crate) fn operator_by_time(created_at: Time, id: OperatorId) -> Key {
    key(&[OPERATORS, &newest_first(created_at), id.as_bytes()])
}

pub(crate) fn switch(account: &AccountId) -> Key {
    key(&[SWITCHES, account.as_str().as_bytes()])
}

/// The account in a key of `swt/`.
pub(crate) fn account_of_switch(key: &[u8]) -> Option<AccountId> {
    AccountId::parse(std::str::from_utf8(key.strip_prefix(SWITCHES)?).ok()?).ok()
}

/// A change of a slot that nodes share. Only stores on PostgreSQL have such rows.
pub(crate) fn slot_change(number: u64) -> Key {
    key(&[b"slt/", &number.to_be_bytes()])
}

pub(crate) fn audit(id: u64) -> Key {
    key(&[AUDIT, &id.to_be_bytes()])
}

/// The number in a key of `aud/`.
pub(crate) fn audit_number(key: &[u8]) -> Option<u64> {
    let number = key.strip_prefix(AUDIT)?.first_chunk()?;
    Some(u64::from_be_bytes(*number))
}

/// Name of a slot's part of the routing log. A method's is its own name, as before provider slots existed.
pub(crate) fn routing_name(slot: &Slot) -> &str {
    match slot.kind() {
        SlotKind::Method => slot.name(),
        SlotKind::Provider => slot.as_str(),
    }
}

/// The slot of a part of the routing log.
pub(crate) fn slot_of_routing(name: &str) -> Option<Slot> {
    Slot::parse(name).or_else(|| MethodId::parse(name).map(Slot::of_method))
}

/// Prefix of a slot's batches. The slot's name contains no zero byte.
pub(crate) fn routing_batches(slot: &Slot) -> Key {
    key(&[ROUTING_BATCHES, routing_name(slot).as_bytes(), b"\0"])
}

pub(crate) fn routing_batch(slot: &Slot, at: Time, number: u64) -> Key {
    key(&[
        &routing_batches(slot),
        &ascending(at),
        &number.to_be_bytes(),
    ])
}

/// The slot, the time and the number in a key of `rlg/`.
pub(crate) fn routing_batch_of(key: &[u8]) -> Option<(Slot, Time, u64)> {
    let (rest, number) = key.strip_prefix(ROUTING_BATCHES)?.split_last_chunk()?;
    let (rest, at) = rest.split_last_chunk()?;
    let slot = slot_of_routing(std::str::from_utf8(rest.strip_suffix(b"\0")?).ok()?)?;
    let at = Time::from_millis(u64::from_be_bytes(*at));
    Some((slot, at, u64::from_be_bytes(*number)))
}

pub(crate) fn routing_by_time(at: Time, number: u64, slot: &Slot) -> Key {
    key(&[
        ROUTING_BY_TIME,
        &ascending(at),
        &number.to_be_bytes(),
        routing_name(slot).as_bytes(),
    ])
}

/// The row of `rlg/` that a key of `rlt/` refers to.
pub(crate) fn routing_batch_by_time(key: &[u8]) -> Option<Key> {
    let (at, rest) = key.strip_prefix(ROUTING_BY_TIME)?.split_first_chunk()?;
    let (number, name) = rest.split_first_chunk()?;
    let at = Time::from_millis(u64::from_be_bytes(*at));
    Some(routing_batch(
        &slot_of_routing(std::str::from_utf8(name).ok()?)?,
        at,
        u64::from_be_bytes(*number),
    ))
}

pub(crate) fn trial(slot: &Slot) -> Key {
    key(&[TRIALS, slot.as_str().as_bytes()])
}

/// The slot in a key of `trl/`.
pub(crate) fn slot_of_trial(key: &[u8]) -> Option<Slot> {
    Slot::parse(std::str::from_utf8(key.strip_prefix(TRIALS)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_stands_in_order_of_time() {
        let id = PaymentId::from_bytes([9; 16]);
        let (early, late) = (Time::from_secs(1), Time::from_secs(2));
        let together = shared_timer(late, 7, 3);
        assert!(timer(early, id) < together && together < timer(Time::from_secs(3), id));
        assert_eq!(leading_time(&timer(late, id), TIMERS), Some(late));
        assert_eq!(leading_time(&together, TIMERS), Some(late));
        assert_eq!(timer_about(&timer(late, id)), Some(TimerOf::One(id)));
        let about = TimerOf::Shared { first: 7, count: 3 };
        assert_eq!(timer_about(&together), Some(about));
        assert_eq!(timer_about(&together[..17]), None);
    }

    #[test]
    fn batches_of_the_routing_log_stand_in_order_of_time_and_number() {
        let (early, late) = (Time::from_secs(1), Time::from_secs(2));
        let keys = [(early, 9), (late, 1), (late, 2)];
        for slot in ["method.ideal", "provider.ideal"] {
            let slot = Slot::parse(slot).unwrap();
            let batches = keys.map(|(at, number)| routing_batch(&slot, at, number));
            assert!(batches.is_sorted());
            for ((at, number), batch) in keys.into_iter().zip(batches) {
                assert_eq!(routing_batch_of(&batch), Some((slot.clone(), at, number)));
                let by_time = routing_by_time(at, number, &slot);
                assert_eq!(leading_time(&by_time, ROUTING_BY_TIME), Some(at));
                assert_eq!(routing_batch_by_time(&by_time), Some(batch));
            }
        }
        let slots = ["method.pay", "method.paypal", "provider.pay"];
        let [short, long, provider] = slots.map(|slot| Slot::parse(slot).unwrap());
        for other in [long, provider] {
            assert!(!routing_batch(&other, early, 0).starts_with(&routing_batches(&short)));
        }
    }

    #[test]
    fn no_reference_is_anothers_prefix() {
        let account = AccountId::parse("sandbox-test").unwrap();
        assert!(
            !pending_callback(&account, "ab", 0).starts_with(&pending_callbacks_for(&account, "a"))
        );
        assert_eq!(
            account_in(&pending_callback(&account, "x", 1)),
            Some(&b"sandbox-test"[..])
        );
        let until = Time::from_secs(3);
        let row = pending_callback(&account, "x", 1);
        assert_eq!(
            pending_callback_of_end(&pending_callback_end(until, &row)),
            Some(&row[..])
        );
    }
}
