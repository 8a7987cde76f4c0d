//! Payments from the view of shop and payer.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;
use tokio::time::sleep_until;

use super::receiver::TOLD;
use crate::client::{Connection, alone, once};
use crate::requests::{Creates, get, post};

/// Maximum duration of the recorded payment.
const PAYMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after each step of the recorded payment, so that its messages do not mix.
const QUIET: Duration = Duration::from_millis(500);

/// Maximum idle time of a connection to a simulator, which closes connections after ten seconds.
const IDLE: Duration = Duration::from_secs(5);

/// Maximum number of payments with which slow payers catch up with the rate.
const BEHIND: u32 = 100;

/// A measured part of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Create,
    Start,
    /// Response to the payer's return.
    Return,
    /// From the payer's approval to the arrival of the completion event at the shop.
    Told,
    /// The whole payment, with the time of the provider's page.
    Whole,
}

impl Leg {
    pub(super) const ALL: [Self; 5] = [
        Self::Create,
        Self::Start,
        Self::Return,
        Self::Told,
        Self::Whole,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Return => "the payer's return",
            Self::Told => "from the approval to the shop",
            Self::Whole => "whole payment",
        }
    }
}

/// Results of payments.
pub(super) struct Walked {
    /// Number of payments.
    pub(super) payments: u64,
    /// Number of payments that ended within the time, and that time.
    in_time: (u64, Duration),
    /// Durations in microseconds, by leg.
    legs: [Histogram<u64>; Leg::ALL.len()],
}

impl Default for Walked {
    fn default() -> Self {
        // Up to a minute, with three digits.
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
        Self {
            payments: 0,
            in_time: (0, Duration::ZERO),
            legs: std::array::from_fn(|_| histogram()),
        }
    }
}

impl Walked {
    pub(super) fn record(&mut self, legs: Legs, is_in_time: bool) {
        self.payments += 1;
        self.in_time.0 += u64::from(is_in_time);
        for (histogram, took) in self.legs.iter_mut().zip(legs) {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            histogram.saturating_record(micros.max(1));
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.payments += other.payments;
        self.in_time.0 += other.in_time.0;
        self.in_time.1 += other.in_time.1;
        for (histogram, more) in self.legs.iter_mut().zip(&other.legs) {
            histogram.add(more).unwrap();
        }
    }

    /// Payments per second.
    pub(super) fn rate(&self) -> f64 {
        self.in_time.0 as f64 / self.in_time.1.as_secs_f64()
    }

    pub(super) fn percentile_ms(&self, leg: Leg, percentile: f64) -> f64 {
        self.legs[leg as usize].value_at_percentile(percentile) as f64 / 1000.0
    }
}

/// Times of the next payments, shared by all payers, because a payer can be busy for 1.5 s with a capture at
/// Adyen.
pub(super) struct Pace {
    every: Duration,
    next: Cell<Instant>,
}

impl Pace {
    pub(super) fn per_second(rate: f64) -> Self {
        Self {
            every: Duration::from_secs_f64(1.0 / rate),
            next: Cell::new(Instant::now()),
        }
    }

    pub(super) fn next(&self) -> Instant {
        let due = (self.next.get()).max(Instant::now() - self.every * BEHIND);
        self.next.set(due + self.every);
        due
    }
}

/// The payers at a shop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payers {
    pub(super) at_once: usize,
    /// Payments per second. `None` for as many as possible.
    pub(super) rate: Option<f64>,
}

/// A merchant at a server.
pub(super) struct Shop {
    pub(super) server: SocketAddr,
    /// Server that receives its events.
    pub(super) receiver: SocketAddr,
    pub(super) key: String,
    pub(super) method: String,
}

/// Open connections of a payer and a shop.
pub(super) struct Connections {
    pub(super) server: Connection,
    receiver: Connection,
    /// The connection to the provider's page, once its address is known, and the time of its last use.
    provider: Option<(Connection, Instant)>,
}

/// Duration of each leg.
pub(super) type Legs = [Duration; Leg::ALL.len()];

impl Shop {
    /// Pays until the time has passed, and completes payments that have started.
    pub(super) fn pay(&self, payers: Payers, time: Duration) -> Walked {
        self.pay_up_to(Leg::Whole, payers, time)
    }

    /// Pays up to a leg ([`Leg::Create`] or [`Leg::Start`]) and abandons each payment after it.
    pub(super) fn pay_up_to(&self, last: Leg, payers: Payers, time: Duration) -> Walked {
        alone(async {
            let creates = RefCell::new(Creates::by_method(&self.key, &self.method));
            let walked = RefCell::new(Walked::default());
            let end = Instant::now() + time;
            let pace = payers.rate.map(Pace::per_second);
            let payer = async || {
                let mut connections = self.connect().await;
                while Instant::now() < end {
                    if let Some(pace) = &pace {
                        sleep_until(pace.next().into()).await;
                    }
                    let legs = self.walk(last, &creates, &mut connections).await;
                    let is_in_time = Instant::now() < end;
                    walked.borrow_mut().record(legs, is_in_time);
                }
            };
            let payers = (0..payers.at_once).map(|_| payer());
            futures_util::future::join_all(payers).await;
            let mut walked = walked.take();
            walked.in_time.1 = time;
            walked
        })
    }

