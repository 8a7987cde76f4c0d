//! One simulated account at work: its books, its faults, and the callbacks that changes cause.
use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use url::{Host, Url};

use crate::{
    books::{BookEntry, Books, Callback},
    capture::Denied,
    config::{SimAccount, SimClock, SimError},
    fault::{Fault, Faults},
    session::{Conflict, Happened, Outcome, Session},
    vendor::Vendor,
};

/// An account with everything that belongs to it.
pub(crate) struct Account {
    pub(crate) settings: SimAccount,
    pub(crate) faults: Faults,
    pub(crate) vendor: Arc<dyn Vendor>,
    clock: Arc<dyn SimClock>,
    books: Mutex<Books>,
    callback_url: Mutex<Option<Url>>,
    /// Where the account's API is served, once it is.
    api: OnceLock<SocketAddr>,
    /// What payer links begin with, without a slash at the end.
    payer_base: String,
    /// Wakes the task that delivers.
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
    /// The vendor refuses this capture.
    Refused,
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
        let mut books = Books::open(&data_dir.join(format!("{}.jsonl", settings.provider_id)))?;
        books.hurry(clock.now_ms());
        let payer_base = settings.public_base.as_deref().unwrap_or(own_base);
        let account = Self {
            payer_base: payer_base.trim_end_matches('/').to_owned(),
            faults: Faults::default(),
            vendor,
            clock,
            books: Mutex::new(books),
            callback_url: Mutex::new(None),
            api: OnceLock::new(),
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

    /// Notes where the account's API is served.
    pub(crate) fn serves_at(&self, address: SocketAddr) {
        let _once = self.api.set(address);
    }

    /// What the addresses of the account's API begin with; none before it is served.
    pub(crate) fn api_base(&self) -> Option<String> {
        Some(format!("http://{}", self.api.get()?))
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

    /// Says where callbacks go. Only plain http to this machine: a simulator's callbacks are for a
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

    /// The payment of that reference, as a question at the API finds it.
    pub(crate) fn by_reference(&self, reference: &str) -> Option<Session> {
        let mut books = self.books.lock();
        let session = books.by_reference(reference)?.clone();
        self.remembered(&mut books, session)
    }

    /// The payment that a refund's or dispute's id belongs to.
    pub(crate) fn by_part(&self, id: &str) -> Option<Session> {
        let found = self.books.lock().by_part(id).cloned();
        found.filter(|session| !session.forgotten)
    }

    /// The payment that was refunded under that idempotency key.
    pub(crate) fn by_refund_key(&self, key: &str) -> Option<Session> {
        let found = self.books.lock().by_refund_key(key).cloned();
        found.filter(|session| !session.forgotten)
    }

    /// Every payment of which something was given back, oldest first.
    pub(crate) fn refunded(&self) -> Vec<Session> {
        self.books.lock().refunded()
    }

    pub(crate) fn by_token(&self, token: &str) -> Option<Session> {
        let found = self.books.lock().by_token(token).cloned();
        found.filter(|session| !session.forgotten)
    }

    pub(crate) fn by_attempt(&self, attempt_id: &str) -> Vec<Session> {
        let mut books = self.books.lock();
        let found = books.by_attempt(attempt_id).into_iter();
        found
            .filter_map(|session| self.remembered(&mut books, session))
            .collect()
    }

    /// The payment, unless the vendor knows nothing of it any more, or forgets it now. That is
    /// written where the question is asked: once per order of the fault this holds up nothing.
    fn remembered(&self, books: &mut Books, session: Session) -> Option<Session> {
        if session.forgotten {
            return None;
        }
        if !self.faults.take(Fault::Forgets) {
            return Some(session);
        }
        let forgotten = Session {
            forgotten: true,
            ..session
        };
        if let Err(error) = books.commit(vec![forgotten], Vec::new()) {
            tracing::error!(%error, "the simulator's books cannot be written");
        }
        None
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
                .commit(vec![session.clone()], Vec::new())
                .map_err(Unchanged::Books)?;
            Ok(Created::New(session))
        })
        .await
    }

    /// Changes a payment as the API was asked to, and queues the callbacks about it.
    pub(crate) async fn change(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Conflict>
        + Send
        + 'static,
    ) -> Result<Session, Unchanged> {
        self.capturing(reference, |session, account, now| {
            act(session, account, now).map_err(Denied::from)
        })
        .await
    }

    /// The same for what may end in [`Account::capture`], which the vendor may refuse.
    pub(crate) async fn capturing(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Denied> + Send + 'static,
    ) -> Result<Session, Unchanged> {
        if self.by_reference(&reference).is_none() {
            return Err(Unchanged::Unknown);
        }
        self.alter(reference, act).await
    }

