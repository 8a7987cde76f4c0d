//! One simulated account at work: its books, its faults, and the news that changes cause.
use std::{path::Path, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;
use url::{Host, Url};

use crate::{
    books::{BookEntry, Books, News},
    config::{SimAccount, SimClock, SimError},
    fault::{Fault, Faults},
    ids,
    money::{Amount, Money},
    session::{Conflict, Happened, Outcome, Session, State},
    vendor::{Event, Vendor},
};

/// How much later `callback-late` delivers, on the injected clock: longer than the gateway's own
/// look on the payer's return, so that the news really comes second.
const LATE_MS: u64 = 10_000;

/// How long after the newest news an older one follows under `callback-reordered`.
const REORDERED_MS: u64 = 500;

/// Faults that spoil the delivery of one piece of news.
const CALLBACK_FAULTS: [Fault; 5] = [
    Fault::CallbackTwice,
    Fault::CallbackLate,
    Fault::CallbackReordered,
    Fault::CallbackNever,
    Fault::CallbackForged,
];

/// An account with everything that belongs to it.
pub(crate) struct Account {
    pub(crate) settings: SimAccount,
    pub(crate) faults: Faults,
    pub(crate) vendor: Arc<dyn Vendor>,
    clock: Arc<dyn SimClock>,
    books: Mutex<Books>,
    callback_url: Mutex<Option<Url>>,
    /// What payer links begin with, without a slash at the end.
    payer_base: String,
    /// Wakes the courier.
    pub(crate) wake: Notify,
}

/// What became of a creation.
pub(crate) enum Created {
    New(Session),
    /// The same was asked before under that key.
    Replay(Session),
    /// Something else was asked before under that key.
    Differs,
}

/// Why a payment was not changed.
#[derive(Debug)]
pub(crate) enum Unchanged {
    Unknown,
    Conflict,
    Books(SimError),
}

impl Account {
    /// Opens the account's books. `own_base` is where the simulator's payer pages are, for
    /// accounts that configure no other.
    pub(crate) fn open(
        settings: SimAccount,
        vendor: Arc<dyn Vendor>,
        clock: Arc<dyn SimClock>,
        data_dir: &Path,
        own_base: &str,
    ) -> Result<Self, SimError> {
        let books = Books::open(&data_dir.join(format!("{}.jsonl", settings.provider_id)))?;
        let payer_base = settings.public_base.as_deref().unwrap_or(own_base);
        let account = Self {
            payer_base: payer_base.trim_end_matches('/').to_owned(),
            faults: Faults::default(),
            vendor,
            clock,
            books: Mutex::new(books),
            callback_url: Mutex::new(None),
            wake: Notify::new(),
            settings,
        };
        if let Some(url) = account.settings.callback_url.clone() {
            account.set_callback_url(&url)?;
        }
        Ok(account)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Where the payer's form is posted to.
    pub(crate) fn pay_url(&self) -> String {
        format!("{}/{}/pay", self.payer_base, self.settings.provider_id)
    }

    /// The page of one payment.
    pub(crate) fn page_url(&self, session: &Session) -> String {
        format!("{}/{}", self.pay_url(), session.token)
    }

    /// Path of the payer page's stylesheet: on whatever host the page was reached, so that the
    /// page's own policy allows it.
    pub(crate) fn style_path(&self) -> String {
        let base = Url::parse(&self.payer_base).map(|url| url.path().to_owned());
        format!(
            "{}/payer.css",
            base.unwrap_or_default().trim_end_matches('/')
        )
    }

    /// Says where callbacks go. Only plain http to this machine: a simulator's news is for a
    /// gateway under development and must not leave it.
    pub(crate) fn set_callback_url(&self, url: &str) -> Result<(), SimError> {
        let url = Url::parse(url)
            .ok()
            .filter(is_loopback_http)
            .ok_or_else(|| SimError::Account {
                provider_id: self.settings.provider_id.clone(),
                reason: "callback address is not plain http on loopback".to_owned(),
            })?;
        *self.callback_url.lock() = Some(url);
        self.wake.notify_one();
        Ok(())
    }

    pub(crate) fn callback_url(&self) -> Option<Url> {
        self.callback_url.lock().clone()
    }

    pub(crate) fn entries(&self) -> Vec<BookEntry> {
        self.books
            .lock()
            .entries(&self.settings.provider_id, self.now())
    }

    pub(crate) fn by_reference(&self, reference: &str) -> Option<Session> {
        self.books.lock().by_reference(reference).cloned()
    }

    pub(crate) fn by_token(&self, token: &str) -> Option<Session> {
        self.books.lock().by_token(token).cloned()
    }

    pub(crate) fn by_attempt(&self, attempt_id: &str) -> Vec<Session> {
        self.books.lock().by_attempt(attempt_id)
    }

    /// Payments from the newest on, or from that one on to older ones; none where there is no such one.
    pub(crate) fn newest(&self, from: Option<&str>, most: usize) -> Option<Vec<Session>> {
        self.books.lock().newest(from, most)
    }

    /// The payment made under that idempotency key.
    pub(crate) fn by_key(&self, key: &str) -> Option<Session> {
        self.books.lock().by_key(key).cloned()
    }

    /// Enters a payment, once per idempotency key. On the disk when this returns.
    pub(crate) async fn create(self: &Arc<Self>, session: Session) -> Result<Created, Unchanged> {
        self.blocking(move |account| {
            let mut books = account.books.lock();
            if let Some(known) = books.by_key(&session.key) {
                return Ok(if known.fingerprint == session.fingerprint {
                    Created::Replay(known.clone())
                } else {
                    Created::Differs
                });
            }
            if books.is_full() {
                return Err(Unchanged::Conflict);
            }
            books
                .commit(session.clone(), Vec::new())
                .map_err(Unchanged::Books)?;
            Ok(Created::New(session))
        })
        .await
    }

    /// Changes a payment and queues the news about it, as one write that is on the disk when
    /// this returns.
    pub(crate) async fn change(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Conflict>
        + Send
        + 'static,
    ) -> Result<Session, Unchanged> {
        let session = self
            .blocking(move |account| {
                let now = account.now();
                let mut books = account.books.lock();
                let mut session = books
                    .by_reference(&reference)
                    .cloned()
                    .ok_or(Unchanged::Unknown)?;
                let happened =
                    act(&mut session, account, now).map_err(|Conflict| Unchanged::Conflict)?;
                let news = match happened {
                    Some(happened) => account
                        .news(&session, happened, books.next_news(), now)
                        .map_err(Unchanged::Books)?,
                    None => Vec::new(),
                };
                books
                    .commit(session.clone(), news)
                    .map_err(Unchanged::Books)?;
                Ok(session)
            })
            .await?;
        self.wake.notify_one();
        Ok(session)
    }

    /// What the payer's choice does.
    pub(crate) async fn choose(
        self: &Arc<Self>,
        reference: String,
        outcome: Outcome,
    ) -> Result<Session, Unchanged> {
        self.change(reference, move |session, account, now| {
            let late = outcome == Outcome::Approve && session.is_over(now);
            if late && account.faults.take(Fault::LateMoney) {
                session.reopen(now);
            }
            account.vendor.choose(account, session, outcome, now)
        })
        .await
    }

    /// What a capture takes: what is due, unless a fault says otherwise.
    pub(crate) fn taken(&self, session: &Session) -> Money {
        let mut money = session.due.clone();
        if self.faults.take(Fault::WrongAmount) {
            // One cent: the smallest difference must be noticed.
            money.value = Amount(if money.value.0 > 1 {
                money.value.0 - 1
            } else {
                2
            });
        }
        if self.faults.take(Fault::WrongCurrency) {
            money.currency = if money.currency == "USD" {
                "EUR"
            } else {
                "USD"
            }
            .to_owned();
        }
        money
    }

    /// The news about a change, as the ordered faults leave it.
    fn news(
        &self,
        session: &Session,
        happened: Happened,
        number: u64,
        now: u64,
    ) -> Result<Vec<News>, SimError> {
        let item = |offset: u64, session: &Session, happened, at, due_at, forged| {
            let id = ids::random("evt_")?;
            let event = Event {
                id: &id,
                happened,
                at,
                session,
            };
            let message = self.vendor.event(self, event);
            Ok::<_, SimError>(message.map(|message| News {
                number: number.saturating_add(offset),
                body: message.body,
                media_type: message.media_type.to_owned(),
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
                    News {
                        number: number.saturating_add(1),
                        ..plain.clone()
                    },
                    plain,
                ]
            }
            Some(Fault::CallbackLate) => vec![News {
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
                    held: false,
                    ..session.clone()
                };
                item(0, &claim, Happened::Captured, now, now, true)?
                    .into_iter()
                    .collect()
            }
            _ => vec![plain],
        })
    }

    /// News that should go out now, beside what is on its way.
    pub(crate) fn due(&self, most: usize, except: &dyn Fn(u64) -> bool) -> Vec<News> {
        self.books.lock().due(self.now(), most, except)
    }

    /// When the next piece of news falls due that is not on its way.
    pub(crate) fn next_due(&self, except: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.books.lock().next_due(except)
    }

    /// Notes that news was delivered or given up (`None`), or is to be tried again.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        number: u64,
        again: Option<News>,
    ) -> Result<(), Unchanged> {
        self.blocking(move |account| {
            account
                .books
                .lock()
                .settle(number, again)
                .map_err(Unchanged::Books)
        })
        .await
    }

    /// Runs work that waits for the disk where it holds nobody up.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Unchanged> + Send + 'static,
    ) -> Result<T, Unchanged> {
        let account = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&account))
            .await
            .unwrap_or(Err(Unchanged::Conflict))
    }
}

/// The payment as it stood just before, for news that arrives in the wrong order.
fn before(session: &Session) -> (Session, Happened) {
    let captured = matches!(session.state, State::Captured | State::Refunded);
    let earlier = Session {
        state: if captured {
            State::Authorised
        } else {
            State::Open
        },
        payable: !captured,
        held: false,
        disputed: false,
        received: None,
        returned: Amount(0),
        ..session.clone()
    };
    (
        earlier,
        if captured {
            Happened::Authorised
        } else {
            Happened::Opened
        },
    )
}

fn is_loopback_http(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "http" && loopback
}