    pub(super) async fn connect(&self) -> Connections {
        Connections {
            server: Connection::open(self.server).await,
            receiver: Connection::open(self.receiver).await,
            provider: None,
        }
    }

    async fn walk(
        &self,
        last: Leg,
        creates: &RefCell<Creates>,
        connections: &mut Connections,
    ) -> Legs {
        let began = Instant::now();
        let created = self.create(creates, &mut connections.server).await;
        let id = created.unwrap_or_else(|why| panic!("{why}"));
        let mut legs = Legs::default();
        legs[Leg::Create as usize] = began.elapsed();
        if last != Leg::Create {
            let carried = self.carry(&id, last, connections, &mut legs).await;
            carried.unwrap_or_else(|why| panic!("{id}: {why}"));
        }
        legs
    }

    /// Continues a created payment to the end of a leg. Returns an error if that fails, because a provider may be
    /// gone.
    pub(super) async fn carry(
        &self,
        id: &str,
        last: Leg,
        connections: &mut Connections,
        legs: &mut Legs,
    ) -> Result<(), String> {
        let created = Instant::now();
        let Connections {
            server, receiver, ..
        } = connections;
        let page = self.start(id, server).await?;
        legs[Leg::Start as usize] = created.elapsed();
        if last == Leg::Start {
            return Ok(());
        }
        let back = approve(&page, &mut connections.provider).await?;
        let approved = Instant::now();
        let told = async {
            expect("event", 200, receiver, get("", &format!("{TOLD}{id}"))).await?;
            Ok::<_, String>(approved.elapsed())
        };
        let returned = async {
            expect("return", 200, server, get("", &back)).await?;
            Ok(approved.elapsed())
        };
        let (told, returned) = tokio::try_join!(told, returned)?;
        legs[Leg::Return as usize] = returned;
        legs[Leg::Told as usize] = told;
        legs[Leg::Whole as usize] = legs[Leg::Create as usize] + created.elapsed();
        Ok(())
    }

    pub(super) async fn create(
        &self,
        creates: &RefCell<Creates>,
        server: &mut Connection,
    ) -> Result<String, String> {
        let mut request = Vec::new();
        creates.borrow_mut().write(&mut request);
        expect("create", 201, server, request).await?;
        Ok(json(server)["payment_id"].as_str().unwrap().to_owned())
    }

    /// Starts a payment and returns the URL of the provider's page.
    async fn start(&self, id: &str, server: &mut Connection) -> Result<String, String> {
        let method = &self.method;
        let body = format!(r#"{{"payment_id":"{id}","payment_method":"{method}"}}"#);
        let request = post(&self.key, "/api/v1/payments/start", &body);
        expect("start", 200, server, request).await?;
        let answer = json(server);
        let page = answer["redirect_url"].as_str();
        page.map(str::to_owned)
            .ok_or_else(|| format!("start: {answer}"))
    }

    /// Makes one payment whose payer does not return, so that only callbacks complete it. Returns its id and the
    /// URL of the provider's page.
    pub(super) fn pay_once(&self) -> (String, String) {
        let (id, page) = alone(async {
            let mut server = Connection::open(self.server).await;
            let creates = RefCell::new(Creates::by_method(&self.key, &self.method));
            let id = self.create(&creates, &mut server).await.unwrap();
            let page = self.start(&id, &mut server).await.unwrap();
            (id, page)
        });
        std::thread::sleep(QUIET);
        alone(approve(&page, &mut None)).unwrap();
        let began = Instant::now();
        loop {
            let read = get(&self.key, &format!("/api/v1/payments/{id}"));
            let (_, answer) = once(self.server, &read);
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["status"] == "completed" {
                break;
            }
            assert!(began.elapsed() < PAYMENT_TIMEOUT, "{answer}");
            std::thread::sleep(QUIET / 10);
        }
        std::thread::sleep(QUIET);
        (id, page)
    }
}

/// Approves as the payer. Returns the path of the redirect.
async fn approve(
    page: &str,
    provider: &mut Option<(Connection, Instant)>,
) -> Result<String, String> {
    let (form, session) = page.rsplit_once('/').unwrap();
    let (host, path) = form
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let is_fresh = |(_, used): &(Connection, Instant)| used.elapsed() < IDLE;
    if !provider.as_ref().is_some_and(is_fresh) {
        let opened = Connection::try_open(host.parse().unwrap()).await;
        let opened = opened.map_err(|error| format!("approval: {error}"))?;
        *provider = Some((opened, Instant::now()));
    }
    let (provider, used) = provider.as_mut().unwrap();
    let body = format!("session={session}&outcome=approve");
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    expect("approval", 303, provider, request.into()).await?;
    *used = Instant::now();
    let back = provider.header("location").unwrap();
    let (_, rest) = back.split_once("://").unwrap();
    Ok(rest[rest.find('/').unwrap()..].to_owned())
}

/// Sends a request of a step. An error describes the response if it has another status.
async fn expect(
    step: &str,
    status: u16,
    connection: &mut Connection,
    request: Vec<u8>,
) -> Result<(), String> {
    match connection.try_ask(request).await {
        Ok(answered) if answered == status => Ok(()),
        Ok(answered) => Err(format!("{step}: {answered} {}", json(connection))),
        Err(error) => Err(format!("{step}: {error}")),
    }
}

fn json(connection: &Connection) -> Value {
    serde_json::from_slice(connection.body()).unwrap_or_default()
}
