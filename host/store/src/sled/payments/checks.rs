//! What must hold of each kind of row, and of how they fit each other.

use kassette_domain::id::{RefundId, WorkId};
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{PaymentAggregate, Transition};
use kassette_domain::payment::{Payment, RoutingDecision};
use kassette_domain::time::Time;
use kassette_domain::work::WorkItem;
use kassette_engine::{IVec, Span};
use serde::de::DeserializeOwned;

use crate::Fault;
use crate::payment_steps;
use crate::rows::records;
use crate::rows::schema::{self, Line, Position};
use crate::rows::seal::Sealer;
use crate::rows::source::Source as _;
use crate::rows::stored::previous::{v3, v4, v5};
use crate::rows::stored::{
    self, AllReached, AttemptKey, Books, EventRow, ListedEvent, PaymentRow, PendingCallback, Timer,
};
use crate::sled::judge::Judge;
use crate::sled::judge::kinds::{Derived, Kind, empty, plain};
use crate::sled::memory::payment_index::Entry;
use crate::sled::memory::payment_index_rows;
use crate::sled::payments::aggregates;

/// The kinds of rows of payments.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(1, "attempt", b"att/", attempt)
        .sealing(reseal_attempt)
        .migrated_by(&[(3, v3::attempt), (4, v4::attempt)])
        .following(Derived::Key),
    Kind::new(2, "attempt-by-id", b"atx/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(10, "due", schema::TIMERS, due),
    Kind::new(11, "event", b"evt/", event)
        .migrated_by(&[(4, v4::event), (5, v5::event)])
        .following(Derived::Key),
    Kind::new(86, "event-by-time", b"evl/", plain::<ListedEvent>).following(Derived::Row),
    Kind::new(71, "reference-for-search", b"fnd/", empty).following(Derived::Key),
    Kind::new(30, "payment", schema::PAYMENTS, payment)
        .sealing(reseal_payment)
        .migrated_by(&[(3, v3::payment)]),
    Kind::new(31, "parked-count", b"pkc/", pending_callback_count),
    Kind::new(32, "parked-end", schema::PENDING_CALLBACK_ENDS, empty).following(Derived::Key),
    Kind::new(33, "parked-notice", b"prk/", pending_callback)
        .migrated_by(&[(3, v3::pending_callback), (4, v4::pending_callback)]),
    Kind::new(34, "reference", b"ref/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(35, "payment index", schema::PAYMENT_INDEX, payment_index),
    Kind::new(84, "refund-by-id", b"rfi/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(85, "refund-by-key", b"rfk/", plain::<RefundId>).following(Derived::Row),
    Kind::new(36, "attempt-by-return", b"rtn/", plain::<AttemptKey>).following(Derived::Row),
    Kind::new(38, "timeline", b"tml/", line).following(Derived::Key),
    Kind::new(39, "account-in-use", schema::IN_USE, empty).following(Derived::Key),
    Kind::new(43, "work-by-attempt", b"wra/", plain::<(Time, WorkId)>).following(Derived::Row),
    Kind::new(44, "work", schema::ALL_WORK, work).migrated_by(&[(3, v3::work)]),
    Kind::new(45, "open-work", schema::OPEN_WORK, empty).following(Derived::Key),
    Kind::new(46, "work-by-id", b"wrx/", plain::<Time>).following(Derived::Row),
];

/// A row of the payment index: payments in order of arrival, each of which promises that it is there.
fn payment_index(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let entries: Vec<Entry> = records::decode(key, row)?;
    if !judge.is_second() {
        let expected = judge.indexed;
        if key != schema::payment_index(expected)
            || !(expected as usize).is_multiple_of(payment_index_rows::FULL)
        {
            judge.find(key, "rows of the payment index before it are missing");
        }
        let first = schema::payment_index_first(key).unwrap_or_default();
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        judge.indexed = first.saturating_add(count);
    }
    for entry in entries {
        judge.tells(
            key,
            &told_of(&entry)?,
            "a payment that it names is missing or another",
        )?;
    }
    Ok(())
}

/// What the payment index tells of a payment, as the payment promises it.
fn told_of(entry: &Entry) -> Result<Vec<u8>, Fault> {
    postcard::to_stdvec(entry)
        .map_err(|error| Fault::Unavailable(format!("a record cannot be encoded: {error}")))
}

/// When something is due: on one payment, or on some that were made together.
fn due(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    empty(judge, key, row)?;
    let at = schema::leading_time(key, schema::TIMERS).unwrap_or_default();
    match schema::timer_about(key) {
        None => Err(records::damaged(key, "it is about nothing")),
        Some(schema::TimerOf::One(_)) => judge.tells(key, key, "nothing is due then"),
        Some(schema::TimerOf::Shared { first, count }) => {
            due_together(judge, key, at, first, count)
        }
    }
}

fn due_together(
    judge: &mut Judge<'_>,
    key: &[u8],
    at: Time,
    first: Position,
    count: u16,
) -> Result<(), Fault> {
    let positions = first..first.saturating_add(count.into());
    let ids = payment_index_rows::ids_at(&judge.view(), positions)?;
    if ids.iter().any(Option::is_none) {
        judge.find(
            key,
            "payments that it is about are missing from the payment index",
        );
    }
    for id in ids.into_iter().flatten() {
        let loaded = PaymentRow::load(&judge.view(), id);
        match loaded.map(|row| row.map(|row| row.books.timer)) {
            Ok(Some(Some(Timer::Shared(own)))) => {
                if own < at {
                    judge.find(key, "a payment that it is about is due before");
                }
                judge.tells(key, id.as_bytes(), "another row says so too")?;
            }
            // Its time has changed since, and it has a row of its own.
            Ok(Some(_)) => {}
            Ok(None) => judge.find(key, "a payment that it is about is missing"),
            // The payment's own row tells it.
            Err(Fault::Corrupt(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// A payment with everything that was written with it.
fn payment(judge: &mut Judge<'_>, key: &[u8], _: &IVec) -> Result<(), Fault> {
    let id = schema::payment_id(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let loaded = aggregates::load_promised(&judge.view(), &judge.secrets.sealer, id)?;
    let (aggregate, books) = (loaded.aggregate, loaded.books);
    let payment = &aggregate.payment;
    if let Some(email) = &payment.email
        && payment.email_mark != Some(judge.secrets.marker.email(email))
    {
        judge.find(key, "the mark of its e-mail address is another address's");
    }
    let marks = judge.secrets.marks(payment);
    let entry = Entry::new(id, payment.merchant, payment.created_at, marks);
    let missing = "the payment index lacks it or has it wrong: no list or search finds it";
    judge.promise_told(schema::PAYMENT_INDEX, key, &told_of(&entry)?, missing)?;
    if books.timer.map(Timer::at) != aggregate.due_at() {
        judge.find(key, "its next due time does not follow from its state");
    }
    let missing = "no row says when something is due on it";
    match books.timer {
        None => {}
        Some(Timer::Own(at)) => {
            judge.promise_told(schema::TIMERS, key, &schema::timer(at, id), missing)?;
        }
        Some(Timer::Shared(_)) => {
            judge.promise_told(schema::TIMERS, key, id.as_bytes(), missing)?
        }
    }
    if let Some(listed) = schema::resellers::payment_of(payment) {
        judge.promise(listed, &[])?;
    }
    promise_attempts(judge, &aggregate)?;
    history(judge, key, payment, &books)
}

fn promise_attempts(judge: &mut Judge<'_>, aggregate: &PaymentAggregate) -> Result<(), Fault> {
    let payment = &aggregate.payment;
    for (ordinal, attempt) in (0_u8..).zip(&aggregate.attempts) {
        judge.promise(schema::attempt(payment.id, ordinal), &[])?;
        let attempt_key = AttemptKey {
            payment: payment.id,
            ordinal,
        };
        let token = TokenHash::of(attempt.return_token.expose());
        let mut indexes = vec![schema::attempt_index(attempt.id), schema::returning(token)];
        let of_reference = |reference: &String| schema::reference(&attempt.account, reference);
        indexes.extend(attempt.references.iter().map(of_reference));
        for index in indexes {
            let row = records::encode(&index, &attempt_key)?;
            judge.promise(index, &row)?;
        }
        for reference in &attempt.particulars.references {
            let found = schema::referred_by(reference, payment.created_at, payment.id, ordinal);
            judge.promise(found, &[])?;
        }
        for refund in &attempt.returns.refunds {
            let index = schema::refund_index(refund.id);
            let row = records::encode(&index, &attempt_key)?;
            judge.promise(index, &row)?;
            if let Some(index) = aggregates::key_of(payment, refund) {
                let row = records::encode(&index, &refund.id)?;
                judge.promise(index, &row)?;
            }
        }
        if aggregates::uses_account(payment, attempt) {
            judge.promise(schema::in_use(&attempt.account, attempt.id), &[])?;
        }
    }
    Ok(())
}

/// The timeline and the events, and whether one tells the other.
fn history(
    judge: &mut Judge<'_>,
    key: &[u8],
    payment: &Payment,
    books: &Books,
) -> Result<(), Fault> {
    let id = payment.id;
    if !are_pruned(judge, payment, books)? {
        lines::<RoutingDecision>(judge, key, "routing decisions", books.decisions, |at| {
            schema::line(id, Line::Decision, at)
        })?;
    }
    let transitions: Vec<Transition> = lines(
        judge,
        key,
        "lines of its timeline",
        books.transitions,
        |at| schema::line(id, Line::Transition, at),
    )?;
    let events: Vec<EventRow> = lines(judge, key, "events", books.events, |at| {
        schema::event(id, at)
    })?;
    if let Some(what) = payment_steps::contradiction(payment, &transitions, &events) {
        judge.find(key, what);
    }
    Ok(())
}

/// Whether retention has taken a payment's routing decisions: all of them, and it has been there.
fn are_pruned(judge: &Judge<'_>, payment: &Payment, books: &Books) -> Result<bool, Fault> {
    let view = judge.view();
    for ordinal in 0..books.decisions {
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

/// Lines 0 to `count`, each promised; one that is missing is told.
fn lines<T: DeserializeOwned>(
    judge: &mut Judge<'_>,
    key: &[u8],
    what: &str,
    count: u16,
    line: impl Fn(u16) -> schema::Key,
) -> Result<Vec<T>, Fault> {
    let mut read = Vec::new();
    for ordinal in 0..count {
        let line = line(ordinal);
        let loaded = judge.view().load(&line);
        judge.promise(line, &[])?;
        match loaded {
            Ok(Some(value)) => read.push(value),
            Ok(None) => judge.find(
                key,
                format!("one of its {what} is missing, number {ordinal}"),
            ),
            // The line's own row tells it.
            Err(Fault::Corrupt(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(read)
}

/// A line of a timeline; its kind stands after the payment.
fn line(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    match key.get(b"tml/".len() + 16) {
        Some(b'd') => plain::<RoutingDecision>(judge, key, row),
        _ => plain::<Transition>(judge, key, row),
    }
}

/// An event: its payment looks at it, and its merchant's list has it.
fn event(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let event: EventRow = records::decode(key, row)?;
    let (id, ordinal) =
        schema::event_of(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    // Where the payment is damaged, its own row tells it.
    let Some(payment) = records::readable(PaymentRow::load(&judge.view(), id))?.flatten() else {
        return Ok(());
    };
    let of = (payment.plain().merchant, payment.plain().environment);
    let (listed, row) = event.listed(of, id, ordinal);
    let row = records::encode(&listed, &row)?;
    judge.promise(listed, &row)
}

/// An attempt: its payment looks at it, and at everything else about it.
fn attempt(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    stored::open_attempt(&judge.secrets.sealer, key, row).map(drop)
}

fn pending_callback(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let notice: PendingCallback = records::decode(key, row)?;
    judge.promise(schema::pending_callback_end(notice.until, key), &[])?;
    let account = schema::account_in(key).unwrap_or_default();
    if judge
        .view()
        .get(&schema::pending_callback_count(account))?
        .is_none()
    {
        judge.find(key, "its account's notices are not counted");
    }
    Ok(())
}

/// The number of an account's notices.
fn pending_callback_count(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let count: u32 = records::decode(key, row)?;
    let account = key.get(4..).unwrap_or_default();
    let prefix = [b"prk/", account, b"\0"].concat();
    let most = usize::try_from(count)
        .unwrap_or(usize::MAX)
        .saturating_add(1);
    let there = judge.view().scan(&Span::prefix(&prefix), most)?;
    if there.len() != count as usize {
        judge.find(key, "there are not as many notices as it says");
    }
    Ok(())
}

/// A line of the work list.
fn work(judge: &mut Judge<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let item: WorkItem = records::decode(key, row)?;
    if key != schema::work(item.opened_at, item.id) {
        return Err(records::damaged(key, "it is another line's"));
    }
    let index = schema::work_index(item.id);
    let row = records::encode(&index, &item.opened_at)?;
    judge.promise(index, &row)?;
    if item.done_at.is_none() {
        judge.promise(schema::open_work(item.opened_at, item.id), &[])?;
        let about = schema::work_about(item.attempt, item.kind);
        let row = records::encode(&about, &(item.opened_at, item.id))?;
        judge.promise(about, &row)?;
    }
    let attempt_key: Option<AttemptKey> =
        judge.view().load(&schema::attempt_index(item.attempt))?;
    // A line about unknown money names no payment, and an attempt that is not here.
    if attempt_key.map(|attempt_key| attempt_key.payment) != item.payment {
        judge.find(
            key,
            "the attempt that it is about is missing, or another payment's",
        );
    }
    Ok(())
}

/// A payment's row.
fn reseal_payment(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let id = schema::payment_id(key).ok_or_else(|| records::damaged(key, "it names no payment"))?;
    let (payment, books) = PaymentRow::decode(id, key, row)?.open(old)?;
    PaymentRow::encode(new, &payment, books).map(|(_, row)| row)
}

/// An attempt's row; its ordinal is the last byte of its key.
fn reseal_attempt(old: &Sealer, new: &Sealer, key: &[u8], row: &[u8]) -> Result<IVec, Fault> {
    let ordinal = key.last().copied().unwrap_or_default();
    let attempt = stored::open_attempt(old, key, row)?;
    stored::encode_attempt(new, &attempt, ordinal).map(|(_, row)| row)
}
