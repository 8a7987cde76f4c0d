//! Checks of each kind of row, and of their consistency.

use kassette_domain::id::{RefundId, WorkId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{PaymentAggregate, Transition};
use kassette_domain::payment::{Payment, RoutingDecision};
use kassette_domain::pending_callback::PendingCallback;
use kassette_domain::time::Time;
use kassette_domain::work::WorkItem;
use kassette_engine::{IVec, Span};
use serde::de::DeserializeOwned;

use crate::Fault;
use crate::payment_steps;
use crate::rows::notes;
use crate::rows::records;
use crate::rows::schema::{self, Line, Position};
use crate::rows::seal::Sealer;
use crate::rows::source::RowSource as _;
use crate::rows::stored::{
    self, AllReached, AttemptKey, EventRow, ListedEvent, PaymentCounters, PaymentRow, Timer,
};
use crate::sled::memory::payment_index::Entry;
use crate::sled::memory::payment_index_rows;
use crate::sled::movements;
use crate::sled::payments::aggregates;
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, empty, plain};

/// The kinds of rows of payments.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(1, "attempt", b"att/", attempt)
        .sealing(reseal_attempt)
        .following(Derived::Key),
    Kind::new(2, "attempt-by-id", b"atx/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(10, "due", schema::TIMERS, due),
    Kind::new(11, "event", b"evt/", event).following(Derived::Key),
    Kind::new(101, "event-by-id", schema::EVENT_IDS, plain::<ListedEvent>).following(Derived::Row),
    Kind::new(102, "search-mark", b"mrk/", empty).following(Derived::Key),
    Kind::new(86, "event-by-time", b"evl/", plain::<ListedEvent>).following(Derived::Row),
    Kind::new(71, "reference-for-search", b"fnd/", empty).following(Derived::Key),
    Kind::new(30, "payment", schema::PAYMENTS, payment).sealing(reseal_payment),
    Kind::new(31, "parked-count", b"pkc/", pending_callback_count),
    Kind::new(32, "parked-end", schema::PENDING_CALLBACK_ENDS, empty).following(Derived::Key),
    Kind::new(33, "parked-notice", b"prk/", pending_callback),
    Kind::new(34, "reference", b"ref/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(96, "notes", b"nts/", notes_row)
        .sealing(notes::reseal)
        .following(Derived::Key),
    Kind::new(35, "payment index", schema::PAYMENT_INDEX, payment_index),
    Kind::new(84, "refund-by-id", b"rfi/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(85, "refund-by-key", b"rfk/", plain::<RefundId>).following(Derived::Row),
    Kind::new(36, "attempt-by-return", b"rtn/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(38, "timeline", b"tml/", line).following(Derived::Key),
    Kind::new(39, "account-in-use", schema::IN_USE, empty).following(Derived::Key),
    Kind::new(43, "work-by-attempt", b"wra/", plain::<(Time, WorkId)>).following(Derived::Row),
    Kind::new(44, "work", schema::ALL_WORK, work),
    Kind::new(45, "open-work", schema::OPEN_WORK, empty).following(Derived::Key),
    Kind::new(46, "work-by-id", b"wrx/", plain::<Time>).following(Derived::Row),
];

/// Checks a row of the payment index: payments in order of arrival, each of which promises its own row.
fn payment_index(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let entries: Vec<Entry> = records::decode(&verifier.secrets.sealer, key, row)?;
    if !verifier.is_second() {
        let expected = verifier.indexed;
        if key != schema::payment_index(expected)
            || !(expected as usize).is_multiple_of(payment_index_rows::FULL)
        {
            verifier.find(key, "rows of the payment index before it are missing");
        }
        let first = schema::payment_index_first(key).unwrap_or_default();
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        verifier.indexed = first.saturating_add(count);
    }
    for entry in entries {
        verifier.tells(
            key,
            &told_of(&entry)?,
            "a payment that it names is missing or another",
        )?;
    }
    Ok(())
}

/// Index entry that a payment must have, encoded.
fn told_of(entry: &Entry) -> Result<Vec<u8>, Fault> {
    postcard::to_stdvec(entry)
        .map_err(|error| Fault::Unavailable(format!("a record cannot be encoded: {error}")))
}

/// Checks a row of a due time, of one payment or of several that were created together.
fn due(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    empty(verifier, key, row)?;
    let at = schema::leading_time(key, schema::TIMERS).unwrap_or_default();
    match schema::timer_about(key) {
        None => Err(records::damaged(key, "it is about nothing")),
        Some(schema::TimerOf::One(_)) => verifier.tells(key, key, "nothing is due then"),
        Some(schema::TimerOf::Shared { first, count }) => {
            due_together(verifier, key, at, first, count)
        }
    }
}

fn due_together(
    verifier: &mut Verifier<'_>,
    key: &[u8],
    at: Time,
    first: Position,
    count: u16,
) -> Result<(), Fault> {
    let positions = first..first.saturating_add(count.into());
    let ids = payment_index_rows::ids_at(&verifier.view(), positions)?;
    if ids.iter().any(Option::is_none) {
        verifier.find(
            key,
            "payments that it is about are missing from the payment index",
        );
    }
    for id in ids.into_iter().flatten() {
        let loaded = PaymentRow::load(&verifier.view(), id);
        match loaded.map(|row| row.map(|row| row.counters.timer)) {
            Ok(Some(Some(Timer::Shared(own)))) => {
                if own < at {
                    verifier.find(key, "a payment that it is about is due before");
                }
                verifier.tells(key, id.as_bytes(), "another row says so too")?;
            }
            // Its due time has changed since, and it has its own row.
            Ok(Some(_)) => {}
            Ok(None) => verifier.find(key, "a payment that it is about is missing"),
            // The check of the payment's own row reports this.
            Err(Fault::Corrupt(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// Checks a payment with everything that was written with it.
fn payment(verifier: &mut Verifier<'_>, key: &[u8], _: &IVec) -> Result<(), Fault> {
    let id = schema::payment_id(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let loaded = aggregates::load_promised(&verifier.view(), &verifier.secrets.sealer, id)?;
    let (aggregate, counters) = (loaded.aggregate, loaded.counters);
    let payment = &aggregate.payment;
    if let Some(email) = &payment.email
        && payment.email_mark != Some(verifier.secrets.marker.email(email))
    {
        verifier.find(key, "the mark of its e-mail address is another address's");
    }
    if notes::has_row(payment) {
        verifier.promise(schema::notes(id), &[])?;
    }
    let marks = verifier.secrets.marks(payment);
    let entry = Entry::new(id, payment.merchant, payment.created_at, marks);
    let missing = "the payment index lacks it or has it wrong: no list or search finds it";
    verifier.promise_told(schema::PAYMENT_INDEX, key, &told_of(&entry)?, missing)?;
    if counters.timer.map(Timer::at) != aggregate.due_at() {
        verifier.find(key, "its next due time does not follow from its state");
    }
    let missing = "no row says when something is due on it";
    match counters.timer {
        None => {}
        Some(Timer::Own(at)) => {
            verifier.promise_told(schema::TIMERS, key, &schema::timer(at, id), missing)?;
        }
        Some(Timer::Shared(_)) => {
            verifier.promise_told(schema::TIMERS, key, id.as_bytes(), missing)?
        }
    }
    if let Some(listed) = schema::resellers::payment_of(payment) {
        verifier.promise(listed, &[])?;
    }
    for mark in verifier.secrets.search_marks(&aggregate) {
        verifier.promise(schema::marked(mark, payment.created_at, id), &[])?;
    }
    promise_attempts(verifier, &aggregate)?;
    if let Some(movements) = records::readable(movements::of_payment(&verifier.view(), id))?
        && payment_steps::out_of_balance(&aggregate.attempts, &movements).is_some()
    {
        verifier.find(key, payment_steps::OUT_OF_BALANCE);
    }
    history(verifier, key, payment, &counters)
}

fn promise_attempts(
    verifier: &mut Verifier<'_>,
    aggregate: &PaymentAggregate,
) -> Result<(), Fault> {
    let payment = &aggregate.payment;
    for (ordinal, attempt) in (0_u8..).zip(&aggregate.attempts) {
        verifier.promise(schema::attempt(payment.id, ordinal), &[])?;
        let attempt_key = AttemptKey {
            payment: payment.id,
            ordinal,
        };
        let token = TokenHash::hash(attempt.return_token.expose());
        let mut indexes = vec![schema::attempt_index(attempt.id), schema::returning(token)];
        let of_reference = |reference: &String| schema::reference(&attempt.account, reference);
        indexes.extend(attempt.references.iter().map(of_reference));
        for index in indexes {
            verifier.promise_value(index, &attempt_key)?;
        }
        for reference in &attempt.particulars.references {
            let found = schema::referred_by(reference, payment.created_at, payment.id, ordinal);
            verifier.promise(found, &[])?;
        }
        for refund in &attempt.funds.refunds {
            for id in refund.ids() {
                verifier.promise_value(schema::refund_index(id), &attempt_key)?;
            }
            if let Some(index) = schema::key_of_refund(payment, refund) {
                verifier.promise_value(index, &refund.id)?;
            }
        }
        if attempt.needs_account(payment.settlement) {
            verifier.promise(schema::in_use(&attempt.account, attempt.id), &[])?;
        }
    }
    Ok(())
}

/// Checks the timeline and the events, and whether they match.
fn history(
    verifier: &mut Verifier<'_>,
    key: &[u8],
    payment: &Payment,
    counters: &PaymentCounters,
) -> Result<(), Fault> {
    let id = payment.id;
    if !are_pruned(verifier, payment, counters)? {
        lines::<RoutingDecision>(
            verifier,
            key,
            "routing decisions",
            counters.decisions,
            |at| schema::line(id, Line::Decision, at),
        )?;
    }
    let transitions: Vec<Transition> = lines(
        verifier,
        key,
        "lines of its timeline",
        counters.transitions,
        |at| schema::line(id, Line::Transition, at),
    )?;
    let events: Vec<EventRow> = lines(verifier, key, "events", counters.events, |at| {
        schema::event(id, at)
    })?;
    if let Some(what) = payment_steps::contradiction(payment, &transitions, &events) {
        verifier.find(key, what);
    }
    Ok(())
}

/// Whether retention has removed a payment's routing decisions: all are missing, and retention has passed the
/// payment.
fn are_pruned(
    verifier: &Verifier<'_>,
    payment: &Payment,
    counters: &PaymentCounters,
) -> Result<bool, Fault> {
    let view = verifier.view();
    for ordinal in 0..counters.decisions {
        let line = schema::line(payment.id, Line::Decision, ordinal);
        if view.get(&line)?.is_some() {
            return Ok(false);
        }
    }
    let reached: Option<AllReached> = match view.load(schema::RETENTION) {
        Err(Fault::Corrupt(_)) => None,
        reached => reached?,
    };
    let before = reached.map_or(Time::default(), |[decisions, _]| decisions.made_before);
    Ok(payment.status.is_final() && payment.created_at <= before)
}

/// Promises lines 0 to `count` and reports missing ones.
fn lines<T: DeserializeOwned>(
    verifier: &mut Verifier<'_>,
    key: &[u8],
    what: &str,
    count: u16,
    line: impl Fn(u16) -> schema::Key,
) -> Result<Vec<T>, Fault> {
    let mut read = Vec::new();
    for ordinal in 0..count {
        let line = line(ordinal);
        let loaded = verifier.view().load(&line);
        verifier.promise(line, &[])?;
        match loaded {
            Ok(Some(value)) => read.push(value),
            Ok(None) => verifier.find(
                key,
                format!("one of its {what} is missing, number {ordinal}"),
            ),
            // The check of the line's own row reports this.
            Err(Fault::Corrupt(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(read)
}

/// Checks a line of a timeline. The byte after the payment is its kind.
fn line(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match key.get(b"tml/".len() + 16) {
        Some(b'd') => plain::<RoutingDecision>(verifier, key, row),
        _ => plain::<Transition>(verifier, key, row),
    }
}

/// Checks that an event is in its merchant's list. The check of its payment covers the rest.
fn event(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let event: EventRow = records::decode(&verifier.secrets.sealer, key, row)?;
    let (id, ordinal) =
        schema::event_of(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    // If the payment is damaged, the check of its own row reports this.
    let Some(payment) = records::readable(PaymentRow::load(&verifier.view(), id))?.flatten() else {
        return Ok(());
    };
    let of = (payment.plain().merchant, payment.plain().environment);
    let (listed, row) = event.listed(of, id, ordinal);
    verifier.promise_value(schema::event_index(event.id), &row)?;
    verifier.promise_value(listed, &row)
}

/// Checks that a payment's notes can be decrypted.
fn notes_row(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    notes::decode(&verifier.secrets.sealer, key, row).map(drop)
}

/// An attempt: its payment looks at it, and at everything else about it.
fn attempt(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    stored::open_attempt(&verifier.secrets.sealer, key, row).map(drop)
}

fn pending_callback(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let notice: PendingCallback = records::decode(&verifier.secrets.sealer, key, row)?;
    verifier.promise(schema::pending_callback_end(notice.until, key), &[])?;
    let count = schema::pending_callback_count(schema::account_in(key).unwrap_or_default());
    verifier.needs(key, &count, "its account's notices are not counted")
}

/// Checks the number of an account's notices.
fn pending_callback_count(
    verifier: &mut Verifier<'_>,
    key: &[u8],
    row: &IVec,
) -> Result<(), Fault> {
    let count: u32 = records::decode(&verifier.secrets.sealer, key, row)?;
    let account = key.get(4..).unwrap_or_default();
    let prefix = [b"prk/", account, b"\0"].concat();
    let most = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .saturating_add(1);
    let there = verifier.view().scan(&Span::prefix(&prefix), most)?;
    if there.len() != count as usize {
        verifier.find(key, "there are not as many notices as it says");
    }
    Ok(())
}

/// Checks a work item.
fn work(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let item: WorkItem = records::decode(&verifier.secrets.sealer, key, row)?;
    if key != schema::work(item.opened_at, item.id) {
        return Err(records::damaged(key, "it is another line's"));
    }
    verifier.promise_value(schema::work_index(item.id), &item.opened_at)?;
    if item.done_at.is_none() {
        verifier.promise(schema::open_work(item.opened_at, item.id), &[])?;
        let about = schema::work_about(&item.key);
        verifier.promise_value(about, &(item.opened_at, item.id))?;
    }
    let attempt_key: Option<AttemptKey> = verifier
        .view()
        .load(&schema::attempt_index(item.key.attempt))?;
    // A work item about unknown money has no payment, and its attempt is not in the store.
    if attempt_key.map(|attempt_key| attempt_key.payment) != item.payment {
        verifier.find(
            key,
            "the attempt that it is about is missing, or another payment's",
        );
    }
    Ok(())
}

/// Seals a payment's row again.
fn reseal_payment(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let id = schema::payment_id(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let (payment, counters) = PaymentRow::decode(old, id, key, row)?.open(old)?;
    PaymentRow::encode(new, &payment, counters).map(|(_, row)| row)
}

/// Seals an attempt's row again. Its ordinal is the last byte of its key.
fn reseal_attempt(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let ordinal = key.last().copied().unwrap_or_default();
    let attempt = stored::open_attempt(old, key, row)?;
    stored::encode_attempt(new, &attempt, ordinal).map(|(_, row)| row)
}
