//! The callbacks that a change causes, as the ordered faults leave them.
use crate::{
    account::Account,
    books::Callback,
    config::SimError,
    fault::Fault,
    ids,
    session::{Happened, Session, State},
    vendor::Event,
};

/// How much later `callback-late` delivers, on the injected clock: longer than the gateway's own
/// look on the payer's return, so that the callback really comes second.
const LATE_MS: u64 = 10_000;

/// How long after the newest callback an older one follows under `callback-reordered`.
const REORDERED_MS: u64 = 500;

/// Faults that spoil the delivery of one callback.
const CALLBACK_FAULTS: [Fault; 5] = [
    Fault::CallbackTwice,
    Fault::CallbackLate,
    Fault::CallbackReordered,
    Fault::CallbackNever,
    Fault::CallbackForged,
];

impl Account {
    /// The callbacks about a change, as the ordered faults leave them.
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
                body: message.body,
                media_type: message.media_type.to_owned(),
                // A forger does not know the address that the merchant gave.
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
            _ => vec![plain],
        })
    }
}

/// The payment as it stood just before, for a callback that arrives in the wrong order.
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
