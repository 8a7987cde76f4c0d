//! The callbacks that a change causes, after the ordered faults are applied.
use crate::{
    account::Account,
    books::Callback,
    config::SimError,
    fault::Fault,
    ids,
    noise::{odd_body, unknown_event},
    session::{Happened, Session, State},
    vendor::Event,
};

/// Delay of `callback-late` on the injected clock, in milliseconds. Longer than the time until the gateway's own
/// query after the payer's return, so that the callback comes second.
const LATE_MS: u64 = 10_000;

/// Time between the newest callback and the older one that follows it under `callback-reordered`, in milliseconds.
const REORDERED_MS: u64 = 500;

/// Faults that affect the delivery of one callback.
const CALLBACK_FAULTS: [Fault; 5] = [
    Fault::CallbackTwice,
    Fault::CallbackLate,
    Fault::CallbackReordered,
    Fault::CallbackNever,
    Fault::CallbackForged,
];

impl Account {
    /// The callbacks about a change, after the ordered faults are applied.
    ///
    /// # Errors
    /// [`SimError::Randomness`].
    pub(crate) fn callbacks(
        &self,
        session: &Session,
        happened: Happened,
        number: u64,
        now: u64,
    ) -> Result<Vec<Callback>, SimError> {
        let item = |offset: u64, session: &Session, happened, at, due_at, forged: bool| {
            let id = ids::random("evt_")?;
            let event = Event {
                id: &id,
                happened,
                at,
                session,
            };
            let message = self.vendor.event(self, event);
            Ok::<_, SimError>(message.map(|message| Callback {
                number: number.saturating_add(offset),
                body: match self.faults.has(Fault::OddAnswers) {
                    true => odd_body(message.body),
                    false => message.body,
                },
                media_type: message.media_type.to_owned(),
                // A forger does not know the address that the merchant configured.
                query: self.vendor.callback_query(session).filter(|_| !forged),
                due_at,
                failures: 0,
                forged,
            }))
        };
        let Some(plain) = item(0, session, happened, now, now, false)? else {
            return Ok(Vec::new());
        };
        Ok(match self.faults.take_first(&CALLBACK_FAULTS) {
            Some(Fault::CallbackTwice) => {
                vec![
                    Callback {
                        number: number.saturating_add(1),
                        ..plain.clone()
                    },
                    plain,
                ]
            }
            Some(Fault::CallbackLate) => vec![Callback {
                due_at: now.saturating_add(LATE_MS),
                ..plain
            }],
            Some(Fault::CallbackReordered) => {
                let (earlier, what) = before(session);
                let after = now.saturating_add(REORDERED_MS);
                let older = item(1, &earlier, what, now.saturating_sub(1_000), after, false)?;
                [plain].into_iter().chain(older).collect()
            }
            Some(Fault::CallbackNever) => Vec::new(),
            Some(Fault::CallbackForged) => {
                let claim = Session {
                    state: State::Captured,
                    received: Some(session.due.clone()),
                    payable: false,
                    ..session.unpaid()
                };
                item(0, &claim, Happened::Captured, now, now, true)?
                    .into_iter()
                    .collect()
            }
            // A later version of the vendor reports the same change under another name first.
            _ if self.faults.has(Fault::OddAnswers) => {
                let unknown = unknown_event(&plain.body).map(|body| Callback {
                    body,
                    ..plain.clone()
                });
                let told = unknown.into_iter().chain([plain]);
                (number..)
                    .zip(told)
                    .map(|(number, told)| Callback { number, ..told })
                    .collect()
            }
            _ => vec![plain],
        })
    }
}

/// The payment in an earlier state, for a callback that arrives in the wrong order.
fn before(session: &Session) -> (Session, Happened) {
    let earlier = session.unpaid();
    if matches!(session.state, State::Captured | State::Refunded) {
        let authorised = Session {
            state: State::Authorised,
            payable: false,
            ..earlier
        };
        (authorised, Happened::Authorised)
    } else {
        (earlier, Happened::Opened)
    }
}