    /// Changes a payment and queues the callbacks about it, as one write that is on the disk when
    /// this returns.
    pub(crate) async fn alter(
        self: &Arc<Self>,
        reference: String,
        act: impl FnOnce(&mut Session, &Self, u64) -> Result<Option<Happened>, Denied> + Send + 'static,
    ) -> Result<Session, Unchanged> {
        self.blocking(move |account| {
            account.change_books(|books, now| {
                let found = books.by_reference(&reference);
                let mut session = found.cloned().ok_or(Unchanged::Unknown)?;
                let (happened, answer) = match act(&mut session, account, now) {
                    Ok(happened) => (happened, Ok(session.clone())),
                    Err(Denied::Voided) => (Some(Happened::Voided), Err(Unchanged::Conflict)),
                    Err(Denied::Conflict) => return Err(Unchanged::Conflict),
                    Err(Denied::Refused) => return Err(Unchanged::Refused),
                };
                Ok((Some((session, happened)), answer))
            })
        })
        .await?
    }

    /// Writes what `act` makes of a payment, with the callbacks about it, and wakes the delivery.
    pub(crate) fn change_books<T>(
        &self,
        act: impl FnOnce(&Books, u64) -> Result<(Option<(Session, Option<Happened>)>, T), Unchanged>,
    ) -> Result<T, Unchanged> {
        let now = self.now();
        let mut books = self.books.lock();
        let (change, answer) = act(&books, now)?;
        if let Some((session, happened)) = change {
            let callbacks = match happened {
                Some(happened) => self
                    .callbacks(&session, happened, books.next_callback(), now)
                    .map_err(Unchanged::Books)?,
                None => Vec::new(),
            };
            books
                .commit(vec![session], callbacks)
                .map_err(Unchanged::Books)?;
            self.wake.notify_one();
        }
        Ok(answer)
    }

    /// Does what is due of what the vendor has taken in, and where `moved` what waits for the clock
    /// to be moved. In one write: a moved clock finds a crowd of them.
    pub(crate) fn ripen_due(&self, moved: bool) -> Result<(), SimError> {
        let now = self.now();
        let mut books = self.books.lock();
        let (mut changed, mut callbacks) = (Vec::new(), Vec::new());
        let mut number = books.next_callback();
        for mut session in books.ripe(now, moved) {
            while let Some(happened) = self.ripen(&mut session, now, moved) {
                let told = self.callbacks(&session, happened, number, now)?;
                number = number.saturating_add(told.len() as u64);
                callbacks.extend(told);
            }
            changed.push(session);
        }
        if changed.is_empty() {
            return Ok(());
        }
        books.commit(changed, callbacks)
    }

    /// The same for the task that delivers, where it holds nothing up.
    pub(crate) async fn ripen_in_time(self: &Arc<Self>) -> Result<(), Unchanged> {
        let next = self.books.lock().next_ripe();
        if next.is_none_or(|at| at > self.now()) {
            return Ok(());
        }
        self.blocking(|account| account.ripen_due(false).map_err(Unchanged::Books))
            .await
    }

    /// When the vendor next does something that it has taken in.
    pub(crate) fn next_ripe(&self) -> Option<u64> {
        self.books.lock().next_ripe()
    }

    /// When the vendor next confirms, or refuses, what the merchant has asked it for.
    pub(crate) fn confirms_at(&self) -> Option<u64> {
        self.books.lock().confirms_at()
    }

    /// What the payer's choice does.
    pub(crate) async fn choose(
        self: &Arc<Self>,
        reference: String,
        outcome: Outcome,
    ) -> Result<Session, Unchanged> {
        self.alter(reference, move |session, account, now| {
            let late = outcome == Outcome::Approve && session.is_over(now);
            if late && account.faults.take(Fault::LateMoney) {
                session.reopen(now);
            }
            Ok(account.vendor.choose(account, session, outcome, now)?)
        })
        .await
    }

    /// Callbacks that should go out now, beside what is on its way.
    pub(crate) fn due(&self, most: usize, except: &dyn Fn(u64) -> bool) -> Vec<Callback> {
        self.books.lock().due(self.now(), most, except)
    }

    /// When the next callback falls due that is not on its way.
    pub(crate) fn next_due(&self, except: &dyn Fn(u64) -> bool) -> Option<u64> {
        self.books.lock().next_due(except)
    }

    /// Notes that a callback was delivered or given up (`None`), or is to be tried again.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        number: u64,
        again: Option<Callback>,
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

    /// Runs work that waits for the disk on the runtime's blocking threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Unchanged> + Send + 'static,
    ) -> Result<T, Unchanged> {
        let account = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&account))
            .await
            .unwrap_or(Err(Unchanged::Conflict))
    }
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

#[cfg(test)]
pub(crate) mod tests;
