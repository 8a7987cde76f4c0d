//! Measures the number of events per second that reach a fast receiver, compared with a plain HTTP client
//! that posts the same headers and as many bytes to the same receiver. Client, gateway and receiver run in
//! one process. The plain client posts over as many connections as one endpoint gets, and also in a plain
//! loop, one request after the other. Each round measures stores with few and with many delivered events in
//! alternating order. A store with few events is created again for each round. With `--aged`, it has instead
//! delivered as many events as the other and deleted them, so that both have the same history and differ only
//! in their content.
//!
//! ```sh
//! cargo bench -p kassette-gateway --bench deliveries -- \
//!     [--events N] [--rounds N] [--stored FEW,MANY] [--aged] [--folder DIR]
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement, run by hand"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kassette_domain::audit::Audited;
use kassette_domain::id::{EndpointId, MerchantId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::merchant::Merchant;
use kassette_domain::policy::Policy;
use kassette_domain::time::Time;
use kassette_domain::webhook::{DeliveryAttempt, EventFilter, Tried};
use kassette_gateway::Gateway;
use kassette_gateway::clock::{Clock, SystemClock};
use kassette_gateway::settings::{Settings, Webhooks};
use kassette_gateway::webhooks::NewEndpoint;
use kassette_http::{Client, Guard, HeaderMap, Method, Request};
use kassette_runtime::{Runtime, RuntimeConfig};
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{NewMerchant, SledStore, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of connections of the gateway and of the plain client.
const CONNECTIONS: usize = 8;
/// Size of a `webhook.test` body in bytes. The plain client posts as many.
const BODY: usize = 305;
/// Number of concurrent store operations that queue events.
const QUEUERS: usize = 256;

struct Options {
    /// Number of events delivered per round.
    events: usize,
    rounds: usize,
    /// Numbers of events delivered before. Each is measured separately.
    stored: Vec<usize>,
    /// Whether stores with few events have delivered as many as the largest one.
    aged: bool,
    folder: PathBuf,
}

impl Options {
    fn read() -> Self {
        let mut options = Self {
            events: 20_000,
            rounds: 5,
            stored: vec![1_000],
            aged: false,
            folder: std::env::temp_dir(),
        };
        let mut arguments = std::env::args()
            .skip(1)
            .filter(|argument| argument != "--bench");
        while let Some(name) = arguments.next() {
            if name == "--aged" {
                options.aged = true;
                continue;
            }
            let value = arguments.next().unwrap_or_default();
            match name.as_str() {
                "--events" => options.events = value.parse().unwrap(),
                "--rounds" => options.rounds = value.parse().unwrap(),
                "--stored" => {
                    let numbers = value.split(',');
                    options.stored = numbers.map(|number| number.parse().unwrap()).collect();
                }
                "--folder" => options.folder = value.into(),
                other => panic!("{other} is no option"),
            }
        }
        options
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let options = Options::read();
    let folder = format!("kassette-deliveries-{}", std::process::id());
    let folder = options.folder.join(folder);
    let receiver = Receiver::start().await;
    let most = options.stored.iter().max().copied().unwrap_or_default();
    let mut places: Vec<Option<Place>> = options.stored.iter().map(|_| None).collect();
    let mut rounds = vec![Vec::new(); options.stored.len()];
    // Alternating, so that other load on the machine affects all of them.
    for round in 1..=options.rounds {
        let mut turns: Vec<_> = options.stored.iter().enumerate().collect();
        // Each store is measured first equally often.
        turns.rotate_left(round % options.stored.len());
        for (at, stored) in turns {
            // If the rounds themselves would add too many events, each round uses a new store.
            let grows = options.events * options.rounds > stored / 2;
            if let Some(place) = places[at].take_if(|_| grows && !options.aged) {
                place.remove().await;
            }
            if let Some(place) = places[at].as_ref().filter(|_| grows) {
                place.keep(*stored).await;
            }
            if places[at].is_none() {
                let began = Instant::now();
                let place = folder.join(at.to_string());
                let past = if options.aged { most } else { *stored };
                let place = Place::with(&place, &receiver, *stored, past).await;
                println!(
                    "{stored} delivered before, filled in {:.1?}",
                    began.elapsed()
                );
                places[at] = Some(place);
            }
            let place = places[at].as_ref().unwrap();
            let many = bare(&receiver, options.events, CONNECTIONS).await;
            let one = bare(&receiver, options.events, 1).await;
            let (delivered, worked) = deliver(place, &receiver, options.events).await;
            println!(
                "  round {round}, {stored} stored: {delivered:.0} deliveries/s, {worked:.1} us of a \
                 processor each; bare client {many:.0}/s over {CONNECTIONS} connections, {one:.0}/s \
                 in a loop"
            );
            rounds[at].push([delivered, delivered / many, delivered / one, worked]);
        }
    }
    for (stored, rounds) in options.stored.iter().zip(&rounds) {
        let [delivered, ratio, of_loop, worked] = std::array::from_fn(|which| {
            let [_, median, _] = quartiles(rounds.iter().map(|round| round[which]));
            median
        });
        println!(
            "{stored} stored, median of {} rounds of {} events: {delivered:.0} deliveries/s, \
             {worked:.1} us of a processor each, ratio {ratio:.2} to {CONNECTIONS} connections, \
             {of_loop:.2} to a loop",
            options.rounds, options.events
        );
    }
    if let ([few, others @ ..], [with_few, with_others @ ..]) = (&options.stored[..], &rounds[..]) {
        for (stored, rounds) in others.iter().zip(with_others) {
            // Compares measurements of the same round, because other load on the machine changes from minute
            // to minute.
            let [rate, work] = [0, 3].map(|which| {
                let pairs = rounds.iter().zip(with_few);
                quartiles(pairs.map(|(many, few)| many[which] / few[which]))
            });
            println!(
                "{stored} stored, of each round with {few}, quartiles: {rate:.2?} of the rate, \
                 {work:.2?} of the work"
            );
        }
    }
    for place in places.into_iter().flatten() {
        place.remove().await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

/// A gateway with a separate store and one endpoint.
struct Place {
    folder: PathBuf,
    store: Arc<dyn Store>,
    gateway: Gateway,
    endpoint: EndpointId,
}

impl Place {
    async fn new(folder: &Path, receiver: &Receiver) -> Self {
        let store = open(folder);
        let gateway = gateway(&store, folder);
        let endpoint = endpoint(&gateway, receiver.address).await;
        Self {
            folder: folder.to_owned(),
            store,
            gateway,
            endpoint,
        }
    }

    /// Creates a place with `stored` delivered events that has delivered `past` events in total.
    async fn with(folder: &Path, receiver: &Receiver, stored: usize, past: usize) -> Self {
        let place = Self::new(folder, receiver).await;
        if past > stored {
            queue(&place.store, place.endpoint, past - stored, true).await;
            place.keep(stored).await;
        } else {
            queue(&place.store, place.endpoint, stored, true).await;
        }
        place
    }

    /// Delivers `stored` events and deletes all earlier ones.
    async fn keep(&self, stored: usize) {
        // Events queued in the same millisecond would not be deleted.
        let before = SystemClock.now().after(Duration::from_millis(1));
        while SystemClock.now() <= before {
            tokio::task::yield_now().await;
        }
        queue(&self.store, self.endpoint, stored, true).await;
        let mut after = None;
        loop {
            let pruned = self.store.prune_deliveries(before, after, usize::MAX);
            after = pruned.await.unwrap().next;
            if after.is_none() {
                break;
            }
        }
    }

    async fn remove(self) {
        drop(self.gateway);
        self.store.shut_down().await.unwrap();
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

fn open(folder: &Path) -> Arc<dyn Store> {
    SledStore::open(&OpenOptions {
        path: folder.join("store"),
        master: MasterKey::from_bytes([7; 32]),
        // The default of `store.cache_mib`.
        cache_bytes: 8 << 20,
    })
    .unwrap()
}

fn gateway(store: &Arc<dyn Store>, folder: &Path) -> Gateway {
    let modules = folder.join("plugins");
    std::fs::create_dir_all(&modules).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let guard = Guard {
        allow_loopback: true,
    };
    let config = RuntimeConfig::new(modules, Arc::new(|| SystemClock.now()));
    let runtime = Runtime::start(config, Client::new(guard)).unwrap();
    Gateway::new(Arc::clone(store), runtime, clock, settings())
}

fn settings() -> Settings {
    Settings {
        plain_loopback: true,
        webhooks: Webhooks {
            allow_loopback: true,
            ..Webhooks::default()
        },
        ..Settings::new("https://pay.example")
    }
}

fn audited() -> Audited {
    Audited {
        operator: "root".into(),
        operator_id: None,
        actor: "root".into(),
        reason: None,
        action: "endpoint.test".into(),
        object: "endpoint".into(),
        before: None,
        after: None,
    }
}

async fn endpoint(gateway: &Gateway, address: SocketAddr) -> EndpointId {
    let merchant = Merchant {
        id: MerchantId(0),
        name: "Shop".into(),
        live_approved: false,
        rates: BTreeMap::new(),
        policy: Policy::default(),
        brand: Default::default(),
        domains: vec![],
        created_at: Time::default(),
    };
    let now = gateway.clock().now();
    let made = gateway
        .store()
        .create_merchant(NewMerchant { merchant }, audited(), now)
        .await
        .unwrap();
    let new = NewEndpoint {
        owner: KeyOwner::Merchant(made.id),
        environment: Environment::Test,
        url: format!("http://{address}/hook"),
        event_types: EventFilter::All,
        created_by: kassette_domain::webhook::EndpointCreator::System,
    };
    let issued = gateway.create_endpoint(new, audited()).await.unwrap();
    issued.endpoint.id
}

/// Queues events concurrently. With `deliver`, marks each as delivered immediately, without a worker.
async fn queue(store: &Arc<dyn Store>, endpoint: EndpointId, events: usize, deliver: bool) {
    let tasks: Vec<_> = (0..QUEUERS)
        .map(|at| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for _ in (at..events).step_by(QUEUERS) {
                    let now = SystemClock.now();
                    let queued = store.queue_test(endpoint, audited(), now).await;
                    let id = queued.unwrap().unwrap().id;
                    if deliver {
                        let tried = Tried {
                            attempt: DeliveryAttempt {
                                at: now,
                                status: Some(200),
                                duration_ms: 1,
                                error: None,
                                response: Some("ok".into()),
                            },
                            after: 0,
                            delivered: true,
                            retry_at: now,
                        };
                        store.tried(id, tried, None, now).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Processor time of this process in microseconds: ticks of 10 ms, user and system (proc(5)).
fn processor_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        * 10_000.0
}

/// Delivers events that are queued in advance. Returns deliveries per second, and microseconds of processor
/// time per delivery, including the receiver's.
async fn deliver(place: &Place, receiver: &Receiver, events: usize) -> (f64, f64) {
    let (gateway, store) = (&place.gateway, &place.store);
    queue(store, place.endpoint, events, false).await;
    let done = receiver.count() + events;
    let stop = Arc::new(Notify::new());
    let (began, worked) = (Instant::now(), processor_us());
    let workers = tokio::spawn({
        let (gateway, stop) = (gateway.clone(), Arc::clone(&stop));
        async move { gateway.run_workers(stop.notified()).await }
    });
    receiver.reaches(done).await;
    let pending = async {
        while store.backlog().await.unwrap().pending > 0 {
            tokio::task::yield_now().await;
        }
    };
    pending.await;
    let (took, worked) = (began.elapsed(), processor_us() - worked);
    stop.notify_one();
    workers.await.unwrap();
    (events as f64 / took.as_secs_f64(), worked / events as f64)
}

/// Posts bodies like events with a plain client. Returns requests per second.
async fn bare(receiver: &Receiver, events: usize, connections: usize) -> f64 {
    let client = Client::new(Guard {
        allow_loopback: true,
    });
    let url = url::Url::parse(&format!("http://{}/hook", receiver.address)).unwrap();
    let mut headers = HeaderMap::new();
    let event = "0123456789abcdef".repeat(2);
    let signature = format!("v1={}", event.repeat(2));
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-service-event-id", event.as_str()),
        ("x-service-timestamp", "1800000000"),
        ("x-service-signature", signature.as_str()),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let began = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|at| {
            let (client, url, headers) = (client.clone(), url.clone(), headers.clone());
            tokio::spawn(async move {
                for _ in (at..events).step_by(connections) {
                    let request = Request {
                        method: Method::POST,
                        url: url.clone(),
                        headers: headers.clone(),
                        body: vec![b'x'; BODY].into(),
                        deadline: Duration::from_secs(10),
                        max_response: 4096,
                        hosts: None,
                    };
                    client.send(request).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    events as f64 / began.elapsed().as_secs_f64()
}

/// Answers 200 to everything, as cheaply as possible.
struct Receiver {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        tokio::spawn({
            let count = Arc::clone(&count);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&count)));
                }
            }
        });
        Self { address, count }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    async fn reaches(&self, count: usize) {
        while self.count() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Serves one request at a time. Head and body may arrive in several reads.
async fn serve(mut stream: TcpStream, count: Arc<AtomicUsize>) {
    stream.set_nodelay(true).unwrap();
    let mut bytes = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let Some((_, length)) = text.split_once("content-length: ") else {
            panic!("a request without a length");
        };
        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
        if bytes.len() < head + 4 + length {
            continue;
        }
        bytes.clear();
        count.fetch_add(1, Ordering::Relaxed);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}
