//! An operator's day at the command line: each task, and the number of commands that it takes.
#![expect(
    clippy::print_stdout,
    reason = "the numbers are for the reader of the test"
)]

use serde_json::{Value, json};

use crate::books::kassette;
use crate::harness::Server;
use crate::receiver::{Receiver, Reply};

struct Day<'s> {
    server: &'s Server,
    commands: usize,
}

impl Day<'_> {
    /// Runs a command and returns its JSON.
    fn run(&mut self, words: &[&str]) -> Value {
        self.commands += 1;
        let mut all = words.to_vec();
        all.push("--json");
        let (code, text) = kassette(self.server, &all);
        assert_eq!(code, Some(0), "{words:?}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    /// Runs a command that changes something.
    fn change(&mut self, words: &[&str], reason: &str) -> Value {
        let mut all = words.to_vec();
        all.extend(["--actor", "Ada", "--reason", reason]);
        self.run(&all)
    }

    /// Prints how many commands a task took.
    fn took(&mut self, task: &str) -> usize {
        println!("{task}: {} commands", self.commands);
        std::mem::take(&mut self.commands)
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned()
}

#[tokio::test]
async fn an_operator_s_day_takes_fourteen_commands() {
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let (payment, url) = server.started(&key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &payment, "completed").await;
    let (held, url) = server.started(&key, "ideal", json!({})).await;
    server.pay(&url, "review").await.expect(303);
    server.until(&key, &held, "review").await;
    receiver.answer(Reply::Status(200));
    let mut day = Day {
        server: &server,
        commands: 0,
    };
    let mut all = 0;

    // A shop asks about an order.
    let found = day.run(&["find", payment["order_id"].as_str().unwrap()]);
    let id = text(&found["found"][0]["payment_id"]);
    assert_eq!(id, payment["payment_id"]);
    let shown = day.run(&["payment", "show", &id]);
    assert_eq!(shown["payment"]["status"], "completed");
    all += day.took("find");

    // Why does the shop not see a method?
    let merchant = merchant.to_string();
    let asked = ["--merchant-id", &merchant, "--environment", "test"];
    let amount = ["--amount", "49.90", "--currency", "EUR"];
    let explained = day.run(&[&["method", "explain"], &asked[..], &amount].concat());
    assert!(explained["methods"].as_array().unwrap().len() > 5);
    all += day.took("explain");

    let refund = day.change(
        &["payment", "refund", &id, "--amount", "10.00"],
        "a broken cup",
    );
    assert_eq!(refund["amount"], "10.00", "{refund}");
    all += day.took("refund");

    // The shop has lost an event.
    let listed = day.run(&["delivery", "list", "--payment-id", &id]);
    let delivery = text(&listed["deliveries"][0]["id"]);
    day.run(&["delivery", "redeliver", &delivery]);
    all += day.took("redeliver");

    // A provider has trouble.
    let account = ["provider", "update", "sandbox-test", "--enabled"];
    let off = day.change(&[&account[..], &["false"]].concat(), "an outage");
    assert_eq!(off["enabled"], false);
    let on = day.change(&[&account[..], &["file"]].concat(), "it is over");
    assert_eq!(on["enabled"], true);
    all += day.took("switch");

    let endpoint = text(&json!(hook.id));
    let rotate = ["endpoint", "rotate", &endpoint, "--overlap-hours", "24"];
    let rotated = day.change(&rotate, "yearly");
    assert!(rotated["secret"].is_string(), "{rotated}");
    all += day.took("rotate");

    let work = day.run(&["work", "list", "--kind", "review"]);
    let review = text(&work["work"][0]["id"]);
    assert_eq!(review, held["payment_id"]);
    let review = ["payment", "review", &review, "--decision", "approve"];
    day.change(&review, "the order is genuine");
    server.until(&key, &held, "completed").await;
    all += day.took("approve");

    // In the evening, the head of the log is written down; later it proves that nothing was rewritten.
    let audit = day.run(&["audit", "verify"]);
    assert_eq!(audit["verified"], true, "{audit}");
    let listed = day.run(&["audit", "list", "--action", "payment"]);
    let newest = &listed["entries"][0];
    assert_eq!(newest["actor"], "Ada", "{newest}");
    let (entry, hash) = (newest["id"].to_string(), text(&newest["hash"]));
    let proved = day.run(&["audit", "verify", "--entry", &entry, "--hash", &hash]);
    assert_eq!(proved["verified"], true, "{proved}");
    all += day.took("prove the audit log");

    println!("the whole day: {all} commands");
    assert_eq!(all, 14);
}
